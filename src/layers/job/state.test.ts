import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Entry } from '../../engine/history/history.ts'
import { fingerprint } from './fingerprint.ts'
import { finishedSet, jobFold } from './state.ts'

const key = fc.constantFrom('a', 'b', 'c', 'd')
const error = { name: 'Error', message: 'no' }
const moves = fc.array(
  fc.oneof(
    fc.record({ type: fc.constant('done'), key }),
    fc.record({ type: fc.constant('failed'), key }),
    fc.record({ type: fc.constant('begun'), key }),
    fc.record({ type: fc.constant('dead'), key }),
    fc.record({ type: fc.constant('redriven'), key }),
    fc.record({ type: fc.constant('discarded'), key }),
  ),
  { maxLength: 60 },
)

describe('the fold of a job', () => {
  it('knows each key as finished, waiting, dead or sent back, as a plain model of it does', () => {
    const fold = jobFold()
    fc.assert(
      fc.property(moves, (moves) => {
        const state = fold.initial()
        const finished = new Set<string>()
        const [waiting, dead, back] = [new Set<string>(), new Set<string>(), new Set<string>()]
        let done = 0
        for (const [i, { type, key }] of moves.entries()) {
          const data = { key, keys: [key], attempts: 1, retryAt: 0, error, item: 1, hasItem: true }
          fold.apply(state, { timeline: 'job/j', seq: i + 1, time: i, type, data } as unknown as Entry)
          if (type === 'failed' || type === 'begun') waiting.add(key)
          if (type === 'done' || type === 'dead') for (const set of [waiting, dead, back]) set.delete(key)
          if (type === 'done') finished.add(key)
          if (type === 'done') done += 1
          if (type === 'dead') dead.add(key)
          if ((type === 'redriven' || type === 'discarded') && dead.delete(key))
            (type === 'redriven' ? back : finished).add(key)
          expect([...state.waiting.keys()].sort()).toEqual([...waiting].sort())
          expect([...state.dead.keys()].sort()).toEqual([...dead].sort())
          expect([...state.redrive.keys()].sort()).toEqual([...back].sort())
        }
        for (const each of ['a', 'b', 'c', 'd']) {
          expect(finishedSet(state).has(fingerprint(each), '')).toBe(finished.has(each))
        }
        expect(state.done).toBe(done)
      }),
      { numRuns: 300 },
    )
  })

  it('starts a new round with new counts, and continues the same one', () => {
    const fold = jobFold()
    const state = fold.initial()
    const apply = (type: string, data: object, time: number) =>
      fold.apply(state, { timeline: 'job/j', seq: 1, time, type, data } as unknown as Entry)
    apply('started', { round: 1, shards: 1, shard: 0 }, 10)
    apply('done', { keys: ['a'] }, 11)
    apply('stopped', { because: 'asked' }, 12)
    apply('started', { round: 1, shards: 1, shard: 0 }, 20)
    expect(state).toMatchObject({ roundDone: 1, startedAt: 10, status: 'running' })
    apply('finished', { round: 1, done: 1, skipped: 0, failed: 0, cursor: null }, 21)
    apply('started', { round: 2, shards: 1, shard: 0 }, 30)
    expect(state).toMatchObject({ roundDone: 0, done: 1, startedAt: 30, endedAt: 0 })
  })
})
