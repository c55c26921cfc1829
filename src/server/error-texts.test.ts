import { expect, it } from 'vitest'
import { timelineId } from '../core/coordinate.ts'
import { causesOf } from './error-texts.ts'

const failed = (id: string, updatedAt: number, error: string) => {
  return { timeline: timelineId(id), isUnfinished: false, needsPerson: true, updatedAt, error }
}

it('counts each cause over the same spans of time, from the first failure of all to the last', () => {
  const rows = [
    failed('a', 1000, '503 for order-1'),
    failed('b', 1000, '503 for order-2'),
    failed('c', 1600, 'card declined'),
    failed('d', 2200, '503 for order-3'),
  ]
  expect(causesOf(rows)).toEqual([
    {
      error: '503 for …',
      count: 3,
      firstAt: 1000,
      lastAt: 2200,
      times: [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
      timeline: 'd',
    },
    {
      error: 'card declined',
      count: 1,
      firstAt: 1600,
      lastAt: 1600,
      times: [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0],
      timeline: 'c',
    },
  ])
})
