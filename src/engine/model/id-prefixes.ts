// The first segments of ids, and their owners. Users name raw timelines, savers and sessions themselves, and those
// names are first segments too: reserved ones are refused.

import { RepriseError } from '../../core/errors.ts'
import { isWithin } from '../../core/history/scope.ts'
import { checkName } from './definition.ts'

const reserved: Readonly<Record<string, string>> = {
  agent: 'agents',
  'ai-sdk': 'recorders of the AI SDK',
  config: 'pushed configuration',
  controller: 'controllers',
  events: 'aggregates',
  exec: 'programs',
  group: 'cuts and restores of groups',
  informer: 'informers',
  job: 'jobs and consumers',
  keys: 'keys of personal data',
  langgraph: 'threads of LangGraph',
  'langgraph-store': 'the memory of LangGraph',
  memo: 'remembered calls',
  migrate: 'migrations',
  'openai-agents': 'sessions of OpenAI agents',
  pipeline: 'pipelines',
  process: 'process managers',
  projection: 'projections',
  reprise: 'the store itself',
  resource: 'resources',
  save: 'saves',
  table: 'tables and state stores',
  upload: 'uploads',
  workflow: 'workflows',
  'workflow-queue': 'queues',
  'workflow-schedule': 'schedules',
}

/**
 * The statuses with no work left, for kinds whose work ends or pauses. Expiry reads them here, because its process may
 * not have loaded the model. 'open': a fork that was never run.
 */
const ended: Readonly<Record<string, readonly string[]>> = {
  agent: ['', 'open', 'idle'],
  exec: ['open', 'completed'],
  job: ['open', 'completed'],
  migrate: ['open', 'completed'],
  pipeline: ['open', 'completed', 'cancelled'],
  upload: ['completed', 'removed'],
  workflow: ['completed', 'failed', 'cancelled', 'terminated'],
}

/** True: timelines of this kind have statuses with work left to do, and this is one of them. */
export function isUnfinishedKind(id: string, status: string): boolean {
  const kind = firstSegment(id)
  return Object.hasOwn(ended, kind) && !ended[kind]!.includes(status)
}

/** Checks a name that becomes the first segment of ids. `own`: the default name of this kind. */
export function checkFirstSegment(kind: string, name: string, own?: string): string {
  checkName(kind, name)
  if (name !== own && Object.hasOwn(reserved, name)) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      `a ${kind} cannot be called ${name}: ids that start with ${name}/ belong to ${reserved[name]}`,
      { name, kind },
    )
  }
  return name
}

/** The store's own notes: where its chunks are stored, which process does the housekeeping. Meaningless in another store. */
export function isOfStore(id: string): boolean {
  return isWithin('reprise/', id)
}

export function refuseOfStore(id: string): void {
  if (!isOfStore(id)) return
  const what = `${id} holds records of the store: it cannot be moved, copied, changed or deleted`
  throw new RepriseError('INVALID_ARGUMENT', what, { timeline: id })
}

/** A copy or a fork under another id must keep its kind: another kind cannot read its history. */
export function checkSameKind(id: string, as: string): void {
  const [own, other] = [firstSegment(id), firstSegment(as)]
  if (own === other || (!isReserved(id) && !isReserved(as))) return
  const what = `${id} cannot be ${as}: ids that start with ${isReserved(id) ? own : other}/ belong to ${reserved[isReserved(id) ? own : other]}`
  const cure = isReserved(id) ? `; name one that starts with ${own}/ as well` : ''
  throw new RepriseError('INVALID_ARGUMENT', `${what}${cure}`, { timeline: id, as })
}

export function isReserved(id: string): boolean {
  return Object.hasOwn(reserved, firstSegment(id))
}

export function firstSegment(id: string): string {
  return id.slice(0, id.indexOf('/') < 0 ? id.length : id.indexOf('/'))
}
