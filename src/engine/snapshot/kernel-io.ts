// The part of the kernel that capture and restore need; yields whenever a slice of work has held the event loop for a
// few milliseconds.

import { toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Blobs } from '../../core/store/ports.ts'
import { forwardBlobs } from '../../core/store/store-wrapper.ts'
import { sha256, sha256Aside } from '../base/platform.ts'
import { Yielder } from '../base/yielder.ts'
import type { StateIo } from '../model/state-io.ts'
import type { ChunkHold } from '../storage/chunk-hold.ts'
import type { Kernel } from '../storage/kernel.ts'

/** With a hold, put chunks are protected from collection until they are published. */
export function stateIo(kernel: Kernel, hold?: ChunkHold): StateIo {
  const { codec, sealer, hash, clock, store, limits } = kernel
  const yielder = new Yielder(clock)
  return {
    codec,
    sealer,
    hash,
    hashAside: hash === sha256 ? sha256Aside : undefined,
    contentBytesMax: Math.max(limits.valueBytes, limits.inflateBytes),
    streamBytesMax: limits.streamBytes,
    blobs: bounded(hold?.blobs ?? store.blobs, limits.chunkBytes),
    elapsed: () => clock.elapsed(),
    yieldToLoop: () => yielder.take(),
  }
}

/** Refuses to write a chunk that is too large to be read back. */
function bounded(blobs: Blobs, chunkBytes: number): Blobs {
  return forwardBlobs(blobs, {
    async put(chunks, at) {
      for (const { digest, bytes } of chunks) checkChunkSize(digest, bytes, chunkBytes)
      await blobs.put(chunks, at)
    },
  })
}

export function checkChunkSize(digest: Uint8Array, bytes: Uint8Array, chunkBytes: number): void {
  if (bytes.length <= chunkBytes) return
  throw new RepriseError(
    'LIMIT_EXCEEDED',
    `chunk ${toHex(digest)} has ${bytes.length} bytes, more than ${chunkBytes} (chunkBytes)`,
    { limit: 'chunkBytes', max: chunkBytes },
  )
}
