// Records that are set aside: dead letters, and records that wait for a retry.

import { describe, expect, it } from 'vitest'
import { RetryLater } from '../../../core/retry/retry.ts'
import { Letters } from './letters.ts'

const record = (value: number, input?: number) => ({
  value,
  time: null,
  key: null,
  ...(input !== undefined && { input }),
})

describe('letters', () => {
  it('are listed with their reason, taken by id, and counted against the limit', () => {
    const letters = new Letters(2)
    letters.add('map', record(1), new TypeError('bad'), 10)
    letters.add('told', record(2, 1), 'worse', 11)
    expect(letters.list()).toEqual([
      { id: 1, operator: 'map', value: 1, time: null, key: null, error: 'TypeError: bad', at: 10 },
      { id: 2, operator: 'told', value: 2, time: null, key: null, error: 'worse', at: 11 },
    ])
    expect(() => letters.add('map', record(3), new Error('one more'), 12)).toThrow(/more than 2 records failed/)
    expect(letters.take([2, 9])).toMatchObject([{ operator: 'told', value: 2, input: 1 }])
    expect([letters.count, letters.take([2])]).toEqual([1, []])
    letters.add('map', record(4), new Error('fits again'), 13)
    expect(letters.list().map(({ id }) => id)).toEqual([1, 3])
  })

  it('that only wait are none: not listed, not counted, not taken by id, and back when it is time', () => {
    const letters = new Letters(0)
    letters.add('map', record(1), new RetryLater(100), 1000)
    letters.add('map', record(2), new RetryLater(50), 1000)
    letters.add('filter', record(3), new RetryLater(500), 1000)
    expect([letters.count, letters.waiting, letters.list(), letters.take([1, 2, 3])]).toEqual([0, 3, [], []])
    expect(letters.takeDue(1049)).toEqual([])
    expect(letters.takeDue(1100).map(({ value }) => value)).toEqual([1, 2])
    expect(['map', 'filter'].map((name) => letters.isWaiting(name))).toEqual([false, true])
    expect(letters.takeDue(1500).map(({ value }) => value)).toEqual([3])
    expect([letters.waiting, letters.takeDue(9999)]).toEqual([0, []])
  })

  it('are the same after a restore: waiting records still wait, and ids continue', () => {
    const before = new Letters(10)
    before.add('map', record(1), new Error('dead'), 1)
    before.add('map', record(2), new RetryLater(100), 1)
    const after = new Letters(10)
    for (const [id, letter] of before.table.space(0).entries()) after.table.add(after.table.space(0), id, letter)
    after.restored()
    expect([after.count, after.waiting, after.isWaiting('map')]).toEqual([1, 1, true])
    after.add('map', record(3), new Error('dead too'), 2)
    expect(after.list().map(({ id }) => id)).toEqual([1, 3])
    expect(after.takeDue(101)).toMatchObject([{ value: 2 }])
  })
})
