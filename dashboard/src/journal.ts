// From entries to rows: what a journal shows. Entries about the same thing are one row with the time it ran, waited and failed.
// Pure: values in, values out; it knows no model, only what each entry tells of itself.

import type { JournalEntry, RowSort } from './types.ts'

export type SpanKind = 'run' | 'failed' | 'pause' | 'sleep' | 'hold'

export interface Span {
  readonly kind: SpanKind
  readonly from: number
  /** Null: it goes on. */
  readonly to: number | null
}

export interface Attempt {
  readonly at: number
  readonly error: string
  readonly nextAt: number | null
}

export type RowState = 'open' | 'ok' | 'failed' | 'retrying' | 'held' | 'note' | 'takeover'

export interface Row {
  /** Of its first entry. */
  readonly seq: number
  readonly title: string
  readonly sort: RowSort
  readonly state: RowState
  readonly note: string
  readonly error: string | null
  readonly nextAt: number | null
  readonly from: number
  /** Null: it is not over. */
  readonly to: number | null
  readonly spans: readonly Span[]
  readonly attempts: readonly Attempt[]
  readonly entries: readonly number[]
}

type Draft = {
  -readonly [Key in keyof Row]: Row[Key] extends readonly (infer Item)[] ? Item[] : Row[Key]
}

/** `withTakeovers`: a new epoch in the middle of history is a row of its own. */
export function rowsOf(entries: readonly JournalEntry[], withTakeovers: boolean): Row[] {
  const rows: Draft[] = []
  const open = new Map<string, Draft>()
  let before: JournalEntry | null = null
  for (const entry of entries) {
    if (withTakeovers && before && entry.epoch > before.epoch) rows.push(takeover(entry))
    const told = entry.told ?? { about: `~${entry.seq}`, title: entry.type, sort: 'note', phase: 'is' }
    let row = open.get(told.about)
    if (!row) {
      row = draftOf(entry, told.title || entry.type, told.sort)
      rows.push(row)
      if (told.phase !== 'is') open.set(told.about, row)
    }
    apply(row, entry, { ...told, title: told.title || row.title }, before?.time ?? entry.time)
    before = entry
  }
  return rows
}

function draftOf({ seq, time }: JournalEntry, title: string, sort: RowSort): Draft {
  const times = { from: time, to: null, nextAt: null }
  return { seq, title, sort, state: 'open', note: '', error: null, spans: [], attempts: [], entries: [], ...times }
}

function takeover({ seq, time, epoch }: JournalEntry): Draft {
  const row = draftOf({ seq, time } as JournalEntry, 'taken over by another worker', 'note')
  return { ...row, state: 'takeover', note: `epoch ${epoch}`, to: time }
}

function apply(row: Draft, entry: JournalEntry, told: NonNullable<JournalEntry['told']>, previous: number): void {
  const { time } = entry
  row.title = told.title
  row.entries.push(entry.seq)
  if (told.note) row.note = told.note
  switch (told.phase) {
    case 'is':
      row.state = 'note'
      row.to = time
      return
    case 'begins':
      // Begun again after a crash: what ran until then is cut off where nobody knows.
      if (row.state === 'ok' || row.state === 'failed') row.to = null
      close(row, time)
      row.spans.push({ kind: row.sort === 'wait' ? 'sleep' : 'run', from: time, to: null })
      row.state = 'open'
      return
    case 'beats':
      if (row.spans.length === 0) row.spans.push({ kind: 'run', from: time, to: null })
      return
    case 'waits':
      close(row, time)
      row.spans.push({ kind: 'hold', from: time, to: null })
      row.state = 'held'
      row.error = told.error ?? row.error
      return
    case 'retries': {
      finish(row, time, previous, 'failed')
      const nextAt = told.at ?? null
      row.attempts.push({ at: time, error: told.error ?? '', nextAt })
      row.spans.push({ kind: 'pause', from: time, to: nextAt })
      row.error = told.error ?? null
      row.nextAt = nextAt
      row.state = 'retrying'
      row.to = null
      return
    }
    case 'ends':
    case 'fails': {
      const isBad = told.phase === 'fails'
      finish(row, time, previous, isBad ? 'failed' : row.sort === 'wait' ? 'sleep' : 'run')
      if (isBad) row.attempts.push({ at: time, error: told.error ?? '', nextAt: null })
      row.state = isBad ? 'failed' : 'ok'
      row.error = isBad ? (told.error ?? (told.note || null)) : null
      row.nextAt = null
      row.to = time
    }
  }
}

/** What is open ends here. */
function close(row: Draft, time: number): void {
  const last = row.spans.at(-1)
  if (last && last.to === null) row.spans[row.spans.length - 1] = { ...last, to: time }
}

/** The attempt that ends here: since it began, or since its pause was over, or else since the entry before. */
function finish(row: Draft, time: number, previous: number, kind: SpanKind): void {
  const last = row.spans.at(-1)
  if (last?.to === null) {
    row.spans[row.spans.length - 1] = { ...last, to: time, kind: last.kind === 'run' ? kind : last.kind }
    return
  }
  const from = last ? Math.min(last.to ?? time, time) : Math.min(previous, time)
  if (!last) row.from = from
  row.spans.push({ kind, from, to: time })
}

export interface Scale {
  readonly from: number
  readonly to: number
  /** From 0 to 1. */
  place(time: number): number
  /** Stretches of time that are drawn narrow, since nothing ran. */
  readonly folds: readonly { readonly from: number; readonly to: number }[]
}

const foldShare = 0.04
const foldLeastMs = 2000

/** Time as a width. Where nothing ran for long, it is folded: a night of sleep is as wide as a pause. */
export function scaleOf(rows: readonly Row[], now: number): Scale {
  const busy: [number, number][] = []
  for (const { spans, from, to } of rows) {
    busy.push([from, from])
    if (to !== null) busy.push([to, to])
    for (const span of spans) if (span.kind !== 'sleep' && span.kind !== 'pause') busy.push([span.from, span.to ?? now])
  }
  busy.sort((a, b) => a[0] - b[0])
  const from = busy[0]?.[0] ?? now
  const isOpen = rows.some(({ to, state }) => to === null && state !== 'takeover')
  const to = Math.max(from + 1, isOpen ? now : 0, ...lastOf(busy))
  const gaps: { from: number; to: number }[] = []
  let reached = from
  for (const [start, end] of [...busy, [to, to] as [number, number]]) {
    if (start > reached) gaps.push({ from: reached, to: start })
    reached = Math.max(reached, end)
  }
  const idle = gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0)
  const least = Math.max(foldLeastMs, (to - from - idle) * 0.5)
  const folds = gaps.filter((gap) => gap.to - gap.from > least)
  const folded = folds.reduce((sum, gap) => sum + gap.to - gap.from, 0)
  const foldWidth = Math.min(foldShare, 0.3 / Math.max(1, folds.length))
  const perMs = (1 - foldWidth * folds.length) / Math.max(1, to - from - folded)
  return {
    from,
    to,
    folds,
    place(time) {
      const at = Math.min(Math.max(time, from), to)
      let [width, left] = [0, at - from]
      for (const gap of folds) {
        if (at <= gap.from) break
        const inside = Math.min(at, gap.to) - gap.from
        left -= inside
        width += foldWidth * (inside / (gap.to - gap.from))
      }
      return Math.min(1, width + left * perMs)
    },
  }
}

function lastOf(busy: readonly (readonly [number, number])[]): number[] {
  let last = 0
  for (const [, end] of busy) last = Math.max(last, end)
  return [last]
}

/** The row that a person looks for first: the last one that failed, is held, or is tried again. */
export function troubleOf(rows: readonly Row[]): Row | null {
  for (let i = rows.length - 1; i >= 0; i -= 1) {
    const row = rows[i]!
    if (row.sort === 'end') continue
    if (row.state === 'failed' || row.state === 'held' || row.state === 'retrying') return row
  }
  return rows.findLast((row) => row.state === 'failed') ?? null
}
