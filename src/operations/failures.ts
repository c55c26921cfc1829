// Work that makes no progress, with the reason: for `reprise ls`, `show`, `doctor`, metrics and the dashboard.

import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { lastEntry } from '../engine/history/history.ts'
import { hostOf } from '../engine/host/host.ts'
import { type FailureNote, failingAttribute, failureOf } from '../engine/storage/failure-notes.ts'
import { statusLineAt } from './describe.ts'
import { count, relative } from './figures-as-text.ts'
import { type Check, dueMs } from './health.ts'
import { dueSince } from './queues.ts'

const listedMax = 1000
const shownMax = 5

interface Halt {
  /** The name of the finding. */
  readonly name: string
  /** Where the history has no words for it, or cannot be read. */
  readonly words: string
  readonly cure: string
}

/** Statuses in which a run makes no progress until a person acts. */
const halts: Readonly<Record<string, Halt>> = {
  // The run stays partially undone.
  stuck: {
    name: 'compensations',
    words: 'a compensation failed permanently',
    cure: 'fix the cause, then: reprise settle TIMELINE STEP retry; or undo it manually, then: reprise settle TIMELINE STEP compensated',
  },
  held: {
    name: 'held runs',
    words: 'held: a person must decide',
    cure: 'check the outcome in the outside system, then: reprise settle TIMELINE STEP done|failed|retry; for a run that was rolled back: reprise resume TIMELINE',
  },
  diverged: {
    name: 'diverged runs',
    words: 'its code does not follow its history',
    cure: 'start a worker whose code matches the history: it resumes the run',
  },
  quarantined: {
    name: 'quarantined runs',
    words: 'its history cannot be executed',
    cure: 'fix the reported cause and restart the worker: it resumes the run',
  },
}

export interface FailingTimeline extends FailureNote {
  readonly timeline: string
  /** Null: its model is unknown here. */
  readonly kind: string | null
}

/** Archives keep the attributes of their timeline, and are never worked on. */
export async function failingTimelines(engine: Reprise): Promise<FailingTimeline[]> {
  const { kernel, models } = hostOf(engine)
  const heads = await engine.list({ attributes: { [failingAttribute]: true }, limit: listedMax })
  return heads.flatMap((head) => {
    const note = head.status === 'archived' ? null : failureOf(kernel.sealer, head)
    return note ? [{ timeline: head.timeline, kind: models.find(head.timeline)?.kind ?? null, ...note }] : []
  })
}

/** @example 'failed 3 times in a row since 2 min ago: the source orders is gone' */
export function failureWords({ attempts, since, reason }: FailureNote, now: number): string {
  const times = attempts === 1 ? 'failed' : `failed ${attempts.toLocaleString('en-US')} times in a row`
  return `${times} ${attempts === 1 ? '' : 'since '}${relative(since, now)}: ${reason}`
}

/** The column of a list: empty while it makes progress. A failed timeline has the reason in its last entry. */
export async function reasonOf(engine: Reprise, head: Head, now: number): Promise<string> {
  const { kernel } = hostOf(engine)
  const note = failureOf(kernel.sealer, head)
  if (note) return failureWords(note, now)
  if (isHalted(engine, head)) return await haltWords(engine, head)
  if (head.status !== 'failed') return dueWords(head, now) ?? ''
  // An unreadable entry is not an error in a list: the timeline's own page reports it.
  const last = await lastEntry(kernel, head).catch(() => null)
  return errorWords((last?.data as { readonly error?: unknown } | null | undefined)?.error) ?? ''
}

/** Due work that no worker takes; null: it is not due, or not for long. @example 'due since 5m ago, and no worker executes it' */
export function dueWords(head: Head, now: number): string | null {
  const since = dueSince(head, now)
  return since === null || now - since <= dueMs ? null : `due since ${relative(since, now)}, but no worker executes it`
}

/** A timeline of the user's may have a status of the same name. */
function isHalted(engine: Reprise, { timeline, status }: Head): boolean {
  return Object.hasOwn(halts, status) && hostOf(engine).models.find(timeline)?.attention?.includes(status) === true
}

/** @example 'stuck undoing charge: no answer' */
async function haltWords(engine: Reprise, head: Head): Promise<string> {
  // A run whose history cannot be read keeps its line in the list.
  const line = await statusLineAt(engine, head).catch(() => null)
  return line?.text ?? String(head.attributes.problem ?? halts[head.status]!.words)
}

/** Null: the value is not a recorded error. @example 'EDECLINED: card refused' */
export function errorWords(error: unknown): string | null {
  const { code, name, message } = (error ?? {}) as Readonly<Record<string, unknown>>
  if (typeof message !== 'string') return null
  const [kind] = [code, name].filter((each) => typeof each === 'string' && each !== '' && each !== 'Error')
  return kind === undefined ? message : `${kind}: ${message}`
}

export async function failuresHealth(engine: Reprise): Promise<Check[]> {
  const halted = await Promise.all(Object.keys(halts).map((status) => haltedHealth(engine, status)))
  return [...(await failingHealth(engine)), ...halted.flat()]
}

async function haltedHealth(engine: Reprise, status: string): Promise<Check[]> {
  const listed = await engine.list({ status, limit: listedMax })
  const halted = listed.filter((head) => isHalted(engine, head))
  if (halted.length === 0) return []
  const { name, cure } = halts[status]!
  const join = status === 'stuck' ? ' is ' : ': '
  const shown = halted.slice(0, shownMax)
  const words = await Promise.all(shown.map(async (head) => head.timeline + join + (await haltWords(engine, head))))
  if (halted.length > shownMax) words.push(`and ${count(halted.length - shownMax, 'other run')}`)
  return [{ name, state: 'bad', what: words.join('; '), cure }]
}

async function failingHealth(engine: Reprise): Promise<Check[]> {
  const failing = await failingTimelines(engine)
  if (failing.length === 0) return []
  const now = hostOf(engine).now()
  const words = failing.slice(0, shownMax).map((each) => `${each.timeline} ${failureWords(each, now)}`)
  if (failing.length > shownMax) words.push(`and ${count(failing.length - shownMax, 'other timeline')}`)
  const cure = 'fix the cause and run it again: the first success removes the note (reprise show TIMELINE)'
  return [{ name: 'work', state: 'bad', what: words.join('; '), cure, data: { failing } }]
}
