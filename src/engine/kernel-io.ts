// The small view of the kernel that capture and restore need, with a breath taken whenever a slice of work has held
// the event loop for a few milliseconds.

import type { StateIo } from './capture.ts'
import type { ChunkHold } from './chunk-hold.ts'
import type { Kernel } from './kernel.ts'

const sliceMs = 4

/** Who puts chunks puts them under a hold, until they are published. */
export function stateIo(kernel: Kernel, hold?: ChunkHold): StateIo {
  const { codec, sealer, hash, clock, store } = kernel
  let sliceStarted = clock.elapsed()
  return {
    codec,
    sealer,
    hash,
    blobs: hold?.blobs ?? store.blobs,
    elapsed: () => clock.elapsed(),
    async breathe() {
      if (clock.elapsed() - sliceStarted < sliceMs) return
      await new Promise<void>((resolve) => clock.soon(resolve))
      sliceStarted = clock.elapsed()
    },
  }
}
