// Seals chunks, names them by the digest of their stored bytes, and puts them in batches while the next batch is being
// made.
// The work is done in slices: it yields after holding the event loop for a few milliseconds, and the longest slice is
// reported.

import { defaultChunkSizes, nextCut } from '../../core/checkpoint/chunking.ts'
import { type ChunkRef, type Content, encodeRefs } from '../../core/checkpoint/manifest.ts'
import { type Digest, toHex } from '../../core/coordinate.ts'
import type { StateIo } from '../model/state-io.ts'

const sliceMs = 4
/** Larger contents are never tried for the manifest. */
const inlineTryBytes = 16 * 1024
/** Longer lists of refs become chunks themselves. */
const refsMax = 32

export interface OutputSettings {
  /** Sealed bytes up to this length are stored in the manifest. */
  readonly inlineBytes: number
  /** Chunks are put in batches of about this many bytes. */
  readonly putBytes: number
  /** Pages are cut at this size. Default: 128 KB. */
  readonly pageBytes?: number | undefined
}

export const defaultOutputSettings: OutputSettings = { inlineBytes: 2048, putBytes: 1024 * 1024 }

export class Slices {
  readonly #io: Pick<StateIo, 'elapsed' | 'yieldToLoop'>
  #startedAt: number
  longestMs = 0

  constructor(io: Pick<StateIo, 'elapsed' | 'yieldToLoop'>) {
    this.#io = io
    this.#startedAt = io.elapsed()
  }

  get isDue(): boolean {
    return this.#io.elapsed() - this.#startedAt >= sliceMs
  }

  /** `if (slices.isDue) await slices.yieldToLoop()` */
  yieldToLoop(): Promise<void> {
    return this.wait(this.#io.yieldToLoop())
  }

  /** Waiting is not a stall: the slice ends here, and a new one starts afterwards. */
  async wait<T>(promise: Promise<T>): Promise<T> {
    this.longestMs = Math.max(this.longestMs, this.#io.elapsed() - this.#startedAt)
    try {
      return await promise
    } finally {
      this.#startedAt = this.#io.elapsed()
    }
  }
}

/** Runs the steps to their end, slice by slice. */
export async function finishSteps<T>(steps: Generator<void, T>, slices: Slices): Promise<T> {
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
    if (slices.isDue) await slices.yieldToLoop()
  }
}

export class ChunkOutput {
  readonly io: StateIo
  readonly slices: Slices
  readonly settings: OutputSettings
  readonly added: Digest[] = []
  addedBytes = 0
  readonly #seen = new Set<string>()
  #queue: { readonly digest: Digest; readonly bytes: Uint8Array }[] = []
  #queuedBytes = 0
  #inFlight: Promise<void> = Promise.resolve()

  constructor(io: StateIo, settings: OutputSettings = defaultOutputSettings) {
    this.io = io
    // The blob store may prefer larger batches: an object store works best with few large ones.
    this.settings = { ...settings, putBytes: Math.max(settings.putBytes, io.blobs.batchBytes ?? 0) }
    this.slices = new Slices(io)
  }

  /**
   * Seals and queues a chunk. Reuse the bytes afterwards only if they were copied: a sealer may return its argument.
   * Chunks `held` by a checkpoint that stays in the catalog are referenced, not stored again.
   */
  add(plain: Uint8Array, held?: { has(name: string): boolean }): ChunkRef {
    const stored = this.io.sealer.sealChunk(plain)
    const digest = this.io.hash(stored)
    const name = toHex(digest)
    if (!this.#seen.has(name) && !held?.has(name)) {
      this.#seen.add(name)
      this.#queue.push({ digest, bytes: stored })
      this.#queuedBytes += stored.length
      this.added.push(digest)
      this.addedBytes += stored.length
    }
    return { digest, bytes: stored.length }
  }

  /** Call between pieces of work: sends a full batch, and yields when the slice is over. */
  async pause(): Promise<void> {
    if (this.#queuedBytes >= this.settings.putBytes) await this.#send()
    if (this.slices.isDue) await this.slices.yieldToLoop()
  }

  get isPauseDue(): boolean {
    return this.#queuedBytes >= this.settings.putBytes || this.slices.isDue
  }

  /** Everything added is durable when it resolves. */
  async finish(): Promise<void> {
    if (this.#queue.length > 0) await this.#send()
    await this.slices.wait(this.#inFlight)
  }

  async #send(): Promise<void> {
    await this.slices.wait(this.#inFlight)
    const batch = this.#queue
    this.#queue = []
    this.#queuedBytes = 0
    this.#inFlight = this.io.blobs.put(batch)
    // The next wait reports the failure; until then it must not be reported as unhandled.
    this.#inFlight.catch(() => undefined)
  }
}

/** Chunks of a content by the digest of their plain bytes, so that an unchanged chunk is not even sealed. */
export type KnownChunks = ReadonlyMap<string, ChunkRef>

export interface WrittenContent {
  readonly content: Content
  /** Stored size, lists of refs included. */
  readonly bytes: number
  readonly known: KnownChunks
}

/** Writes bytes as chunks; chunks that `before` contains are only referenced. */
export async function writeContent(
  plain: Uint8Array,
  before: KnownChunks,
  output: ChunkOutput,
): Promise<WrittenContent> {
  const size = plain.length
  if (size <= inlineTryBytes) {
    const sealed = output.io.sealer.sealChunk(plain)
    if (sealed.length <= output.settings.inlineBytes) {
      return { content: { kind: 'inline', size, sealed }, bytes: sealed.length, known: new Map() }
    }
  }
  const known = new Map<string, ChunkRef>()
  let level = 0
  let refs = await cutToChunks(plain, before, known, output)
  while (refs.length > refsMax) {
    level += 1
    refs = await cutToChunks(encodeRefs(refs), before, known, output)
  }
  let bytes = 0
  for (const ref of known.values()) bytes += ref.bytes
  return { content: { kind: 'chunks', size, level, refs }, bytes, known }
}

async function cutToChunks(
  plain: Uint8Array,
  before: KnownChunks,
  known: Map<string, ChunkRef>,
  output: ChunkOutput,
): Promise<ChunkRef[]> {
  const refs: ChunkRef[] = []
  for (let at = 0; at < plain.length; ) {
    const end = nextCut(plain, at)
    const piece = plain.subarray(at, end)
    const name = toHex(output.io.hash(piece))
    const ref = before.get(name) ?? known.get(name) ?? output.add(piece)
    known.set(name, ref)
    refs.push(ref)
    at = end
    if (output.isPauseDue) await output.pause()
  }
  return refs
}

const largeBlockSizes = {
  minBytes: 4 * defaultChunkSizes.minBytes,
  averageBytes: 4 * defaultChunkSizes.averageBytes,
  maxBytes: 4 * defaultChunkSizes.maxBytes,
}

/** A block is one chunk, unless a large value makes it larger than a chunk may be. */
export async function addBlock(block: Uint8Array, output: ChunkOutput): Promise<ChunkRef[]> {
  const refs: ChunkRef[] = []
  for (let at = 0; at < block.length; ) {
    const end = block.length <= largeBlockSizes.maxBytes ? block.length : nextCut(block, at, largeBlockSizes)
    refs.push(output.add(block.subarray(at, end)))
    at = end
    if (output.isPauseDue) await output.pause()
  }
  return refs
}
