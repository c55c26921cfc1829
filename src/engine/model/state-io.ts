// The outside of a snapshot: the codec, the sealer and the chunks that a capture writes to and a restore reads from.

import type { Blobs, Hash } from '../../core/store/ports.ts'

export interface StateIo {
  readonly codec: {
    encode(value: unknown): Uint8Array
    decode(bytes: Uint8Array): unknown
    /** For large values: the same in steps, between which others get their turn. */
    encodeInSteps?(value: unknown): Generator<void, Uint8Array>
    decodeInSteps?(bytes: Uint8Array): Generator<void, unknown>
  }
  /** Equal bytes are sealed to equal bytes: that is what lets checkpoints share chunks. */
  readonly sealer: { sealChunk(plain: Uint8Array): Uint8Array; openChunk(stored: Uint8Array): Uint8Array }
  readonly hash: Hash
  /** The same beside the event loop; left out where there is no such way. */
  readonly hashAside?: ((bytes: Uint8Array) => Promise<Uint8Array>) | undefined
  readonly blobs: Blobs
  /** The largest content that is read; without a bound if left out. */
  readonly contentBytesMax?: number
  /** The same for a stream, which is not read whole. */
  readonly streamBytesMax?: number
  /** Milliseconds that only grow. */
  elapsed(): number
  /** Gives the event loop a turn. Called when a slice has run for `sliceMs`, or more often. */
  breathe(): Promise<void>
}
