// One word and one dot per outcome, on every screen. The words are those of docs/decisions/statuses.md; the page shows a status
// with `Status` only, and the outcome of a row with `outcomeOf` only (test/dashboard/statuses.test.ts).

import type { Row, RowState } from './journal.ts'

export type Tone = 'good' | 'bad' | 'warn' | 'busy' | 'calm'

/** `warn`: a person must act. `busy`: a process works on it. `calm`: nothing is wrong, and nothing is in progress. */
const words: Readonly<Record<Tone, readonly string[]>> = {
  good: ['completed', 'received', 'restored'],
  bad: ['failed', 'lost', 'withdrawn'],
  warn: ['held', 'stuck', 'diverged', 'quarantined', 'paused'],
  busy: ['starting', 'running', 'stopping', 'compensating', 'receiving', 'capturing', 'restoring', 'importing'],
  calm: [
    ...['queued', 'waiting', 'idle', 'stopped', 'cancelled', 'terminated', 'planned', 'part', 'removed', 'superseded'],
    ...['open', 'shared', 'released', 'abandoned', 'archived', 'moved'],
  ],
}

export const statusTones: ReadonlyMap<string, Tone> = new Map(
  Object.entries(words).flatMap(([tone, list]) => list.map((status) => [status, tone as Tone] as const)),
)

/** Timelines without a model have the statuses of their users. */
export function toneOf(status: string): Tone {
  return statusTones.get(status) ?? 'calm'
}

export interface Outcome {
  readonly word: string
  readonly tone: Tone
}

const rowOutcomes: Readonly<Record<RowState, Outcome>> = {
  open: { word: 'begun', tone: 'busy' },
  ok: { word: 'done', tone: 'good' },
  failed: { word: 'failed', tone: 'bad' },
  retrying: { word: 'retrying', tone: 'warn' },
  held: { word: 'held', tone: 'warn' },
  left: { word: 'not finished', tone: 'calm' },
  takeover: { word: 'taken over', tone: 'calm' },
  note: { word: '', tone: 'calm' },
  claim: { word: '', tone: 'calm' },
}

/** The outcome of a row of the journal. No word: the row has no outcome of its own. */
export function outcomeOf({ state, sort }: Pick<Row, 'state' | 'sort'>): Outcome {
  return state === 'open' && sort === 'wait' ? { word: 'waiting', tone: toneOf('waiting') } : rowOutcomes[state]
}
