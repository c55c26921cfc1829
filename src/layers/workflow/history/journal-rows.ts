// A run's history for people: each entry as part of a row of the journal, and the run's status as one line.

import type { Head } from '../../../core/store/ports.ts'
import type { Entry } from '../../../engine/model/entry.ts'
import { although, brief, type JournalRow, journalRow, type StatusLine } from '../../../engine/model/journal-row.ts'
import type { SharedFrom } from '../../../engine/model/memo-protocol.ts'
import type { Refusals } from '../../../engine/model/model.ts'
import type { Consumer } from '../../../engine/model/rollback-report.ts'
import { endings } from '../names.ts'
import { readableId } from '../run/scope.ts'
import type { NotedWait } from './entries.ts'
import type { Failure } from './failure.ts'
import type { RunState } from './state.ts'
import { summarizeWorkflow, type Wait, waitName } from './summary.ts'

/** Statuses in which a run waits for a person. */
export const attention: readonly string[] = ['held', 'stuck', 'diverged', 'quarantined']

interface Fields {
  readonly id?: string
  readonly n?: number
  readonly error?: Failure
  readonly at?: number
  readonly ms?: number
  readonly name?: string
  readonly update?: string
  readonly reason?: string
  readonly to?: string
  readonly ids?: readonly string[]
  readonly by?: string
  readonly from?: string
  readonly cancelled?: boolean
  readonly input?: unknown
  readonly value?: unknown
  readonly result?: unknown
  readonly for?: readonly NotedWait[]
  readonly shared?: SharedFrom
  readonly replaces?: number
  readonly consumed?: readonly Consumer[]
}

const letsGo = { letsGo: true } as const
const cuts = { cuts: true } as const

type RowMaker = (fields: Fields, entry: Entry) => JournalRow

/** Entries of other types are shown by their type alone. */
const tellers: Readonly<Record<string, RowMaker>> = {
  // The caller's process starts the run; another process may execute it.
  started: ({ input }) => journalRow('~run', 'start', 'is', { title: 'started', ...worthTelling(input), ...letsGo }),
  waits: ({ for: waits = [] }, { seq }) =>
    journalRow(`~note:${seq}`, 'wait', 'is', { title: 'waits', note: waits.map(waitWords).join(', '), ...letsGo }),
  began: ({ id }) => step(id!, 'begins'),
  beat: ({ id }) => step(id!, 'beats'),
  retry: ({ id, n, error, at, ms }) => retries(step(id!, 'retries', took(ms)), n!, error, at),
  done: ({ id, shared, by, replaces, ms }) => {
    if (replaces !== undefined) return step(id!, 'ends', { note: editedWords(replaces, by) })
    if (shared) return step(id!, 'ends', { note: sharedWords(shared), ...took(ms) })
    if (id!.includes('~start:')) return step(id!, 'is')
    return step(id!, id!.includes('~child:') ? 'begins' : 'ends', took(ms))
  },
  failed: ({ id, error, ms }) => step(id!, 'fails', { ...failing(error), ...took(ms) }),
  child: ({ id, error, by, replaces }) =>
    replaces === undefined
      ? step(id!, error ? 'fails' : 'ends', failing(error))
      : step(id!, 'ends', { note: editedWords(replaces, by) }),
  timer: ({ id }) => step(id!, 'ends', id!.includes('~signal:') ? { note: 'timed out' } : {}),
  held: ({ id }) => step(id!, 'waits', { note: 'in doubt: a person must settle it', ...letsGo }),
  settled: ({ id, by }) => step(id!, 'beats', { note: `settled by ${by}` }),
  signal: ({ name, value }, { seq }) =>
    journalRow(`~got:${seq}`, 'message', 'is', { title: `signal ${name}`, ...worthTelling(value) }),
  update: ({ update, name }) => journalRow(`~update:${update}`, 'message', 'begins', { title: `update ${name}` }),
  updated: ({ update, error }) =>
    journalRow(`~update:${update}`, 'message', error ? 'fails' : 'ends', { title: '', ...failing(error) }),
  cancel: ({ reason }, { seq }) => remark(seq, 'stop requested', { sort: 'message', note: reason ?? '' }),
  undoing: ({ id }) => undo(id!, 'begins'),
  'undo.retry': ({ id, n, error, at }) => retries(undo(id!, 'retries'), n!, error, at),
  stuck: ({ id, error }) => undo(id!, 'waits', { ...failing(error), ...letsGo }),
  undone: ({ id, by }) => undo(id!, 'ends', by === undefined ? {} : { note: `settled by ${by}` }),
  loop: ({ n }, { seq }) => remark(seq, `iteration ${n}`),
  rollback: ({ to, consumed }, { seq }) =>
    remark(seq, `goes back to ${readableId(to ?? '')}`, { ...letsGo, ...(consumed && { note: although(consumed) }) }),
  rolled: ({ to }, { seq }) => remark(seq, `went back to ${readableId(to ?? '')}`, cuts),
  rerun: ({ to, consumed }, { seq }) =>
    remark(seq, `re-run of ${readableId(to ?? '')}`, { ...letsGo, ...(consumed && { note: although(consumed) }) }),
  rerunning: ({ ids = [] }, { seq }) =>
    remark(seq, 'repeats', { note: ids.map((id) => readableId(id.replace(/~(child|start|signal):/, ''))).join(', ') }),
  reused: ({ id }) => step(id!, 'ends', { note: 'kept by the re-run' }),
  unkept: ({ error }, { seq }) => remark(seq, 'undoes the steps that its re-run kept', failing(error)),
  restored: ({ to, error }, { seq }) =>
    remark(seq, `went back to ${readableId(to ?? '')}`, { ...cuts, ...letsGo, note: error?.message ?? '' }),
  resumed: ({ by }, { seq }) => remark(seq, 'resume requested', { sort: 'message', note: `by ${by}` }),
  continued: (_, { seq }) => remark(seq, 'starts over', { ...cuts, note: 'with new input and an empty history' }),
  retried: (_, { seq }) => remark(seq, 'retried manually', { sort: 'message', ...cuts, ...letsGo }),
  forked: ({ from, by, ...rest }, { seq }) => {
    const input = 'input' in rest ? `, with different input (${by ?? 'somebody'})` : ''
    return remark(seq, 'forked', { note: `from ${from}${input}`, ...cuts, ...letsGo })
  },
  undo: ({ reason }, { seq }) => remark(seq, 'undo of everything requested', { sort: 'message', note: reason ?? '' }),
  admitted: (_, { seq }) => remark(seq, 'admitted by its queue'),
  patched: ({ id }, { seq }) =>
    remark(seq, 'takes the new path', { note: readableId((id ?? '').replace('~patch:', '')) }),
  completed: () => journalRow('~end', 'end', 'ends', { title: 'completed', ...letsGo }),
  'ended-badly': ({ error, cancelled }) =>
    journalRow('~end', 'end', 'fails', { title: cancelled ? 'cancelled' : 'failed', ...failing(error), ...letsGo }),
  terminated: ({ reason }) =>
    journalRow('~end', 'end', 'fails', { title: 'terminated', note: reason ?? '', ...letsGo }),
}

export function entryRow(entry: Entry): JournalRow | null {
  return tellers[entry.type]?.((entry.data ?? {}) as Fields, entry) ?? null
}

function took(ms: number | undefined): Partial<JournalRow> {
  return ms === undefined ? {} : { ms }
}

function step(id: string, phase: JournalRow['phase'], more: Partial<JournalRow> = {}): JournalRow {
  const kind = /~(child|start|signal|sleep)\b/.exec(id)?.[1]
  const sort = kind === 'child' || kind === 'start' ? 'child' : kind ? 'wait' : 'step'
  const name = readableId(id.replace(/~(child|start|signal):/, '').replace('~sleep', 'sleep'))
  const word = kind === 'child' || kind === 'start' ? 'child ' : kind === 'signal' ? 'signal ' : ''
  return journalRow(id, sort, phase, { title: word + name, ...more })
}

function sharedWords({ from, by, for: asker }: SharedFrom): string {
  if (from === 'computed') return 'computed here, for all runs'
  return `shared (${from}): computed by ${by}${asker === null ? '' : ` for ${asker}`}`
}

function editedWords(replaces: number, by = 'somebody'): string {
  return `edited by ${by}, in place of entry ${replaces} of its parent`
}

function undo(id: string, phase: JournalRow['phase'], more: Partial<JournalRow> = {}): JournalRow {
  return journalRow(`~undo:${id}`, 'undo', phase, { title: `undo ${readableId(id)}`, ...more })
}

function remark(seq: number, title: string, more: Partial<JournalRow> = {}): JournalRow {
  return journalRow(`~note:${seq}`, 'note', 'is', { title, ...more })
}

/** The run may have no owner until the retry is due. */
function retries(row: JournalRow, attempt: number, error: Failure | undefined, at: number | undefined): JournalRow {
  return { ...row, attempt, ...failing(error), ...(at && { at }), ...letsGo }
}

function worthTelling(value: unknown): { readonly note?: string } {
  return value === undefined || value === null ? {} : { note: brief(value) }
}

function waitWords([kind, id]: NotedWait): string {
  return kind === 'timer' && !id.includes(':') ? 'for time to pass' : `for ${kind} ${waitName(id)}`
}

function failing(error: Failure | undefined): { readonly error?: string } {
  return error ? { error: error.message } : {}
}

/** A waiting run that a live worker owns is running, although it has written nothing since the claim. */
export function statusNow({ status, owner, isOwnerAlive }: Head): string {
  return status === 'waiting' && owner !== null && isOwnerAlive ? 'running' : status
}

const onlyFailed = 'only a run that failed can be retried'

export function refuses(state: unknown, { status }: Head): Refusals {
  const { undone, undos, open } = state as RunState
  if (endings.has(status)) {
    const ended = `it had already ended: ${status}`
    const rest = { cancel: ended, terminate: ended, signal: ended, settle: ended }
    if (status !== 'failed') return { ...rest, retry: onlyFailed }
    const isUndone = Object.keys(undone).length > 0
    return isUndone
      ? { ...rest, retry: 'its steps were undone, so it cannot be retried: fork it or start another' }
      : rest
  }
  const isHeld = Object.keys(undos).length > 0 || Object.values(open).some(({ held }) => held)
  return { retry: onlyFailed, ...(!isHeld && { settle: 'no part of it waits for a person' }) }
}

export function statusLine(state: unknown, head: Head): StatusLine {
  const { end, open } = state as RunState
  const { problem } = head.attributes
  if (problem !== undefined && !end) return { text: String(problem), needsPerson: true }
  if (end?.kind === 'completed') return { text: 'completed' }
  if (end?.kind === 'terminated') return { text: `terminated: ${end.reason}` }
  if (end) return { text: `${end.kind}: ${end.error.message}` }
  const { waits } = summarizeWorkflow(state as RunState)
  const first = waits.find(({ needsPerson }) => needsPerson) ?? waits.find(({ error }) => error !== null) ?? waits[0]
  if (!first || (isNoted(first) && isDue(head))) return { text: head.isOwnerAlive ? 'running' : 'waits for a worker' }
  const failures = Object.entries(open).find(([id]) => readableId(id) === first.name)?.[1].failures ?? 0
  return {
    text: words(first, failures),
    ...(first.until !== null && { at: first.until }),
    ...(first.needsPerson && { needsPerson: true }),
  }
}

/** Recorded when the run left memory: a worker that takes the run again writes nothing until the code has moved on. */
function isNoted({ kind }: Wait): boolean {
  return kind === 'signal' || kind === 'timer' || kind === 'child'
}

/** A worker has taken the waiting run, or mail arrived for it. */
function isDue({ owner, mail }: Head): boolean {
  return owner !== null || mail > 0
}

function words({ kind, name, needsPerson, error }: Wait, failures: number): string {
  const why = error === null ? '' : `: ${error}`
  switch (kind) {
    case 'signal':
      return `waits for signal ${name}`
    case 'timer':
      return 'sleeps'
    case 'child':
      return `waits for child ${name}`
    case 'queue':
      return `waits for its turn in ${name}`
    case 'rollback':
      return 'goes back'
    case 'restored':
      return `went back to ${name}${why}`
    case 'compensation':
      return `${needsPerson ? 'stuck undoing' : 'undoes'} ${name}${why}`
    case 'step':
      if (needsPerson) return `held at ${name}: a person must settle it`
      return failures > 0 ? `retries ${name} after ${failures} ${failures === 1 ? 'failure' : 'failures'}${why}` : name
  }
}
