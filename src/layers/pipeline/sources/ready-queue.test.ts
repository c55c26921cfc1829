import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ReadyQueue } from './ready-queue.ts'

describe('what partitions have ready', () => {
  it('is emitted in turns, and in the order of each partition, with the position after it', async () => {
    const step = fc.record({
      partition: fc.constantFrom('a', 'b', 'c'),
      count: fc.nat(5),
      max: fc.integer({ min: 1, max: 4 }),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const queue = new ReadyQueue<number>()
        const pushed = new Map([
          ['a', 0],
          ['b', 0],
          ['c', 0],
        ])
        const given = new Map([
          ['a', 0],
          ['b', 0],
          ['c', 0],
        ])
        let waiting = 0
        const read = async (max: number) => {
          const batch = (await queue.take(max))!
          const before = given.get(batch.partition)!
          expect(batch.values.length).toBeLessThanOrEqual(max)
          expect(batch.values).toEqual(batch.values.map((_, i) => before + i))
          // The position is never behind records that were not returned.
          expect(batch.position).toBe(before + batch.values.length)
          given.set(batch.partition, before + batch.values.length)
        }
        for (const { partition, count, max } of steps) {
          const first = pushed.get(partition)!
          const values = Array.from({ length: count }, (_, i) => first + i)
          pushed.set(partition, first + count)
          waiting += 1
          void queue
            .push({ partition, values, positionAt: (n) => first + n, position: first + count })
            .then(() => (waiting -= 1))
          if (max < 3) await read(max)
        }
        await Promise.resolve()
        for (let n = 0; n < 1000 && waiting > 0; n++) await read(3)
        expect(waiting).toBe(0)
        expect(given).toEqual(pushed)
      }),
    )
  })

  it('wakes a reader, reports a failure to it, and ends', async () => {
    const queue = new ReadyQueue<number>()
    const first = queue.take(10)
    void queue.push({ partition: '', values: [1, 2], position: 2 })
    expect(await first).toEqual({ partition: '', values: [1, 2], position: 2 })
    const second = queue.take(10)
    queue.fail(new Error('gone'))
    await expect(second).rejects.toThrow('gone')
    queue.close()
    expect(await queue.take(1)).toBeNull()
    await queue.push({ partition: '', values: [3], position: 3 })
  })
})
