// The end of a run: the last checkpoint, and closing resources without waiting for one that hangs.

import { isReprise } from '../../../core/errors.ts'
import type { Clock } from '../../../core/store/ports.ts'
import { sleep, within } from '../../../lib/waiting.ts'
import type { Checkpoints, MadeCheckpoint } from './checkpoints.ts'

const closeWithinMs = 5000
const attemptsMax = 10

/** A resource that does not close in time is abandoned: the next process that opens it must tolerate that anyway. */
export async function closeAll(clock: Clock, closing: readonly Promise<void>[]): Promise<void> {
  await within(clock, closeWithinMs, Promise.allSettled(closing))
}

/** Retries the last checkpoint while it can still succeed. */
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
      await sleep(clock, Math.min(5000, 50 * 2 ** attempt))
      next = again()
    }
  }
}
