import { expect, it } from 'vitest'
import type { Clock } from '../../core/store/ports.ts'
import { Yielder } from './yielder.ts'

/** Time passes only with work; iterations of the event loop are counted. */
function world() {
  const clock = { now: 0, turns: 0 }
  const given = {
    elapsed: () => clock.now,
    soon: (call: () => void) => {
      setImmediate(() => {
        clock.turns += 1
        call()
      })
    },
  }
  return { clock, yielder: new Yielder(given as unknown as Clock) }
}

it('one who works without waiting gives a turn per slice', async () => {
  const { clock, yielder } = world()
  for (let i = 0; i < 100; i++) {
    if (yielder.isDue) await yielder.take()
    clock.now += 1
  }
  expect(clock.turns).toBe(24)
})

it('many who begin in one moment share the slices, in their order, and others have as many turns', async () => {
  const { clock, yielder } = world()
  const done: number[] = []
  const each = async (n: number) => {
    for (let part = 0; part < 2; part++) {
      if (yielder.isDue) await yielder.take()
      clock.now += 1
    }
    done.push(n)
  }
  await Promise.all(Array.from({ length: 100 }, (_, n) => each(n)))
  expect(clock.turns).toBeGreaterThanOrEqual(45)
  expect(done).toEqual(Array.from({ length: 100 }, (_, n) => n))
})
