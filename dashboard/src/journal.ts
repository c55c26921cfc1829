// Turns entries into the rows of a journal. Entries about the same subject form one row with the times it ran, waited and
// failed. Pure: values in, values out; it knows no model, only the description of each entry.

import type { JournalEntry, RowSort, Told } from './types.ts'

export type SpanKind = 'run' | 'failed' | 'pause' | 'sleep' | 'hold'

export interface Span {
  readonly kind: SpanKind
  readonly from: number
  /** Null: it is still in progress. */
  readonly to: number | null
}

export interface Attempt {
  readonly at: number
  readonly error: string
  readonly nextAt: number | null
}

/** `left`: it was in progress at a rollback or at the end of history. `takeover` and `claim` are about the worker. */
export type RowState = 'open' | 'ok' | 'failed' | 'retrying' | 'held' | 'note' | 'left' | 'takeover' | 'claim'

export interface Row {
  /** Sequence of its first entry. */
  readonly seq: number
  readonly about: string
  readonly title: string
  readonly sort: RowSort
  readonly state: RowState
  readonly note: string
  readonly error: string | null
  readonly nextAt: number | null
  readonly from: number
  /** Null: it has not ended. */
  readonly to: number | null
  readonly spans: readonly Span[]
  readonly attempts: readonly Attempt[]
  readonly entries: readonly number[]
  /** History was rolled back since: its outcome no longer counts. */
  readonly isPast: boolean
}

type Draft = {
  -readonly [Key in keyof Row]: Row[Key] extends readonly (infer Item)[] ? Item[] : Row[Key]
}

/** `hasOwner`: one worker at a time owns it, and a change of the worker is a row of its own. */
export function rowsOf(entries: readonly JournalEntry[], hasOwner: boolean): Row[] {
  const rows: Draft[] = []
  const latest = new Map<string, Draft>()
  let before: JournalEntry | null = null
  for (const entry of entries) {
    if (hasOwner && before && entry.epoch > before.epoch) rows.push(handover(entry, before))
    const told: Told = entry.told ?? { about: `~${entry.seq}`, title: entry.type, sort: 'note', phase: 'is' }
    let row = latest.get(told.about)
    if (!row || !goesOn(row, told)) {
      row = draftOf(entry, told)
      rows.push(row)
      if (told.phase !== 'is') latest.set(told.about, row)
    }
    apply(row, entry, { ...told, title: told.title || row.title }, before?.time ?? entry.time)
    if (told.cuts || told.sort === 'end') {
      for (const other of latest.values()) if (other !== row) leave(other, entry.time)
    }
    if (told.cuts) {
      latest.clear()
      for (const other of rows) other.isPast = other !== row
    }
    before = entry
  }
  return rows
}

/** A row is one execution: a begin or end after its end belongs to the next one. */
function goesOn({ state }: Draft, { phase }: Told): boolean {
  return phase === 'beats' || (state !== 'ok' && state !== 'failed' && state !== 'left')
}

/** Its outcome is unknown here. */
function leave(row: Draft, time: number): void {
  if (row.state !== 'open' && row.state !== 'retrying' && row.state !== 'held') return
  const last = row.spans.at(-1)
  if (last && (last.to === null || last.to > time)) row.spans[row.spans.length - 1] = { ...last, to: time }
  row.state = 'left'
  row.nextAt = null
  row.to = time
}

function draftOf({ seq, time, type }: JournalEntry, { about, title, sort }: Told): Draft {
  const times = { from: time, to: null, nextAt: null }
  const empty = { note: '', error: null, spans: [], attempts: [], entries: [], isPast: false }
  return { seq, about, title: title || type, sort, state: 'open', ...empty, ...times }
}

/** A worker that had released the timeline lost nothing; otherwise it was taken over. */
function handover(entry: JournalEntry, { told }: JournalEntry): Draft {
  const [state, title] = told?.letsGo
    ? (['claim', 'taken up by a worker'] as const)
    : (['takeover', 'taken over by another worker'] as const)
  const row = draftOf(entry, { about: `~epoch:${entry.epoch}`, title, sort: 'note', phase: 'is' })
  return { ...row, state, note: `epoch ${entry.epoch}`, to: entry.time }
}

function apply(row: Draft, entry: JournalEntry, told: Told, previous: number): void {
  const { time } = entry
  row.title = told.title
  row.entries.push(entry.seq)
  if (told.note) row.note = told.note
  switch (told.phase) {
    case 'is':
      row.state = 'note'
      row.to = time
      return
    case 'begins': {
      const last = row.spans.at(-1)
      row.state = 'open'
      if (last?.to === null && last.from === time && last.kind === 'run') return
      // Begun again after a crash: the earlier span ends at an unknown time.
      close(row, time)
      row.spans.push({ kind: row.sort === 'wait' ? 'sleep' : 'run', from: time, to: null })
      return
    }
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
      finish(row, time, told.ms, previous, 'failed')
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
      finish(row, time, told.ms, previous, isBad ? 'failed' : row.sort === 'wait' ? 'sleep' : 'run')
      if (isBad) row.attempts.push({ at: time, error: told.error ?? '', nextAt: null })
      row.state = isBad ? 'failed' : 'ok'
      row.error = isBad ? (told.error ?? (told.note || null)) : null
      row.nextAt = null
      row.to = time
    }
  }
}

/** Ends an open span. */
function close(row: Draft, time: number): void {
  const last = row.spans.at(-1)
  if (last && last.to === null) row.spans[row.spans.length - 1] = { ...last, to: time }
}

/**
 * Ends the attempt. Its start is recorded by how long it took. Older entries have no such record: then it started at its
 * begin, at the end of its pause, or at the previous entry.
 */
function finish(row: Draft, time: number, ms: number | undefined, previous: number, kind: SpanKind): void {
  const last = row.spans.at(-1)
  if (last?.to === null) {
    // A slow step is noted as begun only after a while.
    const from = ms === undefined ? last.from : time - ms
    row.from = Math.min(row.from, from)
    row.spans[row.spans.length - 1] = { from, to: time, kind: last.kind === 'run' ? kind : last.kind }
    return
  }
  const least = last ? Math.min(last.to ?? time, time) : Math.min(previous, time)
  const from = ms === undefined ? least : time - ms
  // A pause is over when the next call begins, which may be later than it was due.
  if (last && ms !== undefined) row.spans[row.spans.length - 1] = { ...last, to: Math.min(last.to ?? from, from) }
  if (!last) row.from = from
  row.spans.push({ kind, from, to: time })
}

export interface Scale {
  readonly from: number
  readonly to: number
  /** From 0 to 1. */
  place(time: number): number
  /** Stretches of time drawn narrow, because nothing ran. */
  readonly folds: readonly { readonly from: number; readonly to: number }[]
}

const foldShare = 0.04
const foldLeastMs = 2000

/** Maps time to width. Long idle stretches are folded: a night of sleep is as wide as a pause. */
export function scaleOf(rows: readonly Row[], now: number): Scale {
  const busy: [number, number][] = []
  for (const { spans, from, to } of rows) {
    busy.push([from, from])
    if (to !== null) busy.push([to, to])
    for (const span of spans) if (span.kind !== 'sleep' && span.kind !== 'pause') busy.push([span.from, span.to ?? now])
  }
  busy.sort((a, b) => a[0] - b[0])
  const from = busy[0]?.[0] ?? now
  const isOpen = rows.some(({ to }) => to === null)
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

/** The row of most interest: the last one that failed, is held or is being retried, and still is. */
export function troubleOf(rows: readonly Row[]): Row | null {
  const later = new Set<string>()
  let end: Row | null = null
  for (let i = rows.length - 1; i >= 0; i -= 1) {
    const row = rows[i]!
    const isLatest = !later.has(row.about) && !row.isPast
    later.add(row.about)
    if (!isLatest || (row.state !== 'failed' && row.state !== 'held' && row.state !== 'retrying')) continue
    if (row.sort !== 'end') return row
    end ??= row
  }
  return end
}
