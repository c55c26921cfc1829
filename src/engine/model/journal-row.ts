// How a model reads to people: one entry as part of a row of a journal, and where a timeline stands as one line. Tools show
// these; they know no entry type of any layer.

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
 * What kind of row it is: `step` was executed, `wait` let time pass, `message` came from outside, `undo` took a step back,
 * `note` is worth a line, `start` and `end` frame the whole.
 */
export type RowSort = 'start' | 'step' | 'wait' | 'child' | 'message' | 'undo' | 'note' | 'end'

/** What happened to the row: it began, gave a sign of life, failed and is tried again, waits for a person, or is over. */
export type RowPhase = 'begins' | 'beats' | 'retries' | 'waits' | 'ends' | 'fails' | 'is'

export interface Told {
  /** Entries about the same thing are one row. */
  readonly about: string
  readonly title: string
  readonly sort: RowSort
  readonly phase: RowPhase
  /** What it failed with. */
  readonly error?: string
  /** When it is tried again, or goes on by itself. */
  readonly at?: number
  /** Which attempt that was. */
  readonly attempt?: number
  /** A few words beside the title. */
  readonly note?: string
  /** It went back: what was under way is over, what failed no longer counts, and what happens from here on is told anew. */
  readonly cuts?: true
  /** Whoever wrote it let go of the timeline: the next owner took it over from nobody. */
  readonly letsGo?: true
}

/** Where a timeline stands. @example { text: 'retries charge after 3 failures: 503', at: 1767225600000 } */
export interface StatusLine {
  readonly text: string
  /** When it goes on by itself. */
  readonly at?: number
  /** Only a person can say how it goes on. False: a person has, whatever its status says. */
  readonly needsPerson?: boolean
}

/** @example told('charge', 'step', 'ends', { title: 'charge' }) */
export function told(
  about: string,
  sort: RowSort,
  phase: RowPhase,
  more: Partial<Omit<Told, 'about' | 'sort' | 'phase'>> = {},
): Told {
  return { about, title: about, sort, phase, ...more }
}

const textShown = 80
const consumersShown = 5

/** A value in a few words. @example brief({ cents: 1999 }) // '{"cents":1999}' */
export function brief(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value, plainly) ?? '')
  return text.length > textShown ? `${text.slice(0, textShown)}…` : text
}

/** What JSON has no word for is named, not left out. */
function plainly(_: string, value: unknown): unknown {
  if (typeof value === 'bigint') return `${value}n`
  if (value instanceof Map) return [...value]
  if (value instanceof Set) return [...value]
  if (ArrayBuffer.isView(value)) return `${value.byteLength} bytes`
  return value
}

/** How an entry reads whose model tells nothing of it: by the effect that it is part of, or by its type and its data. */
export function toldPlainly(entry: Entry): Told {
  const { type, data, seq } = entry
  if (isEffectType(type)) return toldEffect(entry) ?? told(`~${seq}`, 'note', 'is', { title: type })
  if (type === rolledBackType) return toldRollback(entry)
  const isWorthIt = data !== undefined && data !== null
  return told(`~${seq}`, 'note', 'is', { title: type, ...(isWorthIt && { note: brief(data) }) })
}

function toldRollback({ seq, data }: Entry): Told {
  const { to, archive, consumed = [] } = data as RolledBack
  const forced = consumed.length > 0 ? `, ${although(consumed)}` : ''
  return told(`~${seq}`, 'note', 'is', {
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

function toldEffect({ type, data }: Entry): Told | null {
  const { id, name, error, ...more } = data as EffectIntended & EffectDone & EffectFailed & EffectSettled
  const call = (phase: RowPhase, rest: Partial<Told> = {}) =>
    told(`effect:${id}`, 'step', phase, { title: name ?? '', ...rest })
  const undo = (phase: RowPhase, rest: Partial<Told> = {}) =>
    told(`undo:${id}`, 'undo', phase, { title: `undo ${id}`, ...rest })
  const failure = { error: brief(error ?? 'failed') }
  switch (type as EffectType) {
    case '$effect.intended':
      return call('begins', more.input === undefined ? {} : { note: brief(more.input) })
    case '$effect.done':
      return call('ends', more.result === undefined ? {} : { note: brief(more.result) })
    case '$effect.failed':
      return call('fails', failure)
    case '$effect.settled':
      return call(more.outcome === 'failed' ? 'fails' : 'ends', { note: `${more.outcome}, says ${more.by}` })
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
