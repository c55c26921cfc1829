// The waits of a run in words for people, from its history alone, so that a tool can print them without the code. A run
// records its waits when it leaves memory; calls in flight and retries are in its history anyway.

import type { Command, CommandKind } from '../run/command.ts'
import { readableId } from '../run/scope.ts'
import type { NotedWait } from './entries.ts'
import type { Failure } from './failure.ts'
import type { RunState } from './state.ts'

/** One wait of a run. */
export interface Wait {
  readonly kind: 'signal' | 'timer' | 'child' | 'step' | 'compensation' | 'queue' | 'rollback' | 'restored'
  /** The name of the signal or queue, or the id of the child or step; '' for a rollback. */
  readonly name: string
  /** The end of a sleep or timeout, or the time of the next attempt. Null: the run does not continue by itself. */
  readonly until: number | null
  /** Only a person can end this wait: run.settle() or run.resume(). */
  readonly needsPerson: boolean
  /** The error of the last attempt. */
  readonly error: string | null
}

export interface WorkflowSummary {
  readonly isEnded: boolean
  /** The time at which the run began with its current input. */
  readonly startedAt: number
  /** The time at which the run ends as if cancelled. */
  readonly deadline: number | null
  readonly waits: readonly Wait[]
}

const notedMax = 50
const noted: ReadonlySet<CommandKind> = new Set(['signal', 'timer', 'child'])

export function notedWaits(commands: Iterable<Command>): NotedWait[] {
  const waits: NotedWait[] = []
  for (const { kind, id, until } of commands) {
    if (noted.has(kind) && waits.length < notedMax) waits.push([kind as NotedWait[0], id, until])
  }
  return waits
}

/** @example summarizeWorkflow(await run.state()).waits // [{ kind: 'signal', name: 'paid', until: 1767225600000, … }] */
export function summarizeWorkflow(state: RunState): WorkflowSummary {
  const { started, startedAt, end } = state
  return {
    isEnded: end !== null,
    startedAt,
    deadline: started?.deadline ?? null,
    waits: end ? [] : waitsOf(state, state.waits ?? []),
  }
}

/** @example inWords(wait) // 'signal paid until 2026-01-01T00:00:00.000Z' */
export function inWords({ kind, name, until, needsPerson, error }: Wait): string {
  const when = until === null ? '' : ` until ${new Date(until).toISOString()}`
  const who = needsPerson ? ', for a person' : ''
  return `${kind} ${name}`.trimEnd() + when + who + (error === null ? '' : ` (${error})`)
}

/** All waits of a run. `notes` are the recorded waits, or the current ones of the code in memory. */
export function waitsOf(state: RunState, notes: readonly NotedWait[]): Wait[] {
  const waits: Wait[] = []
  const add = (kind: Wait['kind'], name: string, more: Partial<Wait> = {}) =>
    waits.push({ kind, name, until: null, needsPerson: false, error: null, ...more })
  const queue = state.started?.queue
  if (queue && !state.isAdmitted) add('queue', queue.name)
  if (state.rolling) add('rollback', '')
  if (state.restored?.isHeld) {
    const { to, stands, error } = state.restored
    const what = stands.map(({ step, why }) => `${step} is still in effect (${why})`).join(', ')
    add('restored', readableId(to), { needsPerson: true, error: what || error.message })
  }
  for (const [kind, id, until] of notes) add(kind, waitName(id), { until })
  for (const [id, { held, notBefore, error }] of Object.entries(state.open)) {
    add('step', readableId(id), { until: notBefore || null, needsPerson: held, error: textOf(error) })
  }
  for (const [id, { isStuck, notBefore, error }] of Object.entries(state.undos)) {
    add('compensation', readableId(id), { until: notBefore || null, needsPerson: isStuck, error: textOf(error) })
  }
  return waits
}

/** `race.0/~signal:paid#2` is the signal paid. */
export function waitName(id: string): string {
  const own = id.slice(id.lastIndexOf('/') + 1)
  return readableId(
    own
      .replace(/^~[a-z]+:/, '')
      .replace(/^~/, '')
      .replace(/#\d+$/, ''),
  )
}

function textOf(error: Failure | null): string | null {
  return error ? error.message : null
}
