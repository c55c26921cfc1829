// The queue returns its items in the order of a sorted list.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { TimeQueue } from './time-queue.ts'

it('returns due items in the order of time, each once', () => {
  const item = fc.record({ time: fc.integer({ min: 0, max: 20 }), name: fc.integer({ min: 0, max: 5 }) })
  fc.assert(
    fc.property(fc.array(item), fc.integer({ min: 0, max: 20 }), (items, until) => {
      const queue = new TimeQueue<number>()
      for (const { time, name } of items) queue.add(time, name)
      const taken: [number, number[]][] = []
      for (let due = queue.take(until); due; due = queue.take(until)) taken.push([due.time, [...due.items].sort()])
      const times = [...new Set(items.map(({ time }) => time))].sort((a, b) => a - b)
      const names = (at: number) =>
        [...new Set(items.filter(({ time }) => time === at).map(({ name }) => name))].sort((a, b) => a - b)
      expect(taken).toEqual(times.filter((time) => time <= until).map((time) => [time, names(time)]))
      expect(queue.next).toBe(times.find((time) => time > until) ?? Number.POSITIVE_INFINITY)
    }),
  )
})
