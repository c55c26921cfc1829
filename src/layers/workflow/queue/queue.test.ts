import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { keyed } from '../../../core/keyed-state/keyed.ts'
import type { Entry } from '../../../engine/history/history.ts'
import { nextTurns, type QueueOptions, type QueueState, queueFold } from './queue-state.ts'

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

type Move = { kind: 'enter'; key: string; priority: number } | { kind: 'leave'; pick: number } | { kind: 'wait' }
type Entered = { run: string; key: string; priority: number }

function entryOf(move: Move, seq: number): { type: string; data: object } {
  if (move.kind === 'enter')
    return { type: 'entered', data: { run: `r${seq / 100}`, key: move.key, priority: move.priority } }
  return { type: 'left', data: { run: move.kind === 'leave' ? `r${move.pick}` : 'nobody' } }
}

/** The same queue without an index. */
class PlainQueue {
  #active: { run: string; key: string }[] = []
  #waiting: { place: string; run: string; key: string }[] = []
  readonly #grants: number[] = []

  apply(type: string, { run, key, priority }: Entered, seq: number): void {
    const one = this.#waiting.find((each) => each.run === run)
    if (type === 'entered') {
      this.#waiting.push({
        place: `${String(1e6 - priority).padStart(8, '0')}.${String(seq).padStart(12, '0')}`,
        run,
        key,
      })
      this.#waiting.sort((a, b) => (a.place < b.place ? -1 : 1))
      return
    }
    this.#waiting = this.#waiting.filter((each) => each !== one)
    if (type === 'left') this.#active = this.#active.filter((each) => each.run !== run)
    else {
      this.#grants.push(seq)
      if (one) this.#active.push(one)
    }
  }

  turns({ concurrency = Number.POSITIVE_INFINITY, perKey = Number.POSITIVE_INFINITY }: QueueOptions): string[] {
    const active = [...this.#active]
    for (const one of this.#waiting) {
      if (active.length >= concurrency) break
      if (one.key !== '' && active.filter(({ key }) => key === one.key).length >= perKey) continue
      active.push(one)
    }
    return active.slice(this.#active.length).map(({ run }) => run)
  }

  stateOfVersion1(): unknown {
    return {
      active: keyed(this.#active.map(({ run, key }) => [run, key])),
      waiting: keyed(this.#waiting.map(({ place, run, key }) => [place, { run, key }])),
      grants: this.#grants,
    }
  }
}

describe('a queue', () => {
  it('never admits more than its limit, and every waiting run has a reason', () => {
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

  it('gives turns as one would who looked through all who wait, also with state of the version before', () => {
    fc.assert(
      fc.property(options, moves, (options: QueueOptions, moves) => {
        const state = queueFold.initial()
        const plain = new PlainQueue()
        const { rate: _, ...unhurried } = options
        for (const [index, move] of moves.entries()) {
          const seq = 100 * (index + 1)
          const { type, data } = entryOf(move, seq)
          apply(state, type, data, seq, seq)
          plain.apply(type, data as Entered, seq)
          const { runs } = nextTurns(state, unhurried, seq)
          expect(runs).toEqual(plain.turns(options))
          const migrated = queueFold.migrations!['workflow-queue-1']!(plain.stateOfVersion1() as never)
          expect(nextTurns(migrated, options, seq)).toEqual(nextTurns(state, options, seq))
          for (const [at, run] of runs.entries()) {
            apply(state, 'granted', { run }, seq + at + 1, seq)
            plain.apply('granted', { run, key: '', priority: 0 }, seq)
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

  it('returns the time of the next check if only the rate blocks', () => {
    const state = queueFold.initial()
    for (const seq of [1, 2]) apply(state, 'entered', { run: `r${seq}`, key: '', priority: 0 }, seq, 0)
    apply(state, 'granted', { run: 'r1' }, 3, 100)
    expect(nextTurns(state, { rate: { max: 1, per: 50 } }, 120)).toEqual({ runs: [], wakeup: 150 })
    expect(nextTurns(state, { rate: { max: 1, per: 50 } }, 150)).toEqual({ runs: ['r2'], wakeup: null })
  })
})
