// A client with an open connection sends a request in a later tick, where the stack shows only the client's own code.
// Therefore a tick scheduled by code in a zone carries the user's line that scheduled it.

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
