// Sessions against a plain model of them: random batches, watermarks, lateness, and captures that are written while records
// continue. Sessions are changed in place, so a capture must still contain the state at its barrier.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { PipelineKey } from '../../src/core/key-groups.ts'
import type { Batch } from '../../src/layers/pipeline/batch.ts'
import { list } from '../../src/layers/pipeline/index.ts'
import type { OperatorContext } from '../../src/layers/pipeline/operator.ts'
import { sessions } from '../../src/layers/pipeline/operators/session-window.ts'
import type { StateCapture } from '../../src/layers/pipeline/rules/state-capture.ts'
import { StateTable } from '../../src/layers/pipeline/rules/state-table.ts'

const gapMs = 10

interface Record {
  readonly key: string
  readonly at: number
}

interface Held {
  readonly start: number
  readonly end: number
  readonly times: readonly number[]
}

/** The sessions of each key by their definition: records in order of time, cut where a gap is. */
class Model {
  readonly #late: number
  #held: { readonly key: string; readonly session: Held }[] = []
  #watermark = Number.NEGATIVE_INFINITY

  constructor(late: number) {
    this.#late = late
  }

  batch(records: readonly Record[]) {
    const again: { readonly key: string; readonly session: Held }[] = []
    const tooLate: Record[] = []
    for (const record of records) {
      const { key, at } = record
      const near = this.#held.filter(
        (each) => each.key === key && each.session.start <= at + gapMs && each.session.end >= at,
      )
      near.sort((a, b) => a.session.start - b.session.start)
      const session = {
        start: Math.min(at, ...near.map((each) => each.session.start)),
        end: Math.max(at + gapMs, ...near.map((each) => each.session.end)),
        times: [...near.flatMap((each) => each.session.times), at],
      }
      if (session.end + this.#late <= this.#watermark) {
        tooLate.push(record)
        continue
      }
      const now = { key, session }
      this.#held = [...this.#held.filter((each) => !near.includes(each)), now]
      if (session.end <= this.#watermark) again.push(now)
    }
    return { again, tooLate }
  }

  watermark(to: number) {
    const over = this.#held.filter(({ session: { end } }) => end > this.#watermark && end <= to)
    this.#watermark = Math.max(to, this.#watermark)
    this.#held = this.#held.filter(({ session }) => session.end + this.#late > this.#watermark)
    return over
  }

  get state(): string[] {
    return this.#held.map(({ key, session }) => show(key, session.start, session.end, session.times)).sort()
  }
}

const show = (key: PipelineKey, start: number, end: number, times: readonly number[]) =>
  `${key} ${start}-${end}: ${times.join(' ')}`

type Table = StateTable<readonly { readonly start: number; readonly end: number; readonly accumulator: Record[] }[]>

function stateOf(table: Table): string[] {
  return [...table.space(0).entries()]
    .flatMap(([key, held]) =>
      held.map(({ start, end, accumulator }) =>
        show(
          key,
          start,
          end,
          accumulator.map(({ at }) => at),
        ),
      ),
    )
    .sort()
}

function made(late: number) {
  const given: string[] = []
  const tooLate: Record[] = []
  const results = {
    batch: ({ values }: Batch) => {
      for (const { key, start, end, value } of values as never[]) {
        given.push(
          show(
            key,
            start,
            end,
            (value as Record[]).map(({ at }) => at),
          ),
        )
      }
    },
    watermark() {},
    idle() {},
  }
  const lates = { batch: ({ values }: Batch) => void tooLate.push(...(values as Record[])), watermark() {}, idle() {} }
  const context = { late() {}, poison: (_: unknown, error: unknown) => expect.unreachable(String(error)) }
  const how = { lateMs: late, earlyMs: null }
  const make = sessions({ kind: 'session', gapMs }, how, list<Record>())
  const operator = make([results, lates], context as unknown as OperatorContext)
  return { operator, given, tooLate, table: operator.tables.get('sessions') as Table }
}

const record = fc.record({ key: fc.constantFrom('a', 'b'), at: fc.nat(120) })
const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ batch: fc.array(record, { minLength: 1, maxLength: 6 }) }) },
  { weight: 3, arbitrary: fc.record({ watermark: fc.nat(140) }) },
  { weight: 2, arbitrary: fc.record({ capture: fc.boolean() }) },
)

it('sessions are those of a plain model, with each late one again, and captures are as of their barrier', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), fc.constantFrom(0, 15), (steps, late) => {
      const model = new Model(late)
      const { operator, given, tooLate, table } = made(late)
      const stored: Table = new StateTable()
      let under: { readonly capture: StateCapture; readonly wanted: readonly string[] } | null = null
      const finish = () => {
        for (let block = under?.capture.next(1); block; block = under?.capture.next(1)) {
          stored.load(structuredClone(block))
        }
        under?.capture.publish()
        if (under) expect(stateOf(stored)).toEqual(under.wanted)
        under = null
      }
      for (const each of steps) {
        given.length = 0
        tooLate.length = 0
        if ('batch' in each) {
          const wanted = model.batch(each.batch)
          const [values, times] = [each.batch, each.batch.map(({ at }) => at)]
          operator.inputs[0]!.batch({ values, times, keys: each.batch.map(({ key }) => key) })
          expect(tooLate).toEqual(wanted.tooLate)
          expect([...given].sort()).toEqual(
            wanted.again.map(({ key, session }) => show(key, session.start, session.end, session.times)).sort(),
          )
        } else if ('watermark' in each) {
          const wanted = model.watermark(each.watermark)
          operator.inputs[0]!.watermark(each.watermark)
          expect([...given].sort()).toEqual(
            wanted.map(({ key, session }) => show(key, session.start, session.end, session.times)).sort(),
          )
        } else if (under) finish()
        else under = { capture: table.capture(each.capture && stored.size === 0), wanted: stateOf(table) }
        expect(stateOf(table)).toEqual(model.state)
      }
      finish()
    }),
    { numRuns: 300 },
  )
})
