// Rows that are stored in chunks and read page by page on demand. Memory holds the directory (one short entry per page), a
// bounded cache of pages, and the changes since the pages were last written. A cached page is kept as bytes, and a row is
// decoded on demand: most rows of a page never are. The stored layout is that of a resident table, so either kind opens the
// data of the other.

import { firstIndex } from '../../core/binary-search.ts'
import { decodeSegments, type KeyedPart, type Layer, type Segment } from '../../core/checkpoint/manifest.ts'
import { RepriseError } from '../../core/errors.ts'
import { readBlock } from '../../core/keyed-state/block.ts'
import { BlockView } from '../../core/keyed-state/block-view.ts'
import { Keyed, type KeyedRange } from '../../core/keyed-state/keyed.ts'
import type { StateIo } from '../../engine/model/state-io.ts'
import { ChunkInput, joined } from '../../engine/snapshot/restore-input.ts'
import { type Cell, decodeRow, OverlaidPage } from './overlaid-page.ts'
import type { MigrateRow } from './versions.ts'

export interface PageStats {
  readonly hits: number
  readonly misses: number
  readonly cachedBytes: number
  readonly pages: number
  readonly changedRows: number
}

const partName = 'value.rows'

export class PagedRows<V> {
  readonly #io: StateIo
  readonly #cacheBytes: number
  readonly #cache = new Map<Segment, BlockView>()
  readonly #loading = new Map<Segment, Promise<BlockView>>()
  #cachedBytes = 0
  #hits = 0
  #misses = 0
  /** The pages hold rows of an older version: each row is migrated when it is decoded, until all pages are rewritten. */
  #migrate: MigrateRow<V> | null = null
  /** Called for an unreadable page; the reader receives the error as well. */
  onDamage: ((error: unknown) => void) | null = null
  segments: readonly Segment[] = []
  layers: readonly Layer[] = []
  /** Changes of layers written after the pages; of a checkpoint in progress; and newer ones. */
  overlay = new Keyed<Cell<V>>()
  frozen: Keyed<Cell<V>> | null = null
  recent = new Keyed<Cell<V>>()

  constructor(io: StateIo, cacheBytes: number) {
    this.#io = io
    this.#cacheBytes = cacheBytes
  }

  /** Reads the directory and the layers above the pages, not the pages. */
  static async load<V>(
    io: StateIo,
    cacheBytes: number,
    part: KeyedPart,
    migrate: MigrateRow<V> | null,
  ): Promise<PagedRows<V>> {
    const rows = new PagedRows<V>(io, cacheBytes)
    rows.#migrate = migrate
    const [base, ...newer] = part.layers
    if (!base) throw new RepriseError('CHECKPOINT_DAMAGED', 'the rows have no base')
    if (base.body.kind === 'inline') await rows.#loadLayer(base)
    else rows.segments = await rows.#directory(base)
    for (const layer of newer) await rows.#loadLayer(layer)
    rows.layers = part.layers
    return rows
  }

  get isMigrating(): boolean {
    return this.#migrate !== null
  }

  get stats(): PageStats {
    const changedRows = this.overlay.size + (this.frozen?.size ?? 0) + this.recent.size
    return {
      hits: this.#hits,
      misses: this.#misses,
      cachedBytes: this.#cachedBytes,
      pages: this.segments.length,
      changedRows,
    }
  }

  set(key: string, value: V): void {
    this.recent.set(key, { value })
  }

  delete(key: string): void {
    this.recent.set(key, null)
  }

  async get(key: string): Promise<V | undefined> {
    // Null is a result: the row is deleted, whatever older layers contain.
    const newest = this.recent.get(key)
    const cell = newest === undefined ? this.#older(key) : newest
    if (cell !== undefined) return cell === null ? undefined : cell.value
    const at = this.#indexOf(key)
    if (at < 0) return undefined
    const segment = this.segments[at]!
    // The migration of that page: other pages may replace it meanwhile.
    const migrate = this.#migrate
    const page = this.#held(segment) ?? (await this.#page(segment))
    const place = page.find(key)
    return place < 0 ? undefined : this.#checked(() => decodeRow<V>(page, place, this.#io.codec, migrate))
  }

  /** In key order. Returns the rows as of its start, possibly with some later changes. */
  async *entries(range: KeyedRange = {}): AsyncGenerator<[string, V]> {
    const { segments } = this
    const migrate = this.#migrate
    const cells = [this.overlay, this.frozen, this.recent]
    let left = range.limit ?? Number.POSITIVE_INFINITY
    const { from = '', to, prefix = '', reverse = false } = range
    const low = prefix > from ? prefix : from
    const count = Math.max(1, segments.length)
    for (let step = 0; step < count; step++) {
      const at = reverse ? count - 1 - step : step
      const start = at === 0 ? '' : segments[at]!.first
      const end = segments[at + 1]?.first
      if ((end !== undefined && end <= low) || (to !== undefined && start >= to)) continue
      if (prefix !== '' && start > prefix && !start.startsWith(prefix)) continue
      const region = await this.#region(segments[at], start, end, cells, migrate)
      const { keys } = region
      for (let i = 0; i < keys.length; i++) {
        const index = reverse ? keys.length - 1 - i : i
        const key = keys[index]!
        if (key < low || (to !== undefined && key >= to) || !key.startsWith(prefix)) continue
        if (left-- <= 0) return
        yield [key, this.#checked(() => region.value(index))]
      }
    }
  }

  /** The rows of one page, overlaid with newer cells. */
  region(
    segment: Segment | undefined,
    start: string,
    end: string | undefined,
    sources: readonly (Keyed<Cell<V>> | null)[],
  ): Promise<OverlaidPage<V>> {
    return this.#region(segment, start, end, sources, this.#migrate)
  }

  async #region(
    segment: Segment | undefined,
    start: string,
    end: string | undefined,
    sources: readonly (Keyed<Cell<V>> | null)[],
    migrate: MigrateRow<V> | null,
  ): Promise<OverlaidPage<V>> {
    const page = segment ? (this.#held(segment) ?? (await this.#page(segment))) : null
    const cells = new Map<string, Cell<V>>()
    const range: KeyedRange = { from: start, ...(end !== undefined && { to: end }) }
    for (const source of sources) for (const [key, cell] of source?.entries(range) ?? []) cells.set(key, cell)
    return new OverlaidPage(page, cells, this.#io.codec, migrate)
  }

  #held(segment: Segment): BlockView | undefined {
    const held = this.#cache.get(segment)
    if (!held) return undefined
    this.#hits += 1
    this.#cache.delete(segment)
    this.#cache.set(segment, held)
    return held
  }

  /** Reads a page from its chunks, checked against their digests. */
  async #page(segment: Segment): Promise<BlockView> {
    const loading = this.#loading.get(segment) ?? this.#load(segment)
    this.#loading.set(segment, loading)
    try {
      return await loading
    } catch (error) {
      this.onDamage?.(error)
      throw error
    } finally {
      this.#loading.delete(segment)
    }
  }

  #checked<R>(decode: () => R): R {
    try {
      return decode()
    } catch (error) {
      this.onDamage?.(error)
      throw error
    }
  }

  /** Freezes the changes for a checkpoint; later changes are collected separately. */
  freeze(): Keyed<Cell<V>> {
    this.frozen = this.recent
    this.recent = new Keyed()
    return this.frozen
  }

  /** The checkpoint failed: its changes rejoin the recent ones. */
  thaw(): void {
    const newer = this.recent
    this.recent = this.frozen ?? new Keyed()
    this.frozen = null
    for (const [key, cell] of newer) this.recent.set(key, cell)
  }

  /** The frozen changes were published as a layer above the pages. */
  settleLayer(layers: readonly Layer[]): void {
    for (const [key, cell] of this.frozen ?? []) this.overlay.set(key, cell)
    this.frozen = null
    this.layers = layers
  }

  /** The frozen changes were published as pages, with no layers above them. */
  settlePages(layer: Layer, segments: readonly Segment[]): void {
    this.frozen = null
    this.overlay = new Keyed()
    this.#migrate = null
    this.layers = [layer]
    this.segments = segments
    const alive = new Set(segments)
    for (const segment of this.#cache.keys()) if (!alive.has(segment)) this.#drop(segment)
  }

  #older(key: string): Cell<V> | undefined {
    const frozen = this.frozen?.get(key)
    return frozen === undefined ? this.overlay.get(key) : frozen
  }

  #indexOf(key: string): number {
    return firstIndex(0, this.segments.length, (at) => this.segments[at]!.first > key) - 1
  }

  async #load(segment: Segment): Promise<BlockView> {
    this.#misses += 1
    const page = new BlockView(await this.#bytes(segment), segment.entries)
    if (page.size === 0 || page.key(0) !== segment.first) throw elsewhere()
    this.#cache.set(segment, page)
    this.#cachedBytes += page.memoryBytes
    for (const oldest of this.#cache.keys()) {
      if (this.#cachedBytes <= this.#cacheBytes || oldest === segment) break
      this.#drop(oldest)
    }
    return page
  }

  #drop(segment: Segment): void {
    this.#cachedBytes -= this.#cache.get(segment)?.memoryBytes ?? 0
    this.#cache.delete(segment)
  }

  async #bytes(segment: Segment): Promise<Uint8Array> {
    const pieces: Uint8Array[] = []
    for await (const piece of new ChunkInput(this.#io).readPlain(segment.refs, partName)) pieces.push(piece)
    return joined(pieces)
  }

  async #directory(layer: Layer): Promise<Segment[]> {
    if (layer.body.kind === 'inline') return []
    const { plain } = await new ChunkInput(this.#io).readContent(layer.body.directory, partName)
    return decodeSegments(plain)
  }

  #rowOf(key: string, bytes: Uint8Array): V {
    const row = this.#io.codec.decode(bytes)
    return this.#migrate ? this.#migrate(row, key) : (row as V)
  }

  async #loadLayer(layer: Layer): Promise<void> {
    const put = (key: string, value: Uint8Array | null) =>
      this.overlay.set(key, value === null ? null : { value: this.#rowOf(key, value) })
    if (layer.body.kind === 'inline') {
      readBlock(this.#io.sealer.openChunk(layer.body.sealed), put)
      return
    }
    for (const segment of await this.#directory(layer)) {
      const block = new BlockView(await this.#bytes(segment), segment.entries)
      if (block.size === 0 || block.key(0) !== segment.first) throw elsewhere()
      for (let at = 0; at < block.size; at++) put(block.key(at), block.value(at))
    }
  }
}

function elsewhere(): RepriseError {
  return new RepriseError('CHECKPOINT_DAMAGED', 'the keys of a page do not match its directory')
}
