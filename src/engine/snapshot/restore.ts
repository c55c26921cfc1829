// Restores a state from one manifest: every chunk is checked against its digest before it is decoded, and the decoded
// content is checked against the manifest. Also here: the chunks that a manifest keeps alive, and a check of them that
// decodes nothing.

import {
  type ChunkRef,
  type Content,
  decodeSegments,
  type KeyedPart,
  type Layer,
  type Manifest,
  type Segment,
} from '../../core/checkpoint/manifest.ts'
import { type Digest, toHex } from '../../core/coordinate.ts'
import type { Mark } from '../../core/keyed-state/capture.ts'
import { Keyed } from '../../core/keyed-state/keyed.ts'
import type { LoadedPage, PageWrite } from '../../core/keyed-state/page.ts'
import { KeyedTree } from '../../core/keyed-state/page-tree.ts'
import type { StateIo } from '../model/state-io.ts'
import { type CaptureBase, digestOfValue, type PartBase, type ValueBase } from './capture.ts'
import { finishSteps, type KnownChunks } from './chunk-output.ts'
import type { KeyedBase, LayerBase } from './keyed-writer.ts'
import { ChunkInput, damaged } from './restore-input.ts'
import { blockOf, blockOfSegment, PageReader, valuesOf } from './restore-pages.ts'

/** Content of unknown size is read in batches for this size. */
const sizeUnknown = 64 * 1024

export interface RestoredState {
  readonly state: unknown
  /** The base for the next capture of this state, as long as this checkpoint is in the catalog. */
  readonly base: CaptureBase
  readonly bytesRead: number
  /** Chunks that were damaged or missing, and were rebuilt. */
  readonly healed: number
}

/**
 * Pages of the parts for which `isPaged` returns true are read on demand.
 * @example const { state } = await restoreState(decodeManifest(record.body), io)
 */
export async function restoreState(
  manifest: Pick<Manifest, 'parts'>,
  io: StateIo,
  isPaged: (part: string | null) => boolean = () => false,
): Promise<RestoredState> {
  const input = new ChunkInput(io)
  const bases = new Map<string | null, PartBase>()
  const values = new Map<string | null, unknown>()
  for (const part of manifest.parts) {
    if (part.kind === 'value') {
      const { plain, bytes, known } = await input.readContent(part.content, part.name)
      const steps = plain.length > sizeUnknown ? io.codec.decodeInSteps?.(plain) : undefined
      values.set(part.name, steps ? await finishSteps(steps, input.slices) : io.codec.decode(plain))
      bases.set(part.name, { kind: 'value', part, digest: digestOfValue(plain, io), bytes, known } satisfies ValueBase)
    } else if (part.kind === 'keyed') {
      const { keyed, base } = await restoreKeyed(part, input, isPaged(part.name))
      values.set(part.name, keyed)
      bases.set(part.name, base)
    }
  }
  return { state: putTogether(values), base: { parts: bases }, bytesRead: input.bytesRead, healed: input.mended.length }
}

/** Every chunk that a restore of this manifest would read, directories included, each once. Reads the directories. */
export async function liveChunks(manifest: Pick<Manifest, 'parts'>, io: StateIo): Promise<Digest[]> {
  return [...(await liveRefs(manifest, io)).values()].map(({ ref }) => ref.digest)
}

/**
 * Reads chunks again and checks their digests: all chunks of the manifest, or only those passed. Throws CHUNK_MISSING
 * or CHUNK_DAMAGED for the first that fails.
 */
export async function verifyChunks(
  manifest: Pick<Manifest, 'parts'>,
  io: StateIo,
  only?: readonly Digest[],
): Promise<{ readonly chunks: number; readonly bytes: number }> {
  const input = new ChunkInput(io)
  const byPart = new Map<string | null, ChunkRef[]>()
  if (only) {
    const refs = only.map((digest) => ({ digest, bytes: sizeUnknown }))
    byPart.set(null, refs)
  } else {
    for (const { ref, part } of (await liveRefs(manifest, io)).values()) {
      const refs = byPart.get(part)
      if (refs) refs.push(ref)
      else byPart.set(part, [ref])
    }
  }
  let chunks = 0
  for (const [part, refs] of byPart) for await (const _ of input.read(refs, part)) chunks += 1
  return { chunks, bytes: input.bytesRead }
}

async function liveRefs(manifest: Pick<Manifest, 'parts'>, io: StateIo) {
  const input = new ChunkInput(io)
  const live = new Map<string, { readonly ref: ChunkRef; readonly part: string | null }>()
  const addTo = (part: string | null) => (ref: ChunkRef) => live.set(toHex(ref.digest), { ref, part })
  for (const part of manifest.parts) {
    const add = addTo(part.name)
    const contents = part.kind !== 'keyed' ? [part.content] : part.layers.flatMap(directoryOf)
    for (const content of contents) {
      if (content.kind === 'chunks') content.refs.forEach(add)
      const refs = await (part.kind === 'stream'
        ? input.streamRefs(content, part.name, add)
        : input.dataRefs(content, part.name, add))
      for (const ref of refs) add(ref)
      if (part.kind !== 'keyed') continue
      const { plain } = await input.readContent(content, part.name)
      for (const segment of decodeSegments(plain)) segment.refs.forEach(add)
    }
  }
  return live
}

function directoryOf(layer: Layer): readonly Content[] {
  return layer.body.kind === 'directory' ? [layer.body.directory] : []
}

function putTogether(values: ReadonlyMap<string | null, unknown>): unknown {
  if (!values.has(null)) throw damaged(null, 'is missing')
  const whole = values.get(null)
  if (values.size === 1) return whole
  if (typeof whole !== 'object' || whole === null) throw damaged(null, 'is not an object, but has parts')
  for (const [name, value] of values) {
    if (name === null) continue
    // Defined, not assigned: a part may be named __proto__.
    Object.defineProperty(whole, name, { value, enumerable: true, writable: true, configurable: true })
  }
  return whole
}

async function restoreKeyed(
  part: KeyedPart,
  input: ChunkInput,
  isPaged: boolean,
): Promise<{ keyed: Keyed; base: KeyedBase }> {
  const write: PageWrite = { lineage: {}, isVoid: false }
  const mark: Mark = { mark: true }
  const layers: LayerBase[] = []
  let known: KnownChunks = new Map()
  let tree: KeyedTree<unknown> | undefined
  for (const layer of part.layers) {
    const directory = await readDirectory(layer, part.name, input)
    if (tree === undefined) {
      const { segments } = directory
      tree =
        isPaged && segments
          ? leavePages(layer, segments, write, part.name, input)
          : await loadPages(layer, segments, write, part.name, input)
      known = directory.known
      layers.push({ layer, directoryBytes: directory.bytes, keys: null })
    } else {
      const keys = await applyLayer(tree, layer, directory.segments, part.name, input)
      layers.push({ layer, directoryBytes: directory.bytes, keys })
    }
  }
  if (tree === undefined) throw damaged(part.name, 'has no base')
  tree.takeChanged()
  tree.line.lineage = write.lineage
  tree.line.mark = mark
  return { keyed: new Keyed(tree), base: { kind: 'keyed', part, mark, layers, known } }
}

async function readDirectory(layer: Layer, part: string | null, input: ChunkInput) {
  if (layer.body.kind === 'inline') return { segments: null, bytes: 0, known: new Map<string, ChunkRef>() }
  const { plain, bytes, known } = await input.readContent(layer.body.directory, part)
  return { segments: decodeSegments(plain), bytes, known }
}

async function loadPages(
  layer: Layer,
  segments: readonly Segment[] | null,
  write: PageWrite,
  part: string | null,
  input: ChunkInput,
): Promise<KeyedTree<unknown>> {
  const pages: LoadedPage<unknown>[] = []
  let last: string | undefined
  for await (const { segment, keys, values } of blocksOf(layer, segments, part, input)) {
    if (keys.length === 0) continue
    if (last !== undefined && !(last < keys[0]!)) throw damaged(part, 'has pages out of order')
    last = keys[keys.length - 1]!
    const decoded = valuesOf({ keys, values }, part, input.io)
    pages.push({ keys, values: decoded, stored: segment ? { write, segments: [segment] } : undefined })
  }
  return KeyedTree.load(pages)
}

/** The tree of the pages in the directory, none of them read yet. */
function leavePages(
  layer: Layer,
  segments: readonly Segment[],
  write: PageWrite,
  part: string | null,
  input: ChunkInput,
): KeyedTree<unknown> {
  const reader = new PageReader(input.io, part)
  let entries = 0
  const pages = segments.map((segment, i): LoadedPage<unknown> => {
    const end = segments[i + 1]?.first
    if (segment.entries === 0 || (end !== undefined && !(segment.first < end))) {
      throw damaged(part, 'has pages out of order')
    }
    entries += segment.entries
    const stored = { write, segments: [segment] }
    return { first: segment.first, entries: segment.entries, stored, read: () => reader.read(segment, end) }
  })
  if (entries !== layer.entries) throw damaged(part, `has ${entries} entries where ${layer.entries} were promised`)
  return KeyedTree.load(pages)
}

async function applyLayer(
  tree: KeyedTree<unknown>,
  layer: Layer,
  segments: readonly Segment[] | null,
  part: string | null,
  input: ChunkInput,
): Promise<ReadonlySet<string>> {
  const touched = new Set<string>()
  for await (const { keys, values } of blocksOf(layer, segments, part, input)) {
    const unread = tree.unreadOf(keys)
    if (unread.length > 0) await Promise.all(unread.map((page) => page.read()))
    for (let at = 0; at < keys.length; at++) {
      const value = values[at]!
      touched.add(keys[at]!)
      if (value === null) tree.delete(keys[at]!)
      else tree.set(keys[at]!, input.io.codec.decode(value))
    }
  }
  if (touched.size !== layer.entries) throw damaged(part, 'has the same key twice in one layer')
  return touched
}

/** The blocks of a layer in order, each with the number of entries that the directory names. */
async function* blocksOf(layer: Layer, segments: readonly Segment[] | null, part: string | null, input: ChunkInput) {
  let entries = 0
  if (layer.body.kind === 'inline') {
    const block = blockOf(input.io.sealer.openChunk(layer.body.sealed))
    entries = block.keys.length
    yield { segment: null, ...block }
  } else {
    const refs = (segments ?? []).flatMap((segment) => segment.refs)
    const pieces = input.readPlain(refs, part)
    for (const segment of segments ?? []) {
      const block = await blockOfSegment(pieces, segment, part)
      entries += block.keys.length
      yield { segment, ...block }
    }
  }
  if (entries !== layer.entries) throw damaged(part, `has ${entries} entries where ${layer.entries} were promised`)
}
