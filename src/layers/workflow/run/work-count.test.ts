import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Latch } from '../../../lib/waiting.ts'
import { reportedLater, Work } from './work-count.ts'

describe('work', () => {
  it('is idle exactly when no work is under way, and reports each change to idle', async () => {
    const kind = fc.constantFrom('nothing', 'promise', 'told')
    await fc.assert(
      fc.asyncProperty(fc.array(kind, { minLength: 1, maxLength: 12 }), async (kinds) => {
        let idle = 0
        const work = new Work(
          () => {
            idle += 1
          },
          () => expect.unreachable(),
        )
        const ends: (() => void)[] = []
        for (const each of kinds) {
          if (each === 'nothing') work.during(() => undefined)
          else if (each === 'promise') work.during(() => new Promise<void>((resolve) => ends.push(resolve)))
          else {
            work.during(() => reportedLater)
            ends.push(work.done)
          }
        }
        expect(work.count).toBe(kinds.length)
        for (const end of ends) end()
        await new Promise((resolve) => setImmediate(resolve))
        expect({ count: work.count, isIdle: work.isIdle, wasTold: idle > 0 }).toEqual({
          count: 0,
          isIdle: true,
          wasTold: true,
        })
      }),
    )
  })

  it('that fails, at once or later, is reported as failed and not as done', async () => {
    const errors: unknown[] = []
    const work = new Work(
      () => expect.unreachable(),
      (error) => errors.push(error),
    )
    work.during(() => {
      throw 'at once'
    })
    work.during(() => Promise.reject('later'))
    await new Promise((resolve) => setImmediate(resolve))
    expect(errors).toEqual(['at once', 'later'])
    expect(work.isIdle).toBe(true)
  })

  it('ends once', () => {
    const work = new Work(
      () => undefined,
      () => undefined,
    )
    expect(() => work.done()).toThrow('work ends once')
  })
})

describe('a latch', () => {
  it('resolves earlier and later waits, and the first value counts', async () => {
    const latch = new Latch<number>()
    const before = latch.wait()
    expect(latch.isSet).toBe(false)
    latch.set(1)
    latch.set(2)
    expect(await Promise.all([before, latch.wait()])).toEqual([1, 1])
  })
})
