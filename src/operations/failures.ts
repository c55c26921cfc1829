// Work that makes no progress, with the reason: for `reprise ls`, `show`, `doctor`, metrics and the dashboard.

import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { lastEntry } from '../engine/history/history.ts'
import { hostOf } from '../engine/host/host.ts'
import { type FailureNote, failingAttribute, failureOf } from '../engine/storage/failure-notes.ts'
import { standsAt } from './describe.ts'
import type { Check } from './health.ts'
import { count, relative } from './words.ts'

const listedMax = 1000
const shownMax = 5
/** A compensation failed for good: the run stays half undone until a person decides. */
const stuckStatus = 'stuck'

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

/** The column of a list: empty without a failure. A failed timeline has the reason in its last entry. */
export async function reasonOf(engine: Reprise, head: Head, now: number): Promise<string> {
  const { kernel } = hostOf(engine)
  const note = failureOf(kernel.sealer, head)
  if (note) return failureWords(note, now)
  if (head.status === stuckStatus) return await stuckWords(engine, head)
  if (head.status !== 'failed') return ''
  // An unreadable entry is not an error in a list: the timeline's own page reports it.
  const last = await lastEntry(kernel, head).catch(() => null)
  return errorWords((last?.data as { readonly error?: unknown } | null | undefined)?.error) ?? ''
}

/** @example 'stuck undoing charge: no answer' */
async function stuckWords(engine: Reprise, head: Head): Promise<string> {
  // A run whose history cannot be read keeps its line in the list.
  return (await standsAt(engine, head).catch(() => null))?.text ?? 'a compensation failed for good'
}

/** Null: it is no error as histories keep them. @example 'EDECLINED: card refused' */
export function errorWords(error: unknown): string | null {
  const { code, name, message } = (error ?? {}) as Readonly<Record<string, unknown>>
  if (typeof message !== 'string') return null
  const [kind] = [code, name].filter((each) => typeof each === 'string' && each !== '' && each !== 'Error')
  return kind === undefined ? message : `${kind}: ${message}`
}

export async function failuresHealth(engine: Reprise): Promise<Check[]> {
  return [...(await failingHealth(engine)), ...(await stuckHealth(engine))]
}

async function stuckHealth(engine: Reprise): Promise<Check[]> {
  const stuck = await engine.list({ status: stuckStatus, limit: listedMax })
  if (stuck.length === 0) return []
  const shown = stuck.slice(0, shownMax)
  const words = await Promise.all(shown.map(async (head) => `${head.timeline} is ${await stuckWords(engine, head)}`))
  if (stuck.length > shownMax) words.push(`and ${count(stuck.length - shownMax, 'other run')}`)
  const cure =
    'fix the cause, then: reprise settle TIMELINE STEP retry; or undo it by hand, then: reprise settle TIMELINE STEP compensated'
  return [{ name: 'compensations', state: 'bad', what: words.join('; '), cure }]
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
