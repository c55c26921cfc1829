// Writes one Keyed part from its frozen pages: as a layer of changed keys, as one merged layer, or as changed pages and
// a new directory, whichever the plan finds cheapest (core/keyed-state/plan.ts).

import { assert } from '../../core/assert.ts'
import { ByteWriter } from '../../core/bytes.ts'
import { encodeSegments, type KeyedPart, type Layer, type Segment } from '../../core/checkpoint/manifest.ts'
import { beginBlock, writeEntry } from '../../core/keyed-state/block.ts'
import type { KeyedCapture, Mark } from '../../core/keyed-state/capture.ts'
import { lowerBound, pageIndexOf } from '../../core/keyed-state/page-tree.ts'
import { type KeyedCosts, type KeyedPlan, type KeyedPlanSettings, planKeyed } from '../../core/keyed-state/plan.ts'
import { addBlock, type ChunkOutput, type KnownChunks, writeContent } from './chunk-output.ts'

const noChunks: KnownChunks = new Map()
/** A block is closed at this size. A page of the default size is one block; layers can use smaller blocks. */
const pageBlockBytes = 128 * 1024
const layerBlockBytes = 64 * 1024
/** How many entries, or bytes, are encoded between two checks of the slice. */
const entriesPerCheck = 64
const bytesPerCheck = 32 * 1024
const inlineTryBytes = 16 * 1024
/** The assumed size of an entry before any was measured. */
const entryBytesAssumed = 64
/** Each changed page also changes a chunk of the directory. */
const directoryChunkBytes = 16 * 1024

export interface LayerBase {
  readonly layer: Layer
  /** Stored bytes of the directory. */
  readonly directoryBytes: number
  /** The keys of the layer; null for the base. */
  readonly keys: ReadonlySet<string> | null
}

/** The base for the next capture. */
export interface KeyedBase {
  readonly kind: 'keyed'
  readonly part: KeyedPart
  readonly mark: Mark
  readonly layers: readonly LayerBase[]
  /** Chunks of the base's directory. */
  readonly known: KnownChunks
}

export interface WrittenKeyed {
  readonly base: KeyedBase
  readonly bytes: number
  readonly plan: KeyedPlan
}

export async function writeKeyed(
  name: string | null,
  capture: KeyedCapture<unknown>,
  before: KeyedBase | null,
  output: ChunkOutput,
  settings?: KeyedPlanSettings,
): Promise<WrittenKeyed> {
  let keys = capture.changed ?? new Set<string>()
  let plan = planKeyed(costsOf(capture, before, keys.size), settings)
  if (plan.choice === 'merge' && before !== null) {
    // The keys of several layers overlap: count their union before estimating the cost of one merged layer.
    const merged = await union([...before.layers.map((held) => held.keys), keys], output)
    plan = planKeyed(costsOf(capture, before, merged.size), settings)
    if (plan.choice === 'merge') keys = merged
  }
  const { layers, known } = await act(plan, capture, before, keys, output)
  const part: KeyedPart = { kind: 'keyed', name, layers: layers.map((held) => held.layer) }
  const bytes = layers.reduce((sum, held) => sum + held.layer.bytes + held.directoryBytes, 0)
  return { base: { kind: 'keyed', part, mark: capture.mark, layers, known }, bytes, plan }
}

async function act(
  plan: KeyedPlan,
  capture: KeyedCapture<unknown>,
  before: KeyedBase | null,
  keys: ReadonlySet<string>,
  output: ChunkOutput,
): Promise<{ layers: readonly LayerBase[]; known: KnownChunks }> {
  if (plan.choice === 'pages') return writePages(capture, before?.known ?? noChunks, output)
  assert(before !== null, 'only pages can be written without a base')
  if (plan.choice === 'unchanged') return before
  const layer = await writeLayer(capture, keys, output)
  const kept = plan.choice === 'merge' ? before.layers.slice(0, 1) : before.layers
  return { layers: [...kept, layer], known: before.known }
}

function costsOf(capture: KeyedCapture<unknown>, before: KeyedBase | null, mergedKeys: number): KeyedCosts {
  const base = before?.layers[0]
  const entryBytes = base && base.layer.entries > 0 ? base.layer.bytes / base.layer.entries : entryBytesAssumed
  const changedKeys = capture.changed?.size ?? capture.snapshot.size
  const held = before?.layers.slice(1) ?? []
  let changedPages = 0
  let changedEntries = 0
  for (const page of capture.snapshot.pages) {
    if (capture.segmentsOf(page)) continue
    changedPages += 1
    changedEntries += page.unread?.entries ?? page.keys.length
  }
  const directoryBytes = Math.min(base?.directoryBytes ?? 0, changedPages * directoryChunkBytes)
  return {
    canLayer: capture.canBuild && before !== null && capture.changed !== null,
    changedKeys,
    layerBytes: changedKeys * entryBytes,
    mergedKeys,
    mergedBytes: mergedKeys * entryBytes,
    changedPages,
    pagesBytes: changedEntries * entryBytes + directoryBytes,
    layersHeld: held.length,
    layersHeldBytes: held.reduce((sum, { layer }) => sum + layer.bytes, 0),
    baseBytes: base?.layer.bytes ?? 0,
  }
}

async function writePages(capture: KeyedCapture<unknown>, before: KnownChunks, output: ChunkOutput) {
  const { pages, size } = capture.snapshot
  const blocks = new BlockOutput(output, output.settings.pageBytes ?? pageBlockBytes)
  const segments: Segment[] = []
  for (const page of pages) {
    let held = capture.segmentsOf(page)
    if (!held) {
      // Everything is rewritten, including pages that were never read.
      if (page.unread) await output.slices.wait(page.unread.read())
      for (let at = 0; at < page.keys.length; at++) {
        const value = output.io.codec.encode(page.values[at])
        if (blocks.add(page.keys[at]!, value)) await blocks.close()
        const isCheckDue = at % entriesPerCheck === 0 || value.length > bytesPerCheck
        if (isCheckDue && output.isPauseDue) await output.pause()
      }
      const inline = pages.length === 1 ? blocks.takeInline() : null
      if (inline)
        return { layers: [layerOf({ kind: 'inline', sealed: inline }, size, inline.length, 0, null)], known: noChunks }
      held = await blocks.takeSegments()
      capture.noteStored(page, held)
    }
    for (const segment of held) segments.push(segment)
    if (output.isPauseDue) await output.pause()
  }
  return withDirectory(segments, size, null, before, output)
}

async function writeLayer(
  capture: KeyedCapture<unknown>,
  keys: ReadonlySet<string>,
  output: ChunkOutput,
): Promise<LayerBase> {
  const { pages } = capture.snapshot
  const blocks = new BlockOutput(output, layerBlockBytes)
  const buckets = await bucketByPage(capture, keys, output)
  for (let index = 0; index < buckets.length; index++) {
    const bucket = buckets[index]
    if (!bucket) continue
    const page = pages[index]
    for (const key of bucket.sort()) {
      const at = page ? lowerBound(page.keys, key) : 0
      const value = page?.keys[at] === key ? output.io.codec.encode(page.values[at]) : null
      if (blocks.add(key, value)) await blocks.close()
      if (output.isPauseDue) await output.pause()
    }
  }
  const inline = blocks.takeInline()
  if (inline) return layerOf({ kind: 'inline', sealed: inline }, keys.size, inline.length, 0, keys)
  const { layers } = await withDirectory(await blocks.takeSegments(), keys.size, keys, noChunks, output)
  return layers[0]!
}

async function withDirectory(
  segments: readonly Segment[],
  entries: number,
  keys: ReadonlySet<string> | null,
  before: KnownChunks,
  output: ChunkOutput,
): Promise<{ layers: readonly LayerBase[]; known: KnownChunks }> {
  let bytes = 0
  let counted = 0
  for (const segment of segments) {
    counted += segment.entries
    for (const ref of segment.refs) bytes += ref.bytes
  }
  assert(counted === entries, 'the directory covers every entry')
  const { content, bytes: directoryBytes, known } = await writeContent(encodeSegments(segments), before, output)
  return { layers: [layerOf({ kind: 'directory', directory: content }, entries, bytes, directoryBytes, keys)], known }
}

function layerOf(
  body: Layer['body'],
  entries: number,
  bytes: number,
  directoryBytes: number,
  keys: ReadonlySet<string> | null,
): LayerBase {
  return { layer: { entries, bytes, body }, directoryBytes, keys }
}

/** Sorting all keys at once would block the event loop; sorted by page, they take a few at a time. */
async function bucketByPage(capture: KeyedCapture<unknown>, keys: ReadonlySet<string>, output: ChunkOutput) {
  const { bounds, pages } = capture.snapshot
  const buckets: (string[] | undefined)[] = new Array(Math.max(1, pages.length)).fill(undefined)
  let count = 0
  for (const key of keys) {
    const index = pageIndexOf(bounds, key)
    const bucket = buckets[index]
    if (bucket) bucket.push(key)
    else buckets[index] = [key]
    if (++count % 256 === 0 && output.isPauseDue) await output.pause()
  }
  return buckets
}

async function union(sets: readonly (ReadonlySet<string> | null)[], output: ChunkOutput): Promise<ReadonlySet<string>> {
  const all = new Set<string>()
  for (const set of sets) {
    for (const key of set ?? []) {
      all.add(key)
      if (all.size % 1024 === 0 && output.isPauseDue) await output.pause()
    }
  }
  return all
}

/** Ordered entries, cut into blocks. */
export class BlockOutput {
  readonly #output: ChunkOutput
  readonly #bytesMax: number
  readonly #entriesMax: number
  readonly #writer: ByteWriter
  #segments: Segment[] = []
  #first = ''
  #entries = 0

  constructor(output: ChunkOutput, bytesMax: number, entriesMax = Number.POSITIVE_INFINITY) {
    this.#output = output
    this.#bytesMax = bytesMax
    this.#entriesMax = entriesMax
    this.#writer = new ByteWriter(bytesMax)
  }

  /** True: the block is full and must be closed. */
  add(key: string, value: Uint8Array | null): boolean {
    if (this.#entries === 0) {
      beginBlock(this.#writer)
      this.#first = key
    }
    writeEntry(this.#writer, key, value)
    this.#entries += 1
    return this.#writer.length >= this.#bytesMax || this.#entries >= this.#entriesMax
  }

  async close(): Promise<void> {
    const refs = await addBlock(this.#writer.take(), this.#output)
    this.#segments.push({ first: this.#first, entries: this.#entries, refs })
    this.#entries = 0
  }

  /** The sealed block if all entries since the last call fit into the manifest; null otherwise. */
  takeInline(): Uint8Array | null {
    if (this.#segments.length > 0 || this.#entries === 0 || this.#writer.length > inlineTryBytes) return null
    const sealed = this.#output.io.sealer.sealChunk(this.#writer.take())
    if (sealed.length > this.#output.settings.inlineBytes) return null
    this.#entries = 0
    return sealed
  }

  async takeSegments(): Promise<readonly Segment[]> {
    if (this.#entries > 0) await this.close()
    const segments = this.#segments
    this.#segments = []
    return segments
  }
}
