// The end of a run: the last checkpoint, and resources that are closed without waiting for one that hangs.

import { isReprise } from '../../../core/errors.ts'
import type { Clock } from '../../../core/store/ports.ts'
import type { Checkpoints, MadeCheckpoint } from './checkpoints.ts'

const closeWithinMs = 5000
const attemptsMax = 10

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
