// A stream of bytes that arrives over time, across requests and crashes: it can be published at any byte and appended
// to from there. Its cuts depend on its content alone, never on interruptions, so equal content makes equal chunks. In
// memory are only the bytes after the last cut and the lists that are not full yet, regardless of its length.
// Two parts of a manifest hold it: `bytes`, the chunks; and `sizes`, one chunk for each 1,024 of them:
//   start(u64: where the first of them begins) size(u32, before sealing)*
// so that any offset is found without reading the bytes before it. A stream of a few bytes is stored in the manifest
// itself.

import { type ChunkSizes, nextCut } from '../../core/checkpoint/chunking.ts'
import type { ChunkRef, Content, Part } from '../../core/checkpoint/manifest.ts'
import type { Digest } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { streamSizes } from '../checkpoint/chunk-writer.ts'
import type { StateIo } from '../model/state-io.ts'
import type { ChunkOutput } from '../snapshot/chunk-output.ts'
import { type ChunkContent, listEntries, RefReader, RefTree } from '../snapshot/ref-tree.ts'
import { ChunkInput, damaged, joined } from '../snapshot/restore-input.ts'
import { streamPart } from './stored-value.ts'

export const sizesPart = 'sizes'

/** The final cuts: the bytes after them may still be cut elsewhere. */
export interface Cut {
  readonly chunks: number
  readonly bytes: number
  /** Stored size of those chunks. */
  readonly storedBytes: number
}

export const noCut: Cut = { chunks: 0, bytes: 0, storedBytes: 0 }

export interface StreamSnapshot {
  readonly parts: readonly Part[]
  readonly cut: Cut
  readonly storedBytes: number
}

const inlineBytes = 2048
const inlineTryBytes = 16 * 1024
const startBytes = 8
const sizeBytes = 4

export class GrowingStream {
  #chunks: RefTree
  #index: SizeIndex
  #cut: Cut
  readonly #sizes: ChunkSizes
  /** The bytes not cut yet; two of the longest chunks fit, and a full buffer is cut. */
  readonly #buffer: Uint8Array
  #held = 0

  private constructor(chunks: RefTree, index: SizeIndex, cut: Cut, sizes: ChunkSizes) {
    this.#chunks = chunks
    this.#index = index
    this.#cut = cut
    this.#sizes = sizes
    this.#buffer = new Uint8Array(2 * sizes.maxBytes)
  }

  static empty(sizes = streamSizes): GrowingStream {
    return new GrowingStream(RefTree.empty(), SizeIndex.empty(), noCut, sizes)
  }

  /** A published stream, ready for its next byte. */
  static async resume(parts: readonly Part[], cut: Cut, io: StateIo, sizes = streamSizes): Promise<GrowingStream> {
    const reader = new StreamReader(parts, io)
    const stream = new GrowingStream(await reader.tree(cut.chunks), await reader.index(cut), cut, sizes)
    for await (const piece of reader.read(cut.bytes, reader.size)) {
      if (stream.#held + piece.length > stream.#buffer.length)
        throw damaged(streamPart, 'has more bytes after its last cut than the limit')
      stream.#buffer.set(piece, stream.#held)
      stream.#held += piece.length
    }
    return stream
  }

  /** Bytes so far. */
  get size(): number {
    return this.#cut.bytes + this.#held
  }

  /** The caller may reuse the bytes afterwards. */
  async append(bytes: Uint8Array, output: ChunkOutput): Promise<void> {
    for (let at = 0; at < bytes.length; ) {
      const taken = Math.min(bytes.length - at, this.#buffer.length - this.#held)
      this.#buffer.set(bytes.subarray(at, at + taken), this.#held)
      this.#held += taken
      at += taken
      if (this.#held === this.#buffer.length) await this.#cutBuffer(output)
    }
  }

  /** Appends a stored chunk of another stream without reading its bytes. Nothing may be waiting to be cut. */
  join(ref: ChunkRef, size: number, output: ChunkOutput): void {
    if (this.#held > 0) throw new RepriseError('BUG', 'a stream is joined at a cut')
    this.#add(ref, size, output)
  }

  /** Cuts here permanently, regardless of later bytes. */
  async cutHere(output: ChunkOutput): Promise<void> {
    while (this.#held > 0) await this.#cutOnce(output)
  }

  /** The parts for a manifest now. The stream can be appended to afterwards, unaffected. */
  snapshot(output: ChunkOutput): StreamSnapshot {
    const held = this.#buffer.subarray(0, this.#held)
    if (this.#chunks.count === 0 && held.length <= inlineTryBytes) {
      const sealed = output.io.sealer.sealChunk(held.slice())
      if (sealed.length <= inlineBytes) {
        const content: Content = { kind: 'inline', size: held.length, sealed }
        return {
          parts: [{ kind: 'stream', name: streamPart, content }],
          cut: this.#cut,
          storedBytes: sealed.length,
        }
      }
    }
    const whole = { chunks: this.#chunks.clone(), index: this.#index.clone() }
    let { storedBytes } = this.#cut
    const write = (bytes: Uint8Array) => output.add(bytes)
    for (let at = 0; at < held.length; ) {
      const end = nextCut(held, at, this.#sizes)
      const ref = output.add(held.slice(at, end))
      whole.chunks.push(ref, write)
      whole.index.push(end - at, write)
      storedBytes += ref.bytes
      at = end
    }
    const parts: Part[] = [
      { kind: 'stream', name: streamPart, content: whole.chunks.content(this.size, write) },
      { kind: 'stream', name: sizesPart, content: whole.index.content(write) },
    ]
    return { parts, cut: this.#cut, storedBytes }
  }

  /** A cut is final once later bytes cannot move it: while at least one longest chunk is in memory. */
  async #cutBuffer(output: ChunkOutput): Promise<void> {
    let at = 0
    while (this.#held - at >= this.#sizes.maxBytes) {
      const end = nextCut(this.#buffer.subarray(0, this.#held), at, this.#sizes)
      this.#add(output.add(this.#buffer.slice(at, end)), end - at, output)
      at = end
      if (output.isPauseDue) await output.pause()
    }
    this.#buffer.copyWithin(0, at, this.#held)
    this.#held -= at
  }

  async #cutOnce(output: ChunkOutput): Promise<void> {
    const end = nextCut(this.#buffer.subarray(0, this.#held), 0, this.#sizes)
    this.#add(output.add(this.#buffer.slice(0, end)), end, output)
    this.#buffer.copyWithin(0, end, this.#held)
    this.#held -= end
    if (output.isPauseDue) await output.pause()
  }

  #add(ref: ChunkRef, size: number, output: ChunkOutput): void {
    const write = (bytes: Uint8Array) => output.add(bytes)
    this.#chunks.push(ref, write)
    this.#index.push(size, write)
    const { chunks, bytes, storedBytes } = this.#cut
    this.#cut = { chunks: chunks + 1, bytes: bytes + size, storedBytes: storedBytes + ref.bytes }
  }
}

/** The sizes of the chunks, in blocks. */
class SizeIndex {
  readonly #blocks: RefTree
  /** Start and sizes of the block that is not full yet. */
  #start: number
  #sizes: number[]

  constructor(blocks: RefTree, start: number, block: number[]) {
    this.#blocks = blocks
    this.#start = start
    this.#sizes = block
  }

  static empty(): SizeIndex {
    return new SizeIndex(RefTree.empty(), 0, [])
  }

  clone(): SizeIndex {
    return new SizeIndex(this.#blocks.clone(), this.#start, [...this.#sizes])
  }

  push(size: number, write: (bytes: Uint8Array) => ChunkRef): void {
    this.#sizes.push(size)
    if (this.#sizes.length < listEntries) return
    this.#blocks.push(write(this.#block()), write)
    this.#start += this.#sizes.reduce((sum, each) => sum + each, 0)
    this.#sizes = []
  }

  content(write: (bytes: Uint8Array) => ChunkRef): ChunkContent {
    const full = this.#blocks.count * (startBytes + sizeBytes * listEntries)
    if (this.#sizes.length === 0) return this.#blocks.content(full, write)
    const block = this.#block()
    const blocks = this.#blocks.clone()
    blocks.push(write(block), write)
    return blocks.content(full + block.length, write)
  }

  #block(): Uint8Array {
    const bytes = new Uint8Array(startBytes + sizeBytes * this.#sizes.length)
    const view = new DataView(bytes.buffer)
    view.setBigUint64(0, BigInt(this.#start), true)
    this.#sizes.forEach((size, i) => {
      view.setUint32(startBytes + sizeBytes * i, size, true)
    })
    return bytes
  }
}

interface Block {
  readonly start: number
  readonly sizes: readonly number[]
}

/** Reads such a stream from any byte. */
export class StreamReader {
  readonly size: number
  readonly #io: StateIo
  readonly #input: ChunkInput
  readonly #bytes: Content
  readonly #refs: RefReader | null
  readonly #blocks: RefReader | null
  /** Numbers of all chunks, and of the blocks of their sizes. */
  readonly count: number
  readonly #blockCount: number

  constructor(parts: readonly Part[], io: StateIo) {
    this.#io = io
    this.#input = new ChunkInput(io)
    this.#bytes = contentOf(parts, streamPart)
    this.size = this.#bytes.size
    if (this.#bytes.kind === 'inline') {
      this.#refs = null
      this.#blocks = null
      this.count = 0
      this.#blockCount = 0
      return
    }
    const index = contentOf(parts, sizesPart)
    if (index.kind === 'inline') throw damaged(sizesPart, 'is not where it was written')
    this.#refs = new RefReader(this.#bytes, this.#input, streamPart)
    this.#blocks = new RefReader(index, this.#input, sizesPart)
    this.#blockCount = Math.ceil(index.size / (startBytes + sizeBytes * listEntries))
    this.count = (index.size - startBytes * this.#blockCount) / sizeBytes
  }

  /** Reads `from` (inclusive) to `to` (exclusive). Every chunk is checked before any of its bytes is returned. */
  async *read(from: number, to: number): AsyncGenerator<Uint8Array> {
    if (from >= to) return
    if (this.#bytes.kind === 'inline') {
      yield this.#io.sealer.openChunk(this.#bytes.sealed).subarray(from, to)
      return
    }
    for (let number = await this.#blockAt(from); number < this.#blockCount; number++) {
      const { start, sizes: blockSizes } = await this.#block(number)
      let at = start
      let first = 0
      while (first < blockSizes.length && at + blockSizes[first]! <= from) at += blockSizes[first++]!
      let last = first
      for (let end = at; last < blockSizes.length && end < to; last++) end += blockSizes[last]!
      const refs = await this.#refs!.entries(0, number * listEntries + first, number * listEntries + last)
      let i = first
      for await (const plain of this.#input.readPlain(refs, streamPart)) {
        if (plain.length !== blockSizes[i])
          throw damaged(streamPart, 'has a chunk whose size differs from the promised one')
        yield plain.subarray(Math.max(0, from - at), Math.min(plain.length, to - at))
        at += plain.length
        i += 1
      }
      if (at >= to) return
    }
  }

  /** Every chunk with its size, in order; none for a stream that is stored in the manifest. */
  async *chunks(): AsyncGenerator<{ readonly ref: ChunkRef; readonly size: number }> {
    for (let number = 0; number < this.#blockCount; number++) {
      const { sizes: blockSizes } = await this.#block(number)
      const from = number * listEntries
      const refs = await this.#refs!.entries(0, from, from + blockSizes.length)
      for (let i = 0; i < refs.length; i++) yield { ref: refs[i]!, size: blockSizes[i]! }
    }
  }

  /** Identifies the content: the digests at its root. */
  get root(): readonly Digest[] {
    return this.#bytes.kind === 'inline'
      ? [this.#io.hash(this.#bytes.sealed)]
      : this.#bytes.refs.map((ref) => ref.digest)
  }

  /** @internal */
  async tree(count: number): Promise<RefTree> {
    return this.#refs ? await RefTree.resume(this.#refs, count) : RefTree.empty()
  }

  /** @internal */
  async index(cut: Cut): Promise<SizeIndex> {
    if (!this.#blocks || cut.chunks === 0) return SizeIndex.empty()
    const full = Math.floor(cut.chunks / listEntries)
    const blocks = await RefTree.resume(this.#blocks, full)
    const rest = cut.chunks - full * listEntries
    if (rest === 0) return new SizeIndex(blocks, cut.bytes, [])
    const { start, sizes: blockSizes } = await this.#block(full)
    return new SizeIndex(blocks, start, blockSizes.slice(0, rest))
  }

  /** The last block that begins at or before this byte. */
  async #blockAt(offset: number): Promise<number> {
    let low = 0
    let high = this.#blockCount - 1
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      if ((await this.#block(middle)).start <= offset) low = middle
      else high = middle - 1
    }
    return low
  }

  async #block(number: number): Promise<Block> {
    const [ref] = await this.#blocks!.entries(0, number, number + 1)
    if (!ref) throw damaged(sizesPart, `has no block ${number}`)
    const pieces: Uint8Array[] = []
    for await (const piece of this.#input.readPlain([ref], sizesPart)) pieces.push(piece)
    const bytes = joined(pieces)
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
    const count = (bytes.length - startBytes) / sizeBytes
    const blockSizes = Array.from({ length: count }, (_, i) => view.getUint32(startBytes + sizeBytes * i, true))
    return { start: Number(view.getBigUint64(0, true)), sizes: blockSizes }
  }
}

function contentOf(parts: readonly Part[], name: string): Content {
  const part = parts.find((each) => each.kind === 'stream' && each.name === name)
  if (part?.kind !== 'stream') throw damaged(name, 'is missing')
  return part.content
}
