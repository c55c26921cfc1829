// The guard of determinism: while code runs that history is replayed through (a zone), the clock, chance and ids come from
// the zone, and calls that reach the outside are refused with the line that made them. Everybody else gets the originals, at
// the price of one look. Installed while an engine that needs it is open, and taken out again with the last of them.

import { syncBuiltinESMExports } from 'node:module'
import { guardChance } from './chance.ts'
import { guardClock } from './clock.ts'
import { guardHops } from './hops.ts'
import { forgetModules, guardGlobals, guardModules } from './outside.ts'
import { restoreAll } from './patch.ts'
import { type FindZone, setFinder } from './zone.ts'

let holders = 0
let finders = 0

/**
 * Installs the guard, or shares it; the returned function lets go of it. With `find`, code that waits is guarded as well:
 * it may load any module meanwhile, so all of them are.
 */
export function installGuard(find?: FindZone): () => void {
  if (holders === 0) {
    guardClock()
    guardChance()
    guardGlobals()
    guardHops()
  }
  holders += 1
  if (find) {
    finders += 1
    setFinder(find)
  }
  if (guardModules(find !== undefined)) syncBuiltinESMExports()
  let isHeld = true
  return () => {
    if (!isHeld) return
    isHeld = false
    holders -= 1
    if (find) finders -= 1
    if (finders === 0) setFinder(null)
    if (holders > 0) return
    restoreAll()
    forgetModules()
    syncBuiltinESMExports()
  }
}
