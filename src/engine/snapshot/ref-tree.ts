// An append-only list of chunks, stored as the lists of lists of a manifest (core/checkpoint/manifest.ts). Every full
// list has the same number of entries, so the place of an entry is arithmetic: a list can be appended to, and read from
// any place, without reading the part before. Only lists that are not full are kept in memory.

import { type ChunkRef, type Content, decodeRefs, encodeRefs } from '../../core/checkpoint/manifest.ts'
import type { ChunkInput } from './restore-input.ts'
import { joined } from './restore-input.ts'

/** Entries of a full list. Part of the format: a list with another number of entries per list cannot be appended to. */
export const listEntries = 1024
/** The manifest itself holds up to this many entries; more become a list. */
const rootEntries = 32
const listsCached = 8

export type ChunkContent = Extract<Content, { kind: 'chunks' }>

export class RefTree {
  /** By height: entries that no full list holds yet. Height 0 has the chunks themselves. */
  readonly #pending: ChunkRef[][]
  #count: number

  private constructor(pending: ChunkRef[][], count: number) {
    this.#pending = pending
    this.#count = count
  }

  static empty(): RefTree {
    return new RefTree([[]], 0)
  }

  /** The first `count` chunks of a content, to append to. */
  static async resume(reader: RefReader, count: number): Promise<RefTree> {
    const pending: ChunkRef[][] = []
    for (let height = 0, entries = count; height === 0 || entries > 0; height++) {
      const full = Math.floor(entries / listEntries) * listEntries
      pending.push([...(await reader.entries(height, full, entries))])
      entries = full / listEntries
    }
    return new RefTree(pending, count)
  }

  get count(): number {
    return this.#count
  }

  /** A copy, to compute its content with more entries. */
  clone(): RefTree {
    return new RefTree(
      this.#pending.map((entries) => [...entries]),
      this.#count,
    )
  }

  push(ref: ChunkRef, write: (list: Uint8Array) => ChunkRef): void {
    this.#count += 1
    let entry = ref
    for (let height = 0; ; height++) {
      if (height === this.#pending.length) this.#pending.push([])
      const entries = this.#pending[height]!
      entries.push(entry)
      if (entries.length < listEntries) return
      entry = write(encodeRefs(entries))
      this.#pending[height] = []
    }
  }

  /** The content for a manifest. Lists that are not full are written too, and become garbage with the next call. */
  content(size: number, write: (list: Uint8Array) => ChunkRef): ChunkContent {
    let below: ChunkRef | null = null
    for (let level = 0; ; level++) {
      const entries: ChunkRef[] = [...(this.#pending[level] ?? []), ...(below ? [below] : [])]
      const isTop = this.#pending.slice(level + 1).every((above) => above.length === 0)
      if (isTop && entries.length <= rootEntries) return { kind: 'chunks', size, level, refs: entries }
      below = entries.length > 0 ? write(encodeRefs(entries)) : null
    }
  }
}

/** Reads entries of such a content by their position. */
export class RefReader {
  readonly #content: ChunkContent
  readonly #input: ChunkInput
  readonly #part: string
  readonly #lists = new Map<string, readonly ChunkRef[]>()

  constructor(content: ChunkContent, input: ChunkInput, part: string) {
    this.#content = content
    this.#input = input
    this.#part = part
  }

  /** Entries `from` (inclusive) to `to` (exclusive) at a height: 0 has the chunks, 1 the lists of chunks, and so on. */
  async entries(height: number, from: number, to: number): Promise<readonly ChunkRef[]> {
    if (from >= to || height > this.#content.level) return []
    if (height === this.#content.level) return this.#content.refs.slice(from, to)
    const firstList = Math.floor(from / listEntries)
    const lists = await this.entries(height + 1, firstList, Math.ceil(to / listEntries))
    const found: ChunkRef[] = []
    for (const list of lists) found.push(...(await this.#list(list)))
    return found.slice(from - firstList * listEntries, to - firstList * listEntries)
  }

  async #list(ref: ChunkRef): Promise<readonly ChunkRef[]> {
    const name = Buffer.from(ref.digest).toString('latin1')
    const cached = this.#lists.get(name)
    if (cached) return cached
    const plain: Uint8Array[] = []
    for await (const piece of this.#input.readPlain([ref], this.#part)) plain.push(piece)
    const refs = decodeRefs(joined(plain))
    if (this.#lists.size >= listsCached) this.#lists.delete(this.#lists.keys().next().value!)
    this.#lists.set(name, refs)
    return refs
  }
}
