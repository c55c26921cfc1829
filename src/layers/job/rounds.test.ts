import { expect, it } from 'vitest'
import type { Head } from '../../core/store/ports.ts'
import { isFinished, roundOf, timelinesOf } from './rounds.ts'

const head = (status: string, round: number) => ({ status, attributes: { round } }) as unknown as Head

it('a job with one shard is one timeline; with more, they are numbered below it', () => {
  expect(timelinesOf('j', 1)).toEqual(['job/j'])
  expect(timelinesOf('j', 3)).toEqual(['job/j/0', 'job/j/1', 'job/j/2'])
})

it.each([
  ['the first, if there is nothing', [null, null], 1],
  ['the one that is under way', [head('completed', 2), head('running', 2)], 2],
  ['the one that some shards have not begun', [head('completed', 2), head('completed', 1)], 2],
  ['the one that a shard has no timeline for yet', [head('completed', 2), null], 2],
  ['the next, if all have finished the last', [head('completed', 2), head('completed', 2)], 3],
])('the round to work on is %s', (_, heads, round) => {
  expect(roundOf(heads)).toBe(round)
})

it('a shard has finished a round that it finished, or one before', () => {
  expect([1, 2, 3].map((round) => isFinished(head('completed', 2), round))).toEqual([true, true, false])
  expect(isFinished(head('stopped', 2), 2)).toBe(false)
  expect(isFinished(null, 1)).toBe(false)
})
