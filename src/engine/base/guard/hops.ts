// A client that is connected already does what it is asked in a tick of its own, where the stack tells of the client
// alone. So a tick that code in a zone leads to carries the line of the user's that led to it.

import { type Any, dress, replace } from './patch.ts'
import { inTickOf, userLine } from './refusal.ts'
import { zoneNow } from './zone.ts'

export function guardHops(): void {
  hop(process, 'nextTick')
  hop(globalThis, 'queueMicrotask')
}

function hop(owner: object, name: string): void {
  const original = (owner as Any)[name]
  const guarded = function (this: unknown, call: unknown, ...args: unknown[]) {
    if (typeof call !== 'function' || zoneNow() === null) return Reflect.apply(original, this, [call, ...args])
    const line = userLine()
    const told = (...given: unknown[]) => inTickOf(line, () => Reflect.apply(call, undefined, given))
    return Reflect.apply(original, this, [told, ...args])
  }
  replace(owner, name, dress(guarded, original))
}
