// A run that another process replaced: what it met first is not why it ended.

import { isReprise, RepriseError } from '../../../core/errors.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { StateTimeline } from '../../../engine/writing/state-timeline.ts'

/**
 * A run that was paused and replaced meets the effects of that first: a transaction that a broker ended, a slot that another
 * consumer has. The truth is FENCED; what it met is the cause. Advice for what it met would make results twice.
 */
export async function whyEnded({ store }: Kernel, taken: StateTimeline, error: unknown): Promise<unknown> {
  if (isReprise(error, 'FENCED', 'CANCELLED', 'ABORTED', 'CLOSED')) return error
  const [head] = await Promise.resolve(store.head([taken.id])).catch(() => [])
  if (!head || head.epoch === taken.head.epoch) return error
  const what = `another process took ${taken.id} over while this one did not answer: its results are with the other process`
  return new RepriseError('FENCED', what, { timeline: taken.id, epoch: taken.head.epoch, current: head.epoch }, error)
}
