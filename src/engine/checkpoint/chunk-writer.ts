// Writes a value or a stream of bytes as chunks. Cuts follow the content, so a small change makes few new chunks;
// chunks that an earlier checkpoint holds are referenced, not written again. Memory stays bounded, however long the
// stream is.

import { type ChunkSizes, defaultChunkSizes, nextCut } from '../../core/checkpoint/chunking.ts'
import { type ChunkRef, type Content, encodeRefs } from '../../core/checkpoint/manifest.ts'
import { toHex } from '../../core/coordinate.ts'
import { shapeOf } from '../../core/data-shape.ts'
import { RepriseError } from '../../core/errors.ts'
import type { ManifestRecord } from '../../core/store/ports.ts'
import { readManifest } from '../history/recover.ts'
import type { StateIo } from '../model/state-io.ts'
import { ChunkOutput } from '../snapshot/chunk-output.ts'
import { stateIo } from '../snapshot/kernel-io.ts'
import { liveChunks } from '../snapshot/restore.ts'
import type { Kernel } from '../storage/kernel.ts'

/** Any source of bytes in pieces. For a path, use fs.createReadStream. */
export type ByteSource =
  | Uint8Array
  | AsyncIterable<Uint8Array | string>
  | Iterable<Uint8Array>
  | { getReader(): { read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>; releaseLock(): void } }

export const streamSizes: ChunkSizes = { minBytes: 16 * 1024, averageBytes: 64 * 1024, maxBytes: 256 * 1024 }
const inlineBytes = 2048
/** Chunks are put in batches of this size: fewer syncs for long streams. */
const putBytes = 4 * 1024 * 1024
const refsMax = 32

export interface WrittenChunks {
  readonly content: Content
  readonly storedBytes: number
}

/** A part of a stream that is cut independently, so that a later stream can reference its chunks without reading its bytes. */
export interface StreamSegment {
  readonly size: number
  readonly refs: readonly ChunkRef[]
}

/** Writes the contents of one checkpoint. */
export class ChunkWriter {
  readonly output: ChunkOutput
  readonly #io: StateIo
  readonly #held: ReadonlySet<string>
  #reused = 0

  constructor(io: StateIo, held: ReadonlySet<string>) {
    this.#io = io
    this.output = new ChunkOutput(io, { inlineBytes, putBytes })
    this.#held = held
  }

  get reusedChunks(): number {
    return this.#reused
  }

  /** A small value is stored in the manifest itself. */
  async value(plain: Uint8Array): Promise<WrittenChunks> {
    if (plain.length <= 8 * inlineBytes) {
      const sealed = this.#io.sealer.sealChunk(plain)
      if (sealed.length <= inlineBytes) {
        return { content: { kind: 'inline', size: plain.length, sealed }, storedBytes: sealed.length }
      }
    }
    return await this.#chunks([plain], defaultChunkSizes)
  }

  stream(source: ByteSource, signal?: AbortSignal): Promise<WrittenChunks> {
    return this.#chunks(piecesOf(source, signal, this.#io.streamBytesMax), streamSizes)
  }

  /** Writes one part of a stream; `join` references its chunks. */
  async segment(source: ByteSource, signal?: AbortSignal): Promise<StreamSegment> {
    return await this.#cut(piecesOf(source, signal, this.#io.streamBytesMax), streamSizes)
  }

  /** The stream that consists of these parts, in order. */
  async join(segments: readonly StreamSegment[]): Promise<WrittenChunks> {
    const size = segments.reduce((sum, each) => sum + each.size, 0)
    const { streamBytesMax: max = Number.POSITIVE_INFINITY } = this.#io
    if (size > max) {
      const what = `the stream has more than ${max} bytes`
      throw new RepriseError('LIMIT_EXCEEDED', what, { limit: 'streamBytes', max })
    }
    return await this.#listed(
      segments.flatMap(({ refs }) => refs),
      size,
    )
  }

  async #chunks(pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, sizes: ChunkSizes): Promise<WrittenChunks> {
    const { refs, size } = await this.#cut(pieces, sizes)
    return await this.#listed(refs, size)
  }

  async #listed(data: readonly ChunkRef[], size: number): Promise<WrittenChunks> {
    let storedBytes = data.reduce((sum, ref) => sum + ref.bytes, 0)
    let refs = data
    let level = 0
    while (refs.length > refsMax) {
      level += 1
      refs = (await this.#cut([encodeRefs(refs)], defaultChunkSizes)).refs
      for (const ref of refs) storedBytes += ref.bytes
    }
    return { content: { kind: 'chunks', size, level, refs }, storedBytes }
  }

  async #cut(pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, sizes: ChunkSizes) {
    const refs: ChunkRef[] = []
    let size = 0
    let rest = new Uint8Array(0)
    const take = async (isEnd: boolean) => {
      let at = 0
      // A cut is final only if later bytes cannot move it: until the end, keep at least one longest chunk in memory.
      while (at < rest.length && (isEnd || rest.length - at >= sizes.maxBytes)) {
        const end = nextCut(rest, at, sizes)
        refs.push(this.#add(rest.subarray(at, end)))
        at = end
        if (this.output.isPauseDue) await this.output.pause()
      }
      rest = rest.slice(at)
    }
    for await (const piece of pieces) {
      size += piece.length
      rest = joinTwo(rest, piece)
      await take(false)
    }
    await take(true)
    return { refs, size }
  }

  #add(piece: Uint8Array): ChunkRef {
    // Copied: the sealer may keep its argument, and the source may reuse its buffer.
    const before = this.output.added.length
    const ref = this.output.add(piece.slice(), this.#held)
    if (this.output.added.length === before) this.#reused += 1
    return ref
  }
}

/** The chunks that a checkpoint holds, lists included. */
export async function heldBy(kernel: Kernel, record: ManifestRecord): Promise<ReadonlySet<string>> {
  const digests = await liveChunks(readManifest(kernel, record), stateIo(kernel))
  return new Set(digests.map(toHex))
}

async function* piecesOf(
  source: ByteSource,
  signal: AbortSignal | undefined,
  bytesMax = Number.POSITIVE_INFINITY,
): AsyncGenerator<Uint8Array> {
  let size = 0
  for await (const piece of iterate(source)) {
    if (signal?.aborted)
      throw new RepriseError('ABORTED', 'it was aborted while its stream was read', {}, signal.reason)
    const bytes = typeof piece === 'string' ? new TextEncoder().encode(piece) : piece
    if (!(bytes instanceof Uint8Array)) throw new RepriseError('INVALID_ARGUMENT', 'a stream must yield bytes')
    size += bytes.length
    if (size > bytesMax) {
      const what = `the stream has more than ${bytesMax} bytes`
      throw new RepriseError('LIMIT_EXCEEDED', what, { limit: 'streamBytes', max: bytesMax })
    }
    // Copies in small pieces, so that a huge buffer is not held twice in memory.
    for (let at = 0; at < bytes.length; at += 1024 * 1024) yield bytes.subarray(at, at + 1024 * 1024)
  }
}

async function* iterate(source: ByteSource): AsyncGenerator<Uint8Array | string> {
  if (source instanceof Uint8Array) yield source
  else if (typeof source !== 'object' || source === null || !isStream(source)) {
    throw new RepriseError('INVALID_ARGUMENT', `a stream of bytes is needed (got ${shapeOf(source)})`)
  } else if (Symbol.asyncIterator in source || Symbol.iterator in source) yield* source
  else {
    const reader = source.getReader()
    try {
      for (let step = await reader.read(); !step.done; step = await reader.read()) if (step.value) yield step.value
    } finally {
      reader.releaseLock()
    }
  }
}

function isStream(source: object): boolean {
  return Symbol.asyncIterator in source || Symbol.iterator in source || 'getReader' in source
}

function joinTwo(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(a.length + b.length)
  joined.set(a)
  joined.set(b, a.length)
  return joined
}
