// The machine's clock, frozen within each turn of the event loop: a time that a test records in an item equals the time that
// the rate limit used, however busy the machine is.

import type { Clock } from '../../src/core/store/ports.ts'
import { systemClock } from '../../src/engine/base/platform.ts'

export function frozenClock(): Clock & { stop(): void } {
  let now = performance.now()
  const look = () => {
    now = performance.now()
  }
  const turn = (call: () => void) => () => {
    look()
    call()
  }
  const timer = setInterval(look, 1)
  return {
    now: systemClock.now,
    elapsed: () => now,
    after: (delayMs, call, isAwaited) => systemClock.after(delayMs, turn(call), isAwaited),
    soon: (call) => systemClock.soon(turn(call)),
    next: systemClock.next,
    stop: () => clearInterval(timer),
  }
}
