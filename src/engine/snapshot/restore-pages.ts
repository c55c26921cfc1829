// Reads blocks of a Keyed part: assembled from checked chunks and compared with the directory. PageReader reads pages
// on demand; pages requested at the same moment are read together.

import { assert } from '../../core/assert.ts'
import type { Segment } from '../../core/checkpoint/manifest.ts'
import { readBlock } from '../../core/keyed-state/block.ts'
import type { PageEntries } from '../../core/keyed-state/page.ts'
import type { StateIo } from '../model/state-io.ts'
import { ChunkInput, damaged, joined } from './restore-input.ts'

export interface Block {
  readonly keys: string[]
  readonly values: (Uint8Array | null)[]
}

export function blockOf(bytes: Uint8Array): Block {
  const keys: string[] = []
  const values: (Uint8Array | null)[] = []
  readBlock(bytes, (key, value) => {
    keys.push(key)
    values.push(value)
  })
  return { keys, values }
}

/** The block of a segment, from the next pieces of its chunks. */
export async function blockOfSegment(
  pieces: AsyncGenerator<Uint8Array>,
  segment: Segment,
  part: string | null,
): Promise<Block> {
  const taken: Uint8Array[] = []
  while (taken.length < segment.refs.length) {
    const next = await pieces.next()
    assert(!next.done, 'there is a chunk for every ref')
    taken.push(next.value)
  }
  const block = blockOf(joined(taken))
  if (block.keys.length !== segment.entries || block.keys[0] !== segment.first) {
    throw damaged(part, 'has a key range that differs from its directory entry')
  }
  return block
}

/** The values of a page: in the base, no key is deleted. */
export function valuesOf(block: Block, part: string | null, io: Pick<StateIo, 'codec'>): unknown[] {
  return block.values.map((value) => {
    if (value === null) throw damaged(part, 'has a key without a value in its base')
    return io.codec.decode(value)
  })
}

interface PageRequest {
  readonly segment: Segment
  /** The first key of the next page; undefined for the last page. */
  readonly end: string | undefined
  resolve(entries: PageEntries<unknown>): void
  reject(error: unknown): void
}

export class PageReader {
  readonly #io: StateIo
  readonly #part: string | null
  #queued: PageRequest[] = []

  constructor(io: StateIo, part: string | null) {
    this.#io = io
    this.#part = part
  }

  read(segment: Segment, end: string | undefined): Promise<PageEntries<unknown>> {
    return new Promise((resolve, reject) => this.#enqueue({ segment, end, resolve, reject }))
  }

  #enqueue(request: PageRequest): void {
    // Deferred: all pages requested at this moment are read together.
    if (this.#queued.push(request) === 1) void Promise.resolve().then(() => this.#readQueued())
  }

  async #readQueued(): Promise<void> {
    const batch = this.#queued
    this.#queued = []
    const refs = batch.flatMap(({ segment }) => segment.refs)
    const pieces = new ChunkInput(this.#io).readPlain(refs, this.#part)
    for (const [i, request] of batch.entries()) {
      try {
        request.resolve(await this.#page(pieces, request))
      } catch (error) {
        request.reject(error)
        // An unreadable page does not affect the others.
        for (const other of batch.slice(i + 1)) this.#enqueue(other)
        return
      }
    }
  }

  async #page(pieces: AsyncGenerator<Uint8Array>, { segment, end }: PageRequest): Promise<PageEntries<unknown>> {
    const block = await blockOfSegment(pieces, segment, this.#part)
    const last = block.keys[block.keys.length - 1]!
    if (end !== undefined && !(last < end)) throw damaged(this.#part, 'has pages out of order')
    return { keys: block.keys, values: valuesOf(block, this.#part, this.#io) }
  }
}
