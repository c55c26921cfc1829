// How a run reads to people: each entry as part of a row of its journal, and where the run stands as one line.

import type { Head } from '../../core/ports.ts'
import type { Entry } from '../../engine/entry.ts'
import { type StatusLine, type Told, told } from '../../engine/told.ts'
import type { Failure } from './failure.ts'
import { readableId } from './scope.ts'
import type { RunState } from './state.ts'
import { summarizeWorkflow, type Wait } from './summary.ts'

/** In these a run waits for a person. */
export const attention: readonly string[] = ['held', 'compensation-stuck', 'diverged', 'quarantined']

interface Fields {
  readonly id?: string
  readonly n?: number
  readonly error?: Failure
  readonly at?: number
  readonly name?: string
  readonly update?: string
  readonly reason?: string
  readonly to?: string
  readonly by?: string
  readonly from?: string
  readonly cancelled?: boolean
}

type Teller = (fields: Fields, entry: Entry) => Told

/** Types that are missing here are told by their type alone. */
const tellers: Readonly<Record<string, Teller>> = {
  started: () => told('~run', 'start', 'is', { title: 'started' }),
  began: ({ id }) => step(id!, 'begins'),
  beat: ({ id }) => step(id!, 'beats'),
  retry: ({ id, n, error, at }) => step(id!, 'retries', { attempt: n!, ...failing(error), ...(at && { at }) }),
  done: ({ id }) => {
    if (id!.includes('~start:')) return step(id!, 'is')
    return step(id!, id!.includes('~child:') ? 'begins' : 'ends')
  },
  failed: ({ id, error }) => step(id!, 'fails', failing(error)),
  child: ({ id, error }) => step(id!, error ? 'fails' : 'ends', failing(error)),
  timer: ({ id }) => step(id!, 'ends', id!.includes('~signal:') ? { note: 'timed out' } : {}),
  held: ({ id }) => step(id!, 'waits', { note: 'in doubt: a person says what became of it' }),
  settled: ({ id, by }) => step(id!, 'beats', { note: `settled by ${by}` }),
  signal: ({ name }, { seq }) => told(`~got:${seq}`, 'message', 'is', { title: `signal ${name}` }),
  update: ({ update, name }) => told(`~update:${update}`, 'message', 'begins', { title: `update ${name}` }),
  updated: ({ update, error }) =>
    told(`~update:${update}`, 'message', error ? 'fails' : 'ends', { title: '', ...failing(error) }),
  cancel: ({ reason }, { seq }) => told(`~note:${seq}`, 'note', 'is', { title: 'asked to stop', note: reason ?? '' }),
  undoing: ({ id }) => undo(id!, 'begins'),
  'undo.retry': ({ id, n, error, at }) => undo(id!, 'retries', { attempt: n!, ...failing(error), ...(at && { at }) }),
  stuck: ({ id, error }) => undo(id!, 'waits', failing(error)),
  undone: ({ id, by }) => undo(id!, 'ends', by === undefined ? {} : { note: `settled by ${by}` }),
  loop: ({ n }, { seq }) => told(`~note:${seq}`, 'note', 'is', { title: `iteration ${n}` }),
  rollback: ({ to }, { seq }) => told(`~note:${seq}`, 'note', 'is', { title: `goes back to ${readableId(to ?? '')}` }),
  rolled: ({ to }, { seq }) => told(`~note:${seq}`, 'note', 'is', { title: `went back to ${readableId(to ?? '')}` }),
  retried: (_, { seq }) => told(`~note:${seq}`, 'note', 'is', { title: 'retried by hand' }),
  forked: ({ from }, { seq }) => told(`~note:${seq}`, 'note', 'is', { title: 'forked', note: `from ${from}` }),
  completed: () => told('~end', 'end', 'ends', { title: 'completed' }),
  'ended-badly': ({ error, cancelled }) =>
    told('~end', 'end', 'fails', { title: cancelled ? 'cancelled' : 'failed', ...failing(error) }),
  terminated: ({ reason }) => told('~end', 'end', 'fails', { title: 'terminated', note: reason ?? '' }),
}

export function tells(entry: Entry): Told | null {
  return tellers[entry.type]?.((entry.data ?? {}) as Fields, entry) ?? null
}

function step(id: string, phase: Told['phase'], more: Partial<Told> = {}): Told {
  const kind = /~(child|start|signal|sleep)\b/.exec(id)?.[1]
  const sort = kind === 'child' || kind === 'start' ? 'child' : kind ? 'wait' : 'step'
  const name = readableId(id.replace(/~(child|start|signal):/, '').replace('~sleep', 'sleep'))
  const word = kind === 'child' || kind === 'start' ? 'child ' : kind === 'signal' ? 'signal ' : ''
  return told(id, sort, phase, { title: word + name, ...more })
}

function undo(id: string, phase: Told['phase'], more: Partial<Told> = {}): Told {
  return told(`~undo:${id}`, 'undo', phase, { title: `undo ${readableId(id)}`, ...more })
}

function failing(error: Failure | undefined): { readonly error?: string } {
  return error ? { error: error.message } : {}
}

export function stands(state: unknown, head: Head): StatusLine {
  const { end, open } = state as RunState
  const { problem } = head.attributes
  if (problem !== undefined && !end) return { text: String(problem), needsPerson: true }
  if (end?.kind === 'completed') return { text: 'completed' }
  if (end?.kind === 'terminated') return { text: `terminated: ${end.reason}` }
  if (end) return { text: `${end.kind}: ${end.error.message}` }
  const { waits } = summarizeWorkflow(state as RunState)
  const first = waits.find(({ needsPerson }) => needsPerson) ?? waits.find(({ error }) => error !== null) ?? waits[0]
  if (!first) return { text: head.isOwnerAlive ? 'running' : 'waits for a worker' }
  const failures = Object.entries(open).find(([id]) => readableId(id) === first.name)?.[1].failures ?? 0
  return {
    text: words(first, failures),
    ...(first.until !== null && { at: first.until }),
    ...(first.needsPerson && { needsPerson: true }),
  }
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
      if (needsPerson) return `held at ${name}: a person says what became of it`
      return failures > 0 ? `retries ${name} after ${failures} ${failures === 1 ? 'failure' : 'failures'}${why}` : name
  }
}
