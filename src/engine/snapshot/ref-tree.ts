// A list of chunks that only grows, as the lists of lists that a manifest knows (core/checkpoint/manifest.ts). Every full
// list has the same number of entries, so the place of an entry is arithmetic: a list can be appended to, and read from
// anywhere, without a look at what lies before. In memory are only the lists that are not full yet.

import { type ChunkRef, type Content, decodeRefs, encodeRefs } from '../../core/checkpoint/manifest.ts'
import type { ChunkInput } from './restore-input.ts'
import { joined } from './restore-input.ts'

/** Entries of a full list. A fact of the format: a list that another number made cannot be appended to. */
export const listEntries = 1024
/** So many lie in the manifest itself; more of them make a list. */
const rootEntries = 32
const listsCached = 8

export type ChunkContent = Extract<Content, { kind: 'chunks' }>

export class RefTree {
  /** By height: entries that no full list holds yet. The first are the chunks themselves. */
  readonly #pending: ChunkRef[][]
  #count: number

  private constructor(pending: ChunkRef[][], count: number) {
    this.#pending = pending
    this.#count = count
  }

  static empty(): RefTree {
    return new RefTree([[]], 0)
  }

  /** The first `count` chunks of a content, to be appended to. */
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

  /** To see what it would be with more in it. */
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

  /** As a manifest names it. Lists that are not full are written as they are, and are garbage after the next time. */
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

/** Reads entries of such a content by their place. */
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

  /** Entries `from` to `to`, without the last, at a height: 0 are the chunks, 1 the lists of chunks, and so on. */
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
