// Reads chunks in batches and checks each against its digest before its content is used. A mismatch is CHUNK_DAMAGED, a
// missing chunk CHUNK_MISSING, both with the digest and the part that needs the chunk.

import { type ChunkRef, type Content, decodeRefs } from '../../core/checkpoint/manifest.ts'
import { type Digest, equalBytes, toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { StateIo } from '../model/state-io.ts'
import { type KnownChunks, Slices } from './chunk-output.ts'

const batchBytes = 1024 * 1024
const batchChunks = 256
const averageBytes = 4096
/** Fewer bytes than this are hashed synchronously. */
const asideBytesMin = 512 * 1024
/** A ref takes fewer bytes than this; chunks are far larger, except for the last one of each content. */
const refBytes = 64
const plainBytesMin = 256
const streamPlainBytesMin = 4096
const refsFree = 4096

export interface ReadContent {
  readonly plain: Uint8Array
  /** Stored size, lists of refs included. */
  readonly bytes: number
  readonly known: KnownChunks
}

interface Batch {
  readonly batch: readonly ChunkRef[]
  readonly found: readonly (Uint8Array | null)[]
  /** The digests of the chunks read. Null: they are computed synchronously. */
  readonly hashed: Promise<readonly (Uint8Array | null)[]> | null
  readonly to: number
}

export class ChunkInput {
  readonly io: StateIo
  readonly slices: Slices
  bytesRead = 0
  /** Chunks that were damaged or missing, and were rebuilt. */
  readonly mended: Digest[] = []

  constructor(io: StateIo) {
    this.io = io
    this.slices = new Slices(io)
  }

  /** The checked stored bytes of each ref, in order; read in batches, so that few are in memory at once. */
  async *read(refs: readonly ChunkRef[], part: string | null): AsyncGenerator<Uint8Array> {
    let next = this.#batch(refs, 0)
    try {
      while (next) {
        const { batch, found, hashed, to } = await this.slices.wait(next)
        // The next batch is read while this one is hashed.
        next = hashed ? this.#batch(refs, to) : null
        const digests = hashed ? await this.slices.wait(hashed) : null
        for (let i = 0; i < batch.length; i++) {
          const stored = await this.#sound(batch[i]!.digest, found[i] ?? null, part, digests?.[i])
          this.bytesRead += stored.length
          yield stored
          if (this.slices.isDue) await this.slices.yieldToLoop()
        }
        next ??= this.#batch(refs, to)
      }
    } finally {
      // If the consumer stops early, a failure of the next batch must not be reported as unhandled.
      next?.catch(() => undefined)
    }
  }

  #batch(refs: readonly ChunkRef[], from: number): Promise<Batch> | null {
    if (from >= refs.length) return null
    const to = batchEnd(refs, from, this.io.blobs.batchBytes ?? batchBytes)
    const batch = refs.slice(from, to)
    return this.io.blobs.get(batch.map((ref) => ref.digest)).then((found) => {
      const bytes = found.reduce((sum, each) => sum + (each?.length ?? 0), 0)
      const { hashAside } = this.io
      const hashed =
        hashAside && bytes >= asideBytesMin
          ? Promise.all(found.map((each) => (each === null ? null : hashAside(each))))
          : null
      hashed?.catch(() => undefined)
      return { batch, found, hashed, to }
    })
  }

  async *readPlain(refs: readonly ChunkRef[], part: string | null): AsyncGenerator<Uint8Array> {
    for await (const stored of this.read(refs, part)) yield this.io.sealer.openChunk(stored)
  }

  /** The refs of the chunks that hold the content's bytes; `visit` is called for each list of refs on the way. */
  async dataRefs(
    content: Content,
    part: string | null,
    visit: (ref: ChunkRef, plain: Uint8Array) => void,
  ): Promise<readonly ChunkRef[]> {
    return await this.#refs(content, part, visit, this.#refsMax(content, part))
  }

  /** The same for a stream: only its refs are in memory, so it may be far larger than a value. */
  async streamRefs(
    content: Content,
    part: string | null,
    visit: (ref: ChunkRef, plain: Uint8Array) => void = () => undefined,
  ): Promise<readonly ChunkRef[]> {
    const { streamBytesMax = Number.POSITIVE_INFINITY } = this.io
    checkSize(content, part, 'streamBytes', streamBytesMax)
    return await this.#refs(content, part, visit, refsFree + Math.ceil(content.size / streamPlainBytesMin))
  }

  async #refs(
    content: Content,
    part: string | null,
    visit: (ref: ChunkRef, plain: Uint8Array) => void,
    refsMax: number,
  ): Promise<readonly ChunkRef[]> {
    if (content.kind === 'inline') return []
    let refs = content.refs
    const bytesMax = refBytes * refsMax
    for (let level = content.level; level > 0; level--) {
      const list = await this.#join(refs, part, visit, bytesMax)
      refs = decodeRefs(list)
    }
    return refs
  }

  /** A list may repeat the same list very often, at every level: the promised size bounds the number of chunks. */
  #refsMax(content: Content, part: string | null): number {
    const { contentBytesMax = Number.POSITIVE_INFINITY } = this.io
    checkSize(content, part, 'valueBytes', contentBytesMax)
    return refsFree + Math.ceil(content.size / plainBytesMin)
  }

  async readContent(content: Content, part: string | null): Promise<ReadContent> {
    if (content.kind === 'inline') {
      const plain = this.io.sealer.openChunk(content.sealed)
      return { plain: sized(plain, content, part), bytes: content.sealed.length, known: new Map() }
    }
    this.#refsMax(content, part)
    const known = new Map<string, ChunkRef>()
    const visit = (ref: ChunkRef, plain: Uint8Array) => known.set(toHex(this.io.hash(plain)), ref)
    const refs = await this.dataRefs(content, part, visit)
    const plain = await this.#join(refs, part, visit, content.size)
    let bytes = 0
    for (const ref of known.values()) bytes += ref.bytes
    return { plain: sized(plain, content, part), bytes, known }
  }

  /** Rebuilds a damaged or missing chunk from its redundancy, if there is any. */
  async #sound(
    digest: Digest,
    stored: Uint8Array | null,
    part: string | null,
    hashed?: Uint8Array | null,
  ): Promise<Uint8Array> {
    const isSound = stored !== null && equalBytes(hashed ?? this.io.hash(stored), digest)
    if (isSound) return stored
    const mended = await this.slices.wait(Promise.resolve(this.io.blobs.mend?.(digest)))
    if (mended) this.mended.push(digest)
    return checkChunk(this.io, digest, mended ?? stored, part)
  }

  async #join(
    refs: readonly ChunkRef[],
    part: string | null,
    visit: (ref: ChunkRef, plain: Uint8Array) => void,
    sizeMax: number,
  ): Promise<Uint8Array> {
    const pieces: Uint8Array[] = []
    let size = 0
    for await (const plain of this.readPlain(refs, part)) {
      size += plain.length
      // Checked before the pieces are joined: a list may repeat the same chunk very often.
      if (size > sizeMax) throw damaged(part, `has more than the ${sizeMax} bytes that were promised`)
      visit(refs[pieces.length]!, plain)
      pieces.push(plain)
    }
    return joined(pieces)
  }
}

function checkChunk(
  io: Pick<StateIo, 'hash'>,
  digest: Digest,
  stored: Uint8Array | null,
  part: string | null,
): Uint8Array {
  if (stored !== null && equalBytes(io.hash(stored), digest)) return stored
  const name = toHex(digest)
  const where = part === null ? 'the state' : `part ${part}`
  const data = { digest: name, part }
  if (stored === null) throw new RepriseError('CHUNK_MISSING', `chunk ${name} of ${where} is missing`, data)
  throw new RepriseError('CHUNK_DAMAGED', `chunk ${name} of ${where} does not match its digest`, data)
}

export function joined(pieces: readonly Uint8Array[]): Uint8Array {
  if (pieces.length === 1) return pieces[0]!
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}

/** The manifest and its chunks must agree, even if every digest matches. */
export function damaged(part: string | null, what: string): RepriseError {
  const where = part === null ? 'the state' : `part ${part}`
  return new RepriseError('CHECKPOINT_DAMAGED', `${where} of the checkpoint ${what}`, { part })
}

function sized(plain: Uint8Array, content: Content, part: string | null): Uint8Array {
  if (plain.length !== content.size)
    throw damaged(part, `has ${plain.length} bytes where ${content.size} were promised`)
  return plain
}

function batchEnd(refs: readonly ChunkRef[], from: number, bytesMax: number): number {
  let to = from
  let bytes = 0
  const chunksMax = Math.max(batchChunks, bytesMax / averageBytes)
  while (to < refs.length && to - from < chunksMax && (to === from || bytes < bytesMax)) {
    bytes += refs[to]!.bytes
    to += 1
  }
  return to
}

function checkSize({ size }: Content, part: string | null, limit: string, max: number): void {
  if (Number.isSafeInteger(size) && size <= max) return
  const what = `a part of the checkpoint claims ${size} bytes, more than ${max}`
  throw new RepriseError('LIMIT_EXCEEDED', what, { limit, max, part })
}
