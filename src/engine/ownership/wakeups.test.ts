// Expected wakeups: no claim for one is late, whatever other claims are made in between.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Wakeups } from './wakeups.ts'

it('every wakeup has its look within a few milliseconds, and none before its time', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 20_000 }), { maxLength: 30 }),
      fc.integer({ min: 100, max: 3000 }),
      (times, pollMs) => {
        const wakeups = new Wakeups()
        for (const time of times) wakeups.add(time)
        const looks: number[] = []
        for (let at = 0; at < 25_000; at = wakeups.next(at, at + pollMs)) looks.push(at)
        for (const time of times) expect(looks.some((at) => at >= time && at <= time + 12)).toBe(true)
      },
    ),
  )
})
