// The determinism guard: while replayed code (a zone) runs, the clock, randomness and ids come from the zone, and calls
// to the outside are refused with the line that made them. All other code gets the originals, at the cost of one check.
// Installed while at least one engine that needs it is open, and removed with the last of them.

import { runtime } from '../../../lib/runtime/index.ts'
import { guardClock } from './clock.ts'
import { forgetModules, guardGlobals, guardModules } from './outside-calls.ts'
import { type Any, dress, replace, restoreAll } from './patch.ts'
import { guardChance } from './randomness.ts'
import { inTickOf, userLine } from './refusal.ts'
import { type FindZone, setFinder, zoneNow } from './zone.ts'

let holders = 0
let finders = 0

/**
 * Installs the guard, or shares the installed one; the returned function releases it. With `find`, asynchronous code is
 * guarded too: it may load any module while it waits, so all modules are guarded.
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
  // Where nothing is published, only functions reached through the module object are guarded.
  if (guardModules(find !== undefined)) runtime.publishModules?.()
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
    runtime.publishModules?.()
  }
}

/**
 * A client with an open connection sends a request in a later tick, where the stack shows only the client's own code.
 * Therefore a tick scheduled by code in a zone carries the user's line that scheduled it.
 */
function guardHops(): void {
  hop(process, 'nextTick')
  hop(globalThis, 'queueMicrotask')
}

function hop(owner: object, name: string): void {
  const original = (owner as Any)[name]
  const guarded = function (this: unknown, call: unknown, ...args: unknown[]) {
    if (typeof call !== 'function' || zoneNow() === null) return Reflect.apply(original, this, [call, ...args])
    const line = userLine()
    const wrapped = (...given: unknown[]) => inTickOf(line, () => Reflect.apply(call, undefined, given))
    return Reflect.apply(original, this, [wrapped, ...args])
  }
  replace(owner, name, dress(guarded, original))
}
