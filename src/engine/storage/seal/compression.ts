// Compression behind one small table: zstd where this Node has it, else deflate. The number of the algorithm is stored,
// so each can be read wherever the platform supports it. Output is bounded before and during decompression.

import * as zlib from 'node:zlib'
import { RepriseError } from '../../../core/errors.ts'
import type { Limits } from '../../../core/limits.ts'

const deflate = 1
const zstd = 2

type Inflate = (bytes: Uint8Array, options: { maxOutputLength: number; chunkSize: number }) => Uint8Array

/** Node 22.15 and newer; its types are not in the library of Node 20. */
const { zstdCompressSync, zstdDecompressSync } = zlib as unknown as {
  readonly zstdCompressSync?: (bytes: Uint8Array) => Uint8Array
  readonly zstdDecompressSync?: Inflate
}

export interface Compressed {
  readonly algorithm: number
  readonly bytes: Uint8Array
}

/** Above this, a sample is compressed first: media, weights and ciphertext do not get smaller. */
const sampleAboveBytes = 16 * 1024
const sampleBytes = 4 * 1024
/** The minimum that zlib accepts. */
const chunkBytesMin = 64
const chunkBytesMax = 16 * 1024

/** Null if the result is not smaller, or a sample from the middle shows that the gain would be small. */
export function compress(plain: Uint8Array): Compressed | null {
  if (plain.length > sampleAboveBytes) {
    const middle = (plain.length - sampleBytes) >> 1
    const sample = zlib.deflateRawSync(plain.subarray(middle, middle + sampleBytes), { level: 1 })
    if (sample.length > sampleBytes * 0.97) return null
  }
  const result = zstdCompressSync
    ? { algorithm: zstd, bytes: zstdCompressSync(plain) }
    : { algorithm: deflate, bytes: zlib.deflateRawSync(plain, { level: 1 }) }
  return result.bytes.length < plain.length ? result : null
}

/** `size` is the size in the header; a stream with fewer or more bytes is refused. */
export function decompress(
  from: Compressed,
  size: number,
  limits: Pick<Limits, 'inflateRatio' | 'inflateBytes'>,
): Uint8Array {
  const inflate = inflateOf(from.algorithm)
  if (size === 0) throw new RepriseError('MALFORMED', 'an empty value is never compressed')
  if (size > limits.inflateBytes || size > from.bytes.length * limits.inflateRatio) throw bomb(from, size, limits)
  if (from.algorithm === deflate && size <= smallBytesMax) {
    inflateSmall ??= smallInflater()
    const small = inflateSmall?.(from.bytes, size)
    if (small) return small
  }
  let plain: Uint8Array
  try {
    // By default each result, however small, keeps 16 KB of memory. One byte more than expected, so that it ends in one
    // step; but bounded, because the size in a header may be forged.
    const chunkSize = Math.min(Math.max(size + 1, chunkBytesMin), chunkBytesMax)
    plain = inflate(from.bytes, { maxOutputLength: size, chunkSize })
  } catch (cause) {
    const isTooLong = (cause as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE'
    throw isTooLong ? bomb(from, size, limits) : new RepriseError('MALFORMED', 'compressed data is damaged', {}, cause)
  }
  if (plain.length !== size) {
    throw new RepriseError('MALFORMED', `compressed data holds ${plain.length} bytes where ${size} were promised`)
  }
  return plain
}

/** Larger values are rare, and a header alone must not cause a large allocation. */
const smallBytesMax = 64 * 1024

/** Internals of Node's inflating streams. */
interface Inflater {
  readonly _handle?: {
    onerror?: unknown
    reset?(): void
    writeSync?(
      flush: number,
      from: Uint8Array,
      at: number,
      length: number,
      to: Uint8Array,
      toAt: number,
      room: number,
    ): void
  }
  /** The remaining output space and input. */
  readonly _writeState?: Uint32Array
}

/**
 * Inflates small values through one reused stream. `inflateRawSync` creates a stream per call, which takes twice as
 * long as inflating a kilobyte and leaves 40 KB of garbage: half of the time to replay a thousand entries. This relies
 * on Node's internals, so they are checked first, and any irregular result, errors included, falls back to
 * `inflateRawSync`.
 */
function smallInflater(): ((bytes: Uint8Array, size: number) => Uint8Array | null) | null {
  const { _handle: handle, _writeState: left } = zlib.createInflateRaw({
    chunkSize: chunkBytesMin,
  }) as unknown as Inflater
  if (typeof handle?.writeSync !== 'function' || typeof handle.reset !== 'function') return null
  if (!(left instanceof Uint32Array) || left.length !== 2) return null
  const { Z_FINISH } = zlib.constants
  let isBad = false
  handle.onerror = () => {
    isBad = true
  }
  return (bytes, size) => {
    // One byte more, to distinguish a stream that does not end from one that does.
    const plain = new Uint8Array(size + 1)
    isBad = false
    handle.reset!()
    handle.writeSync!(Z_FINISH, bytes, 0, bytes.length, plain, 0, size + 1)
    return isBad || left[0] !== 1 || left[1] !== 0 ? null : plain.subarray(0, size)
  }
}

let inflateSmall: ReturnType<typeof smallInflater> | undefined

function inflateOf(algorithm: number): Inflate {
  if (algorithm === deflate) return zlib.inflateRawSync
  if (algorithm !== zstd) throw new RepriseError('MALFORMED', `unknown compression ${algorithm}`)
  if (zstdDecompressSync) return zstdDecompressSync
  throw new RepriseError('STORE_UNSUPPORTED', 'this data is compressed with zstd; read it with Node 22.15 or newer', {
    compression: 'zstd',
  })
}

function bomb(from: Compressed, size: number, limits: Pick<Limits, 'inflateRatio' | 'inflateBytes'>): RepriseError {
  return new RepriseError(
    'LIMIT_EXCEEDED',
    `${from.bytes.length} compressed bytes expand beyond ${size} or the limits`,
    {
      limit: size > limits.inflateBytes ? 'inflateBytes' : 'inflateRatio',
      inflateBytes: limits.inflateBytes,
      inflateRatio: limits.inflateRatio,
    },
  )
}
