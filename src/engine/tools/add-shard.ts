// Adds a database to a store that consists of several.

import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Grown, GrowProgress } from '../../core/store/shards.ts'
import { warnOnReject } from '../../lib/warn-on-reject.ts'
import type { Kernel } from '../storage/kernel.ts'
import { withoutSecrets } from '../storage/open-store.ts'
import { underNote } from '../storage/store-change.ts'

export interface AddShardOptions {
  /** How long to wait for open timelines before they are taken over. Default: 10s. */
  readonly wait?: Duration
  /** An abort stops after the current timeline. The next call resumes. */
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: GrowProgress) => void
}

export async function addShard(kernel: Kernel, url: string, options: AddShardOptions): Promise<Grown> {
  const { store, worker } = kernel
  const { shards } = store
  if (!shards) {
    const what = 'the store is a single database: a shard can only be added to a set (shards: […])'
    throw new RepriseError('STORE_UNSUPPORTED', what, {})
  }
  const { wait = '10s', signal, onProgress } = options
  const id = await worker.register()
  // A process that began this and died must not block it.
  await kernel.deadWorkers.retireGone()
  return await underNote(
    kernel,
    { kind: 'shards', of: withoutSecrets(url), detail: { shards: String((await shards.list()).length) } },
    async (note) => {
      let written: Promise<unknown> = Promise.resolve()
      const recordProgress = (progress: GrowProgress) => {
        const writing = note.progress(note.doneBefore + progress.moved).catch(() => undefined)
        written = Promise.all([written, writing])
        warnOnReject(onProgress?.(progress), 'onProgress')
      }
      return await shards
        .grow({ url, worker: id, waitMs: toMs(wait, 'wait'), signal, onProgress: recordProgress })
        .catch((error) => {
          // The store refused before anything was done, unless the error has another remedy.
          if (!isReprise(error) || error.remedy !== 'fix') note.began()
          throw error
        })
        // A write of the note after its removal would restore it.
        .finally(() => written)
    },
  )
}
