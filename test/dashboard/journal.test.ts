// From entries to rows of a journal, and from time to width: the drawing of the dashboard, without a browser.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rowsOf, scaleOf, troubleOf } from '../../dashboard/src/journal.ts'
import type { JournalEntry, RowPhase, RowSort, Told } from '../../dashboard/src/types.ts'

let seq = 0
const entry = (
  time: number,
  about: string,
  phase: RowPhase,
  more: Partial<Told & { epoch: number }> = {},
): JournalEntry => {
  const { epoch = 1, ...told } = more
  seq += 1
  return { seq, epoch, type: phase, time, told: { about, title: about, sort: 'step', phase, ...told } }
}

describe('the rows of a journal', () => {
  it('are one for all entries about the same thing, with the time that each attempt and each pause took', () => {
    const [row, ...others] = rowsOf(
      [
        entry(100, 'charge', 'begins'),
        entry(150, 'charge', 'retries', { error: '503', at: 400, attempt: 1 }),
        entry(500, 'charge', 'ends'),
      ],
      true,
    )
    expect(others).toEqual([])
    expect(row).toMatchObject({ title: 'charge', state: 'ok', from: 100, to: 500, error: null })
    expect(row!.attempts).toEqual([{ at: 150, error: '503', nextAt: 400 }])
    expect(row!.spans).toEqual([
      { kind: 'failed', from: 100, to: 150 },
      { kind: 'pause', from: 150, to: 400 },
      { kind: 'run', from: 400, to: 500 },
    ])
  })

  it('start where the previous entry ended, if no start was recorded', () => {
    const rows = rowsOf(
      [entry(100, 'a', 'ends'), entry(180, 'b', 'ends'), entry(200, 'c', 'fails', { error: 'no' })],
      true,
    )
    expect(rows.map(({ from, to }) => [from, to])).toEqual([
      [100, 100],
      [100, 180],
      [180, 200],
    ])
    expect(rows[2]).toMatchObject({ state: 'failed', error: 'no' })
  })

  it('begin when their calls began, if it is recorded: neither in the queue nor after a neighbour in parallel', () => {
    const rows = rowsOf(
      [
        entry(0, '~run', 'is'),
        entry(8500, 'quick', 'ends', { ms: 0 }),
        entry(10_500, 'left', 'ends', { ms: 2000 }),
        entry(10_510, 'right', 'ends', { ms: 2000 }),
        entry(11_500, 'slow', 'begins'),
        entry(13_510, 'slow', 'retries', { ms: 3000, at: 14_000, error: '503', attempt: 1 }),
        entry(16_000, 'slow', 'ends', { ms: 1000 }),
      ],
      true,
    )
    expect(rows.slice(1).map(({ title, from, to }) => [title, from, to])).toEqual([
      ['quick', 8500, 8500],
      ['left', 8500, 10_500],
      ['right', 8510, 10_510],
      ['slow', 10_510, 16_000],
    ])
    expect(rows.at(-1)!.spans).toEqual([
      { kind: 'failed', from: 10_510, to: 13_510 },
      { kind: 'pause', from: 13_510, to: 14_000 },
      { kind: 'run', from: 15_000, to: 16_000 },
    ])
  })

  it('show that another worker continued, where a new epoch starts, and only for models with one worker', () => {
    const entries = [entry(1, 'a', 'ends'), entry(2, 'b', 'ends', { epoch: 2 })]
    expect(rowsOf(entries, true).map(({ state }) => state)).toEqual(['ok', 'takeover', 'ok'])
    expect(rowsOf(entries, false).map(({ state }) => state)).toEqual(['ok', 'ok'])
  })

  it('show that a worker took it up after the previous one released it', () => {
    const rows = rowsOf([entry(1, '~w', 'is', { letsGo: true }), entry(2, 'b', 'ends', { epoch: 2 })], true)
    expect(rows.map(({ state, title }) => [state, title])).toEqual([
      ['note', '~w'],
      ['claim', 'taken up by a worker'],
      ['ok', 'b'],
    ])
  })

  it('are one for each execution: what ends again after its end, or after history went back, is another', () => {
    const rows = rowsOf(
      [
        entry(100, 'ship', 'ends'),
        entry(150, 'pay', 'begins'),
        entry(200, '~undo:ship', 'ends', { sort: 'undo' }),
        entry(210, '~back', 'is', { cuts: true }),
        entry(260, 'pay', 'ends'),
        entry(300, 'ship', 'ends'),
        entry(900, '~undo:ship', 'ends', { sort: 'undo' }),
      ],
      true,
    )
    expect(rows.map(({ about, state, from, to }) => [about, state, from, to])).toEqual([
      ['ship', 'ok', 100, 100],
      ['pay', 'left', 150, 210],
      ['~undo:ship', 'ok', 150, 200],
      ['~back', 'note', 210, 210],
      ['pay', 'ok', 210, 260],
      ['ship', 'ok', 260, 300],
      ['~undo:ship', 'ok', 300, 900],
    ])
  })

  it('lead to no failure that was repeated successfully, or undone', () => {
    const again = [entry(1, 'a', 'fails', { error: 'no' }), entry(2, 'a', 'ends')]
    expect(troubleOf(rowsOf(again, true))).toBeNull()
    const back = [
      entry(1, 'a', 'fails', { error: 'no' }),
      entry(2, '~end', 'fails', { sort: 'end', error: 'no' }),
      entry(3, '~retried', 'is', { cuts: true }),
    ]
    expect(troubleOf(rowsOf(back.slice(0, 2), true))?.about).toBe('a')
    expect(troubleOf(rowsOf(back, true))).toBeNull()
  })

  it('are entries by their type if the model has no readable form for them', () => {
    const rows = rowsOf([{ seq: 7, epoch: 1, type: 'deposited', time: 5, told: null }], false)
    expect(rows).toMatchObject([{ seq: 7, title: 'deposited', state: 'note', spans: [] }])
  })

  it('keep the name that a thing began with when later entries have none', () => {
    const rows = rowsOf(
      [entry(1, 'call', 'begins', { title: 'refund' }), entry(2, 'call', 'ends', { title: '' })],
      false,
    )
    expect(rows).toMatchObject([{ title: 'refund', state: 'ok' }])
  })

  it('link to the last failed one, and not to the end that repeats its error', () => {
    const rows = rowsOf(
      [
        entry(1, 'a', 'fails', { error: 'first' }),
        entry(2, 'b', 'fails', { error: 'second' }),
        entry(3, 'c', 'ends'),
        entry(4, '~end', 'fails', { sort: 'end', error: 'second' }),
      ],
      true,
    )
    expect(troubleOf(rows)?.error).toBe('second')
    expect(troubleOf(rows)?.title).toBe('b')
    expect(troubleOf(rowsOf([entry(1, 'a', 'ends')], true))).toBeNull()
  })

  it('lose no entry, whatever the entries are', () => {
    const sorts: RowSort[] = ['start', 'step', 'wait', 'child', 'message', 'undo', 'note', 'end']
    const phases: RowPhase[] = ['begins', 'beats', 'retries', 'waits', 'ends', 'fails', 'is']
    const one = fc.record({
      about: fc.constantFrom('a', 'b', 'c'),
      phase: fc.constantFrom(...phases),
      sort: fc.constantFrom(...sorts),
      wait: fc.nat(5000),
      isTold: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(one, { maxLength: 60 }), (steps) => {
        let time = 1000
        const entries = steps.map(({ about, phase, sort, wait, isTold }, i): JournalEntry => {
          time += wait
          const told = isTold ? { about, title: about, sort, phase, at: time + 100 } : null
          return { seq: i + 1, epoch: 1, type: phase, time, told }
        })
        const rows = rowsOf(entries, true)
        const shown = rows.flatMap((row) => row.entries).sort((a, b) => a - b)
        expect(shown).toEqual(entries.map((each) => each.seq))
        for (const { spans } of rows) for (const { from, to } of spans) expect(to ?? from).toBeGreaterThanOrEqual(from)
        const scale = scaleOf(rows, time + 10)
        let last = 0
        for (const { time: at } of entries) {
          expect(scale.place(at)).toBeGreaterThanOrEqual(last - 1e-9)
          last = scale.place(at)
        }
        expect(last).toBeLessThanOrEqual(1)
      }),
    )
  })
})

describe('the scale', () => {
  it('folds a night of sleep, and shows the seconds on both sides of it', () => {
    const rows = rowsOf(
      [
        entry(0, 'a', 'begins'),
        entry(1000, 'a', 'ends'),
        entry(28_801_000, 'nap', 'ends', { sort: 'wait' }),
        entry(28_802_000, 'b', 'ends'),
      ],
      true,
    )
    const scale = scaleOf(rows, 28_802_000)
    expect(scale.folds).toEqual([{ from: 1000, to: 28_801_000 }])
    expect(scale.place(1000)).toBeGreaterThan(0.4)
    expect(scale.place(28_801_000) - scale.place(1000)).toBeLessThan(0.1)
    expect(scale.place(28_802_000)).toBeCloseTo(1)
  })

  it('is of some width for a single moment', () => {
    const scale = scaleOf(rowsOf([entry(5, 'a', 'is')], true), 5)
    expect(scale.place(5)).toBe(0)
    expect(scale.folds).toEqual([])
  })
})
