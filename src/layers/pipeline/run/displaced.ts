// A run that another process replaced: the first error it meets is not the reason for its end.

import { isReprise, RepriseError } from '../../../core/errors.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { StateTimeline } from '../../../engine/writing/state-timeline.ts'

/**
 * A run that was paused and replaced first encounters the effects of the replacement: a transaction that a broker ended, a slot
 * that another consumer holds. The real reason is FENCED, with the first error as its cause. Following a hint of the first error
 * would produce results twice.
 */
export async function whyEnded({ store }: Kernel, taken: StateTimeline, error: unknown): Promise<unknown> {
  if (isReprise(error, 'FENCED', 'CANCELLED', 'ABORTED', 'CLOSED')) return error
  const [head] = await Promise.resolve(store.head([taken.id])).catch(() => [])
  if (!head || head.epoch === taken.head.epoch) return error
  const what = `another process took ${taken.id} over while this one did not respond: the other process has its results`
  return new RepriseError('FENCED', what, { timeline: taken.id, epoch: taken.head.epoch, current: head.epoch }, error)
}
