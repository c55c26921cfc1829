// How people read a model: one entry as part of a journal row, and the status of a timeline as one line. Tools show
// these rows and need not know the entry types of layers.

import {
  type EffectDone,
  type EffectFailed,
  type EffectIntended,
  type EffectSettled,
  type EffectType,
  isEffectType,
} from '../../core/history/effects.ts'
import type { Entry } from './entry.ts'
import { type Consumer, type RolledBack, rolledBackType } from './rollback-report.ts'

/**
 * The kind of row: `step` was executed, `wait` passed time, `message` came from outside, `undo` reverted a step, `note`
 * deserves a row, `start` and `end` frame the whole.
 */
export type RowSort = 'start' | 'step' | 'wait' | 'child' | 'message' | 'undo' | 'note' | 'end'

/** The event of the row: it began, sent a heartbeat, failed and will be retried, waits for a person, or ended. */
export type RowPhase = 'begins' | 'beats' | 'retries' | 'waits' | 'ends' | 'fails' | 'is'

export interface JournalRow {
  /** Entries with the same `about` form one row. */
  readonly about: string
  readonly title: string
  readonly sort: RowSort
  readonly phase: RowPhase
  /** The error of a failure. */
  readonly error?: string
  /** When it is retried, or resumes by itself. */
  readonly at?: number
  /** How long the call took that ended with this entry. Default: unknown. */
  readonly ms?: number
  /** The number of that attempt. */
  readonly attempt?: number
  /** A short text beside the title. */
  readonly note?: string
  /** A rollback: running rows end, failures no longer count, and later entries start new rows. */
  readonly cuts?: true
  /** The writer released the timeline: the next owner took it over from no one. */
  readonly letsGo?: true
}

/** The status of a timeline. @example { text: 'retries charge after 3 failures: 503', at: 1767225600000 } */
export interface StatusLine {
  readonly text: string
  /** When it resumes by itself. */
  readonly at?: number
  /** A person must decide how to continue. False: a person has decided, regardless of the status. */
  readonly needsPerson?: boolean
}

/** @example journalRow('charge', 'step', 'ends', { title: 'charge' }) */
export function journalRow(
  about: string,
  sort: RowSort,
  phase: RowPhase,
  more: Partial<Omit<JournalRow, 'about' | 'sort' | 'phase'>> = {},
): JournalRow {
  return { about, title: about, sort, phase, ...more }
}

const textShown = 80
const consumersShown = 5

/** A shortened value. @example brief({ cents: 1999 }) // '{"cents":1999}' */
export function brief(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value, plainly) ?? '')
  return text.length > textShown ? `${text.slice(0, textShown)}…` : text
}

/** Values without a JSON form are shown by name instead of being omitted. */
function plainly(_: string, value: unknown): unknown {
  if (typeof value === 'bigint') return `${value}n`
  if (value instanceof Map) return [...value]
  if (value instanceof Set) return [...value]
  if (ArrayBuffer.isView(value)) return `${value.byteLength} bytes`
  return value
}

/** The row of an entry, by its model if that has one. Imported entries may have data of any shape: they get a row, too. */
export function rowOf(entry: Entry, entryRow?: (entry: Entry) => JournalRow | null): JournalRow {
  try {
    const row = entryRow?.(entry) ?? plainRow(entry)
    if (isOfText(row)) return row
  } catch {
    // The row below is the answer.
  }
  return journalRow(`~${entry.seq}`, 'note', 'is', { title: entry.type, note: 'its data has an unexpected shape' })
}

function isOfText({ about, title, note = '' }: JournalRow): boolean {
  return [about, title, note].every((each) => typeof each === 'string')
}

/** The row of an entry for which its model has none: by the effect that it belongs to, or by its type and data. */
function plainRow(entry: Entry): JournalRow {
  const { type, data, seq } = entry
  if (isEffectType(type)) return effectRow(entry) ?? journalRow(`~${seq}`, 'note', 'is', { title: type })
  if (type === rolledBackType) return rollbackRow(entry)
  const isWorthIt = data !== undefined && data !== null
  return journalRow(`~${seq}`, 'note', 'is', { title: type, ...(isWorthIt && { note: brief(data) }) })
}

function rollbackRow({ seq, data }: Entry): JournalRow {
  const { to, archive, consumed = [] } = data as RolledBack
  const forced = consumed.length > 0 ? `, ${although(consumed)}` : ''
  return journalRow(`~${seq}`, 'note', 'is', {
    title: `went back to ${to}`,
    note: `archived as ${archive}${forced}`,
    cuts: true,
  })
}

/** Who had acted on what a forced rollback undid. @example although(consumed) // 'forced: trial was forked at 9' */
export function although(consumed: readonly Consumer[]): string {
  const named = consumed.slice(0, consumersShown).map(({ what }) => what)
  const more = consumed.length > consumersShown ? `; ${consumed.length - consumersShown} more` : ''
  return `forced: ${named.join('; ')}${more}`
}

function effectRow({ type, data }: Entry): JournalRow | null {
  const { id, name, error, ...more } = data as EffectIntended & EffectDone & EffectFailed & EffectSettled
  const call = (phase: RowPhase, rest: Partial<JournalRow> = {}) =>
    journalRow(`effect:${id}`, 'step', phase, { title: name ?? '', ...rest })
  const undo = (phase: RowPhase, rest: Partial<JournalRow> = {}) =>
    journalRow(`undo:${id}`, 'undo', phase, { title: `undo ${id}`, ...rest })
  const failure = { error: brief(error ?? 'failed') }
  switch (type as EffectType) {
    case '$effect.intended':
      return call('begins', more.input === undefined ? {} : { note: brief(more.input) })
    case '$effect.done':
      return call('ends', more.result === undefined ? {} : { note: brief(more.result) })
    case '$effect.failed':
      return call('fails', failure)
    case '$effect.settled':
      return call(more.outcome === 'failed' ? 'fails' : 'ends', { note: `${more.outcome}, according to ${more.by}` })
    case '$effect.compensating':
      return undo('begins')
    case '$effect.compensated':
      return undo('ends')
    case '$effect.compensation-failed':
      return undo('fails', failure)
    default:
      return null
  }
}
