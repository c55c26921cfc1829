// A person's mark on a checkpoint: a checkpoint marked bad is not restored from, and does not count in retention; it stays as
// evidence until the mark is removed. A successful read does not remove the mark: it proves nothing about the person's reason.

import { type ManifestId, type TimelineId, timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { badMark, isBadMark } from '../../core/history/validity.ts'
import { epochGuardOf } from '../../core/store/commit-guard.ts'
import type { ManifestMark, ManifestRecord } from '../../core/store/ports.ts'
import { refusalError } from '../base/refusal-error.ts'
import { existing } from '../history/locate.ts'
import { type Kernel, submit } from '../storage/kernel.ts'

export interface BadCheckpoint {
  readonly why: string
  /** The person who marks it. */
  readonly by?: string
}

const textMax = 500
const attemptsMax = 10

/** @example await rp.markCheckpoint('counter/visits', id, { why: 'written by the faulty import', by: 'ann' }) */
export async function markBad(kernel: Kernel, timeline: string, id: string, bad: BadCheckpoint): Promise<void> {
  const { why, by = 'somebody' } = bad
  for (const [name, text] of Object.entries({ why, by })) {
    if (typeof text === 'string' && text.trim() !== '' && text.length <= textMax) continue
    throw new RepriseError('INVALID_ARGUMENT', `${name} must have 1 to ${textMax} characters`, { [name]: String(text) })
  }
  await mark(kernel, timelineId(timeline), id, (record) => ({ id: record.id, invalid: badMark(by, why) }))
}

export async function unmarkBad(kernel: Kernel, timeline: string, id: string): Promise<void> {
  await mark(kernel, timelineId(timeline), id, (record) => {
    if (isBadMark(record.invalid)) return { id: record.id, invalid: null }
    const what = `checkpoint ${id} of ${timeline} was not marked by a person${record.invalid ? `: ${record.invalid}` : ''}`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline, id })
  })
}

/** Writes under the epoch of the timeline's owner, from whom it takes nothing. */
async function mark(
  kernel: Kernel,
  timeline: TimelineId,
  id: string,
  change: (record: ManifestRecord) => ManifestMark,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const head = await existing(kernel, timeline)
    const record = (await kernel.store.checkpoints(timeline)).find((each) => each.id === (id as ManifestId))
    if (!record) throw new RepriseError('NOT_FOUND', `${timeline} has no checkpoint ${id}`, { timeline, id })
    const outcome = await submit(kernel, {
      guard: epochGuardOf(head),
      aside: true,
      marks: [change(record)],
    })
    if (outcome.ok) return
    // The timeline has another owner since it was read.
    if (outcome.code !== 'FENCED' || attempt === attemptsMax) throw refusalError(timeline, outcome)
  }
}
