// Work that does not advance, with the reason: for `reprise ls`, `show`, `doctor`, metrics and the dashboard.

import type { Head } from '../core/ports.ts'
import { type FailureNote, failingAttribute, failureOf } from '../engine/failure-notes.ts'
import { hostOf } from '../engine/host.ts'
import type { Reprise } from '../engine/reprise.ts'
import type { Check } from './health.ts'
import { count, relative } from './words.ts'

const listedMax = 1000
const shownMax = 5

export interface FailingTimeline extends FailureNote {
  readonly timeline: string
  /** Null: its model is not known here. */
  readonly kind: string | null
}

/** Archives keep what their timeline had, and nobody works on them. */
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

/** The column of a list: empty where nothing is noted. */
export function reasonOf(engine: Reprise, head: Head, now: number): string {
  const note = failureOf(hostOf(engine).kernel.sealer, head)
  return note ? failureWords(note, now) : ''
}

export async function failuresHealth(engine: Reprise): Promise<Check[]> {
  const failing = await failingTimelines(engine)
  if (failing.length === 0) return []
  const now = hostOf(engine).kernel.worker.now()
  const words = failing.slice(0, shownMax).map((each) => `${each.timeline} ${failureWords(each, now)}`)
  if (failing.length > shownMax) words.push(`and ${count(failing.length - shownMax, 'other timeline')}`)
  const cure = 'mend the cause and run it again: the note is removed with the first success (reprise show TIMELINE)'
  return [{ name: 'work', state: 'bad', what: words.join('; '), cure }]
}
