// The end of a shard's round in this process: the round is finished, or left for later. Both are recorded in history
// and followed by a checkpoint. A failed shard is due again after as long as it has been failing, between `pauseMinMs`
// and `pauseMaxMs`, so that an unavailable source causes little load.

import { failureOf } from '../../engine/storage/failure-notes.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { entry } from './entries.ts'
import type { Shard, ShardItem } from './shard.ts'

const pauseMinMs = 1000
const pauseMaxMs = 60_000

type AnyShard = Pick<Shard<ShardItem>, 'state' | 'open' | 'write' | 'attributes'>

export async function finishShard(
  kernel: Kernel,
  shard: AnyShard,
  skipped: number,
  keepsCursor: boolean,
): Promise<void> {
  const { round, roundDone, roundFailed, cursor } = shard.state
  const data = { round, done: roundDone, skipped, failed: roundFailed, cursor: keepsCursor ? cursor : null }
  await shard.write([entry('finished', data)], {
    status: 'completed',
    wakeup: null,
    attributes: { ...shard.attributes(), finishedAt: kernel.worker.now(shard.open.id) },
  })
  await checkpointQuietly(kernel, shard, 'finished')
}

/**
 * `hasFailed`: the shard was not stopped on request, and its failure is recorded. `isHeld`: a person stopped the job, and workers
 * leave it alone until a person resumes it.
 */
export async function leaveShard(
  kernel: Kernel,
  shard: AnyShard,
  because: string,
  { hasFailed = false, isHeld = false } = {},
): Promise<void> {
  const now = kernel.worker.now(shard.open.id)
  const since = hasFailed ? await failingSince(kernel, shard) : null
  await shard.write([entry('stopped', { because })], {
    status: since === null ? 'stopped' : 'failed',
    wakeup: since === null ? (isHeld ? null : now) : now + Math.min(Math.max(now - since, pauseMinMs), pauseMaxMs),
    attributes: shard.attributes(),
  })
  await checkpointQuietly(kernel, shard, 'stopped')
}

/** Returns null if no failure is recorded. */
async function failingSince({ store, sealer }: Kernel, { open }: AnyShard): Promise<number | null> {
  const [head] = await store.head([open.id])
  return (head && failureOf(sealer, head)?.since) ?? null
}

/** History is complete: a failed checkpoint only makes the next start slower. */
async function checkpointQuietly(kernel: Kernel, shard: AnyShard, trigger: string): Promise<void> {
  try {
    await shard.open.checkpoint({ trigger })
  } catch (error) {
    kernel.events.emit('problem', { where: shard.open.id, error })
  }
}
