import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Entry } from '../../engine/recovery/history.ts'
import { nextTurns, type QueueOptions, type QueueState, queueFold } from './queue.ts'

function apply(state: QueueState, type: string, data: object, seq: number, time: number): void {
  queueFold.apply(state, { timeline: 'workflow-queue/q', type, data, seq, time } as unknown as Entry)
}

const options = fc.record(
  {
    concurrency: fc.integer({ min: 1, max: 4 }),
    perKey: fc.integer({ min: 1, max: 2 }),
    rate: fc.constant({ max: 2, per: 10 }),
  },
  { requiredKeys: [] },
)
const moves = fc.array(
  fc.oneof(
    fc.record({
      kind: fc.constant('enter' as const),
      key: fc.constantFrom('', 'a', 'b'),
      priority: fc.integer({ min: -2, max: 2 }),
    }),
    fc.record({ kind: fc.constant('leave' as const), pick: fc.nat(20) }),
    fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 15 }) }),
  ),
  { maxLength: 40 },
)

describe('a queue', () => {
  it('never lets in more than it may, and whoever waits does so for a reason', () => {
    fc.assert(
      fc.property(options, moves, (options: QueueOptions, moves) => {
        const state = queueFold.initial()
        const grants: number[] = []
        let seq = 0
        let now = 0
        for (const move of moves) {
          seq += 1
          if (move.kind === 'enter')
            apply(state, 'entered', { run: `r${seq}`, key: move.key, priority: move.priority }, seq, now)
          else if (move.kind === 'leave') apply(state, 'left', { run: `r${move.pick}` }, seq, now)
          else now += move.ms
          const { runs, wakeup } = nextTurns(state, options, now)
          for (const run of runs) {
            seq += 1
            apply(state, 'granted', { run }, seq, now)
            grants.push(now)
          }
          const active = [...state.active.entries()]
          const ofKey = (key: string) => active.filter(([, each]) => each === key).length
          expect(active.length).toBeLessThanOrEqual(options.concurrency ?? Number.POSITIVE_INFINITY)
          for (const key of ['a', 'b'])
            expect(ofKey(key)).toBeLessThanOrEqual(options.perKey ?? Number.POSITIVE_INFINITY)
          const recent = grants.filter((at) => at > now - 10).length
          if (options.rate) expect(recent).toBeLessThanOrEqual(options.rate.max)
          const isFull = active.length >= (options.concurrency ?? Number.POSITIVE_INFINITY)
          const isLimited = options.rate !== undefined && recent >= options.rate.max
          if (isFull || isLimited) continue
          expect(wakeup).toBeNull()
          for (const [, { key }] of state.waiting.entries()) {
            expect(key !== '' && ofKey(key) >= (options.perKey ?? Number.POSITIVE_INFINITY)).toBe(true)
          }
        }
      }),
    )
  })

  it('lets the higher priority in first, and then the earlier', () => {
    const state = queueFold.initial()
    const enter = (run: string, priority: number, seq: number) =>
      apply(state, 'entered', { run, key: '', priority }, seq, 0)
    enter('low', -1, 1)
    enter('first', 0, 2)
    enter('second', 0, 3)
    enter('high', 5, 4)
    expect(nextTurns(state, {}, 0).runs).toEqual(['high', 'first', 'second', 'low'])
  })

  it('says when to look again if the rate alone stands in the way', () => {
    const state = queueFold.initial()
    for (const seq of [1, 2]) apply(state, 'entered', { run: `r${seq}`, key: '', priority: 0 }, seq, 0)
    apply(state, 'granted', { run: 'r1' }, 3, 100)
    expect(nextTurns(state, { rate: { max: 1, per: 50 } }, 120)).toEqual({ runs: [], wakeup: 150 })
    expect(nextTurns(state, { rate: { max: 1, per: 50 } }, 150)).toEqual({ runs: ['r2'], wakeup: null })
  })
})
