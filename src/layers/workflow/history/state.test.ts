import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Entry } from '../../../engine/history/history.ts'
import { workflowFold } from './fold.ts'
import { itemsOf } from './journal.ts'
import type { RunState } from './state.ts'

const id = fc.constantFrom('a', 'b', '~loop.0/a', '~loop.1/a', '__proto__', 'constructor')
const of = (type: string, data: object = {}) =>
  fc.record({ type: fc.constant(type), data: fc.record({ id, ...wrap(data) }) })
function wrap(data: object) {
  return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, fc.constant(value)]))
}
const failure = { name: 'Error', message: 'no' }
const entries = fc.array(
  fc.oneof(
    ...[
      of('began'),
      of('done', { result: 1 }),
      of('failed', { error: failure }),
      of('retry', { n: 1, error: failure, at: 9 }),
    ],
    ...[
      of('held'),
      of('settled'),
      of('beat', { details: 1 }),
      of('timer'),
      of('signal', { name: 's' }),
      of('undone'),
      of('stuck', { error: failure }),
    ],
    ...[
      of('loop', { id: '~loop', n: 1, state: 0, took: [] }),
      of('continued', { input: 2, took: null }),
      of('rolled', { to: 'a' }),
    ],
    ...[of('cancel', { reason: 'r', why: 'cancel' }), of('waits', { for: [] }), of('admitted')],
  ),
  { maxLength: 30 },
)

function fold(list: readonly { type: string; data: object }[], at = 0): RunState[] {
  const states = [workflowFold.initial()]
  for (const [i, entry] of list.entries()) {
    const whole = { timeline: 'workflow/w/r', seq: at + i + 1, time: i, ...entry } as unknown as Entry
    states.push(workflowFold.apply(states.at(-1)!, whole) as RunState)
  }
  return states
}

describe('the fold of a run', () => {
  it('keeps its promises, whatever happens in whatever order', () => {
    fc.assert(
      fc.property(entries, (list) => {
        const states = fold(list)
        const copies = states.map((state) => JSON.stringify({ ...state, journal: itemsOf(state.journal) }))
        for (const [i, { type, data }] of list.entries()) {
          const [before, after] = [states[i]!, states[i + 1]!]
          expect(after.lastAt).toBeGreaterThanOrEqual(before.lastAt)
          expect(after.generation).toBeGreaterThanOrEqual(before.generation)
          // A command with an outcome is no longer open.
          if (type === 'done' || type === 'failed') expect(Object.hasOwn(after.open, data.id)).toBe(false)
          if (type === 'loop') {
            expect(
              [...Object.keys(after.open), ...Object.keys(after.undone)].filter((each) => each.startsWith('~loop.')),
            ).toEqual([])
          }
          if (type === 'rolled' || type === 'continued') expect(after.open).toEqual({})
          const seqs = itemsOf(after.journal).map(({ seq }) => seq)
          expect(seqs).toEqual([...seqs].sort((a, b) => a - b))
        }
        // A returned state never changes, although journals share their items.
        expect(fold(list).length).toBe(states.length)
        expect(states.map((state) => JSON.stringify({ ...state, journal: itemsOf(state.journal) }))).toEqual(copies)
      }),
      { numRuns: 300 },
    )
  })

  it('refuses an entry of a type it does not know', () => {
    expect(() => fold([{ type: 'from tomorrow', data: {} }])).toThrow('unknown type')
  })
})
