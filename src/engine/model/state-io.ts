// The dependencies of a snapshot: the codec, the sealer and the chunks that a capture writes and a restore reads.

import type { Blobs, Hash } from '../../core/store/ports.ts'

export interface StateIo {
  readonly codec: {
    encode(value: unknown): Uint8Array
    decode(bytes: Uint8Array): unknown
    /** For large values: the same in steps, between which the event loop can run other work. */
    encodeInSteps?(value: unknown): Generator<void, Uint8Array>
    decodeInSteps?(bytes: Uint8Array): Generator<void, unknown>
  }
  /** Deterministic: equal bytes are sealed to equal bytes, so that checkpoints share chunks. */
  readonly sealer: { sealChunk(plain: Uint8Array): Uint8Array; openChunk(stored: Uint8Array): Uint8Array }
  readonly hash: Hash
  /** The same off the event loop. Default: none. */
  readonly hashAside?: ((bytes: Uint8Array) => Promise<Uint8Array>) | undefined
  readonly blobs: Blobs
  /** The largest content that is read. Default: unbounded. */
  readonly contentBytesMax?: number
  /** The same for a stream, which is not read as a whole. */
  readonly streamBytesMax?: number
  /** Monotonic milliseconds. */
  elapsed(): number
  /** Yields to the event loop. Called when a slice has run for `sliceMs`, or more often. */
  yieldToLoop(): Promise<void>
}
