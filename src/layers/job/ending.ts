// How a shard ends: its round is finished, or it is left for later. Either way it says so in history and takes a checkpoint.

import type { Kernel } from '../../engine/storage/kernel.ts'
import { entry } from './entries.ts'
import type { Shard, ShardItem } from './shard.ts'

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

export async function leaveShard(kernel: Kernel, shard: AnyShard, because: string): Promise<void> {
  await shard.write([entry('stopped', { because })], {
    status: 'stopped',
    wakeup: kernel.worker.now(shard.open.id),
    attributes: shard.attributes(),
  })
  await checkpointQuietly(kernel, shard, 'stopped')
}

/** History has it all: a checkpoint that fails costs the next start some time, nothing else. */
async function checkpointQuietly(kernel: Kernel, shard: AnyShard, trigger: string): Promise<void> {
  try {
    await shard.open.checkpoint({ trigger })
  } catch (error) {
    kernel.events.emit('problem', { where: shard.open.id, error })
  }
}
