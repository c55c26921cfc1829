// Writes the checkpoints of a pipeline. State is written table by table in blocks, one slice at a time, while records
// continue. A table is written in full when enough changes have accumulated; otherwise only changes are written. The manifest
// names all chunks of a table, so a restore reads one manifest, never a chain.

import { assert } from '../../../core/assert.ts'
import { nextCut } from '../../../core/checkpoint/chunking.ts'
import { type ChunkRef, type Content, encodeRefs, type Part } from '../../../core/checkpoint/manifest.ts'
import type { Codec } from '../../../core/codec/codec.ts'
import type { Digest, ManifestId } from '../../../core/coordinate.ts'
import { addBlock, ChunkOutput, writeContent } from '../../../engine/snapshot/chunk-output.ts'
import { stateIo } from '../../../engine/snapshot/kernel-io.ts'
import type { ChunkHold } from '../../../engine/storage/chunk-hold.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import { packBlock } from '../rules/state-block.ts'
import type { StateCapture } from '../rules/state-capture.ts'
import { type CapturedTable, cellsPerBlock, type EncodedBlock, partName } from './named-table.ts'
import type { PipelineState } from './state.ts'

const refsMax = 32

/** A part of a manifest larger than the limit of a value is not read, so a large table has several parts. */
const segmentBytes = 16 * 1024 * 1024

/** Blocks of a table in one part of the manifest. */
export interface StoredSegment {
  readonly refs: readonly ChunkRef[]
  /** The size in bytes before encryption and compression. */
  readonly size: number
}

/** The stored form of a table. */
export interface StoredTable {
  readonly segments: readonly StoredSegment[]
  /** The number of cells in its blocks, including overwritten and deleted ones. */
  readonly cells: number
  /** The number of keys once all blocks are applied. */
  readonly keys: number
}

export interface WrittenState {
  readonly parts: readonly Part[]
  readonly tables: ReadonlyMap<string, StoredTable>
  readonly totalBytes: number
  readonly addedBytes: number
  readonly addedChunks: readonly Digest[]
  readonly longestStallMs: number
}

export interface CheckpointBase {
  readonly id: ManifestId
  readonly tables: ReadonlyMap<string, StoredTable>
}

/** Everything is durable when the promise resolves; nothing is published. */
export async function writeState(
  kernel: Kernel,
  hold: ChunkHold,
  captures: readonly CapturedTable[],
  base: CheckpointBase | null,
  /** Builds the header after the tables are written. */
  headerOf: (tables: ReadonlyMap<string, StoredTable>) => Promise<PipelineState>,
): Promise<WrittenState> {
  const output = new ChunkOutput(stateIo(kernel, hold))
  const tables = new Map<string, StoredTable>()
  const parts: Part[] = []
  for (const captured of captures) {
    const name = partName(captured)
    const before = captured.capture.isFull ? undefined : base?.tables.get(name)
    const table = await writeTable(name, captured.capture, before, output)
    tables.set(name, table)
    for (const [i, segment] of table.segments.entries()) {
      parts.push({ kind: 'stream', name: `${name}/${i}`, content: await contentOf(segment, output) })
    }
  }
  const header = { shape: 'value', value: await output.slices.wait(headerOf(tables)) }
  const main = await writeContent(kernel.codec.encode(header), new Map(), output)
  await output.finish()
  let totalBytes = main.bytes
  for (const { segments } of tables.values()) {
    for (const { refs } of segments) for (const { bytes } of refs) totalBytes += bytes
  }
  return {
    parts: [{ kind: 'value', name: null, content: main.content }, ...parts],
    tables,
    totalBytes,
    addedBytes: output.addedBytes,
    addedChunks: output.added,
    longestStallMs: output.slices.longestMs,
  }
}

async function writeTable(
  name: string,
  capture: CapturedTable['capture'],
  before: StoredTable | undefined,
  output: ChunkOutput,
): Promise<StoredTable> {
  // Check before anything is published: no run can resume from a checkpoint that claims more than it contains.
  const isBase = capture.isFull || capture.builtOn === before?.keys
  assert(isBase, `${name} builds on ${capture.builtOn} keys, and its base has ${before?.keys ?? 'none'}`)
  const written = { keys: 0, deleted: 0 }
  const segments = [...(before?.segments ?? [])]
  let cells = before?.cells ?? 0
  let { refs, size }: { refs: ChunkRef[]; size: number } = { refs: [], size: 0 }
  const last = segments.pop()
  if (last) [refs, size] = [[...last.refs], last.size]
  for (;;) {
    const block = 'pull' in capture ? await output.slices.wait(capture.pull()) : nextBlock(capture, output.io.codec)
    if (!block) break
    const bytes = framed(block.bytes)
    if (size > 0 && size + bytes.length > segmentBytes) {
      segments.push({ refs, size })
      ;[refs, size] = [[], 0]
    }
    written.keys += block.keys
    written.deleted += block.deleted
    cells += block.keys + block.deleted
    size += bytes.length
    refs.push(...(await addBlock(bytes, output)))
    if (output.isPauseDue) await output.pause()
  }
  if (size > 0) segments.push({ refs, size })
  const { promised } = capture
  assert(
    written.keys === promised.keys && written.deleted === promised.deleted,
    `${name} has ${promised.keys} keys and ${promised.deleted} deletions to write, and wrote ${written.keys} and ${written.deleted}`,
  )
  return { segments, cells, keys: capture.size }
}

/** Encodes in the same turn: a value may be changed in place as soon as records continue. */
export function nextBlock(capture: StateCapture, codec: Pick<Codec, 'encode'>): EncodedBlock | undefined {
  const block = capture.next(cellsPerBlock)
  if (!block) return undefined
  return { bytes: codec.encode(packBlock(block)), keys: block.keys.length, deleted: block.deleted.length }
}

function framed(bytes: Uint8Array): Uint8Array {
  const whole = new Uint8Array(bytes.length + 4)
  new DataView(whole.buffer).setUint32(0, bytes.length, true)
  whole.set(bytes, 4)
  return whole
}

/** Stores a long list of chunks in chunks of its own. */
async function contentOf({ refs, size }: StoredSegment, output: ChunkOutput): Promise<Content> {
  let level = 0
  let listed = [...refs]
  while (listed.length > refsMax) {
    const plain = encodeRefs(listed)
    listed = []
    level += 1
    for (let at = 0; at < plain.length; ) {
      const end = nextCut(plain, at)
      listed.push(output.add(plain.slice(at, end)))
      at = end
      if (output.isPauseDue) await output.pause()
    }
  }
  return { kind: 'chunks', size, level, refs: listed }
}
