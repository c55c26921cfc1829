// Finds a chunk that some checkpoint of a store names: it identifies the place of the chunks in a store without a note.
// Reads catalogs until the first one; a store whose checkpoints name no chunk is read completely, once, before its
// first chunk.

import { chunksOf, decodeManifest } from '../../core/checkpoint/manifest.ts'
import type { Digest } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import { isWrapped } from '../../core/history/wrapped.ts'
import type { ManifestRecord, Store } from '../../core/store/ports.ts'
import { systemClock } from '../base/platform.ts'
import { Yielder } from '../base/yielder.ts'
import { headsIn } from './heads.ts'
import { isSegment } from './segment-catalog.ts'

export interface NamedChunk {
  /** Null: there is a chunk, and only the keys of the store reveal which. */
  readonly digest: Digest | null
}

/** @example await findNamedChunk(store) // null: no checkpoint needs a chunk */
export async function findNamedChunk(store: Store): Promise<NamedChunk | null> {
  if (!(await store.upkeep.hasCheckpoints())) return null
  const breath = new Yielder(systemClock)
  let hidden: NamedChunk | null = null
  for await (const { timeline } of headsIn(store)) {
    if (breath.isDue) await breath.take()
    for (const record of await store.checkpoints(timeline)) {
      // History in a colder tier does not show where the other chunks are stored.
      const named = isSegment(record) ? null : namedBy(record)
      if (named?.digest) return named
      hidden ??= named
    }
  }
  return hidden
}

function namedBy(record: ManifestRecord): NamedChunk | null {
  // Content in the manifest itself counts in both sizes.
  if (isWrapped(record.body)) return record.totalBytes > record.body.length ? { digest: null } : null
  try {
    const [first] = chunksOf(decodeManifest(record.body))
    return first ? { digest: first.digest } : null
  } catch (error) {
    // A restore of this checkpoint reports the damage.
    if (isReprise(error, 'MALFORMED')) return null
    throw error
  }
}
