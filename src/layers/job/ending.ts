// How a shard ends: its round is finished, or it is left for later. Either way it says so in history and takes a checkpoint.
// A shard that failed is due again after as long as it has failed so far, between `pauseMinMs` and `pauseMaxMs`: a source that
// stays away costs processes that work on the job little.

import { failureOf } from '../../engine/storage/failure-notes.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { entry } from './entries.ts'
import type { Shard, ShardItem } from './shard.ts'

const pauseMinMs = 1000
const pauseMaxMs = 60_000

type AnyShard = Pick<Shard<ShardItem>, 'state' | 'open' | 'write' | 'attributes'>

export async function finishShard(kernel: Kernel, shard: AnyShard, skipped: number, goesOn: boolean): Promise<void> {
  const { round, roundDone, roundFailed, cursor } = shard.state
  const data = { round, done: roundDone, skipped, failed: roundFailed, cursor: goesOn ? cursor : null }
  await shard.write([entry('finished', data)], {
    status: 'finished',
    wakeup: null,
    attributes: { ...shard.attributes(), finishedAt: kernel.worker.now(shard.open.id) },
  })
  await checkpointQuietly(kernel, shard, 'finished')
}

/** `hasFailed`: not asked to stop, and its failure is noted. */
export async function leaveShard(kernel: Kernel, shard: AnyShard, because: string, hasFailed = false): Promise<void> {
  const now = kernel.worker.now(shard.open.id)
  const since = hasFailed ? await failingSince(kernel, shard) : null
  await shard.write([entry('stopped', { because })], {
    status: since === null ? 'stopped' : 'failed',
    wakeup: since === null ? now : now + Math.min(Math.max(now - since, pauseMinMs), pauseMaxMs),
    attributes: shard.attributes(),
  })
  await checkpointQuietly(kernel, shard, 'stopped')
}

/** Null: no failure is noted. */
async function failingSince({ store, sealer }: Kernel, { open }: AnyShard): Promise<number | null> {
  const [head] = await store.head([open.id])
  return (head && failureOf(sealer, head)?.since) ?? null
}

/** History has it all: a checkpoint that fails costs the next start some time, nothing else. */
async function checkpointQuietly(kernel: Kernel, shard: AnyShard, trigger: string): Promise<void> {
  try {
    await shard.open.checkpoint({ trigger })
  } catch (error) {
    kernel.events.emit('problem', { where: shard.open.id, error })
  }
}
