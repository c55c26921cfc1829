// The end of a run: why it really ended, and resources that are closed without waiting for one that hangs.

import { isReprise, RepriseError } from '../../../core/errors.ts'
import type { Clock } from '../../../core/ports.ts'
import type { StateTimeline } from '../../../engine/checkpoint/state-timeline.ts'
import type { Kernel } from '../../../engine/kernel.ts'
import type { Checkpoints, MadeCheckpoint } from './checkpoints.ts'

const closeWithinMs = 5000
const attemptsMax = 10

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

/** One that does not close in time is left alone: whoever opens it next must bear that anyway. */
export async function closeAll(clock: Clock, closing: readonly Promise<void>[]): Promise<void> {
  let cancel = () => {}
  const late = new Promise<void>((resolve) => {
    cancel = clock.after(closeWithinMs, resolve, true)
  })
  await Promise.race([Promise.allSettled(closing), late])
  cancel()
}

/** The last checkpoint is tried again while there is hope. */
export async function insist(
  clock: Clock,
  made: Promise<MadeCheckpoint>,
  again: () => ReturnType<Checkpoints['make']>,
): Promise<MadeCheckpoint> {
  for (let attempt = 1, next = made; ; attempt++) {
    try {
      return await next
    } catch (error) {
      if (attempt >= attemptsMax || !isReprise(error, 'RUN_FAILED')) throw error
      await new Promise<void>((resolve) => clock.after(Math.min(5000, 50 * 2 ** attempt), resolve, true))
      next = again()
    }
  }
}
