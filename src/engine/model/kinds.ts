// The first segments of ids, and whose they are. Users name raw timelines, savers and sessions themselves, and their names
// are first segments too: these are not for them.

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
 * The statuses in which nothing is left to do, of kinds whose work ends or stands. An expiry reads them here: its process may
 * not have loaded the model. 'open': a fork that was never run.
 */
const ended: Readonly<Record<string, readonly string[]>> = {
  agent: ['', 'open', 'idle'],
  exec: ['open', 'done'],
  job: ['open', 'finished'],
  migrate: ['open', 'finished'],
  pipeline: ['open', 'done', 'cancelled'],
  upload: ['completed', 'ended'],
  workflow: ['completed', 'failed', 'cancelled', 'terminated'],
}

/** True: timelines of this kind have statuses in which something is left to do, and this is one of them. */
export function isUnfinishedKind(id: string, status: string): boolean {
  const kind = firstSegment(id)
  return Object.hasOwn(ended, kind) && !ended[kind]!.includes(status)
}

/** A name that becomes the first segment of ids. `own`: the one that this kind has by default. */
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

/** What the store notes about itself: where its chunks lie, who keeps house. It means nothing anywhere else. */
export function isOfStore(id: string): boolean {
  return isWithin('reprise/', id)
}

export function refuseOfStore(id: string): void {
  if (!isOfStore(id)) return
  const what = `${id} holds the store's own notes: it cannot be moved, copied, changed or deleted`
  throw new RepriseError('INVALID_ARGUMENT', what, { timeline: id })
}

/** A copy under another id stays what it is: a workflow's history means nothing elsewhere, nor does another's there. */
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

function firstSegment(id: string): string {
  return id.slice(0, id.indexOf('/') < 0 ? id.length : id.indexOf('/'))
}
