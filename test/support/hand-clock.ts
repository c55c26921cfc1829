// A clock for pauses of hours: short ones pass by themselves, longer ones on request of the test.

import type { Clock } from '../../src/core/store/ports.ts'
import { systemClock } from '../../src/engine/base/platform.ts'

/** `shortMs`: below this, a pause passes by itself. */
export function handClock(shortMs = 60_000): { readonly clock: Clock; pass(ms: number): void } {
  let passed = 0
  const waiting = new Set<{ readonly at: number; call(): void }>()
  const clock: Clock = {
    ...systemClock,
    now: () => systemClock.now() + passed,
    elapsed: () => systemClock.elapsed() + passed,
    after(delayMs, call, isAwaited) {
      if (delayMs < shortMs) return systemClock.after(delayMs, call, isAwaited)
      const one = { at: passed + delayMs, call }
      waiting.add(one)
      return () => void waiting.delete(one)
    },
  }
  const pass = (ms: number) => {
    passed += ms
    for (const one of [...waiting]) if (one.at <= passed && waiting.delete(one)) one.call()
  }
  return { clock, pass }
}
