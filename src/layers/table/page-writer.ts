// Writes the rows of a paged table for a checkpoint: as one more layer of changed rows while those are few, otherwise as
// pages, of which only the changed ones are rewritten. Memory stays bounded: one page at a time.

import { encodeSegments, type KeyedPart, type Layer, type Segment } from '../../core/checkpoint/manifest.ts'
import type { Keyed } from '../../core/keyed-state/keyed.ts'
import { type ChunkOutput, writeContent } from '../../engine/snapshot/chunk-output.ts'
import { BlockOutput } from '../../engine/snapshot/keyed-writer.ts'
import type { Cell } from './overlaid-page.ts'
import type { PagedRows } from './pages.ts'

const partName = 'value.rows'
const pageRows = 256
const pageBytes = 32 * 1024
const layersMax = 8

export interface WrittenRows {
  readonly part: KeyedPart
  readonly bytes: number
  /** Informs the rows that the checkpoint is published. */
  settle(): void
}

/** `isFull`: the existing pages are not retained, so all are rewritten. */
export async function writeRows<V>(
  rows: PagedRows<V>,
  frozen: Keyed<Cell<V>>,
  output: ChunkOutput,
  changedRowsMax: number,
  isFull: boolean,
): Promise<WrittenRows> {
  const isWhole = rows.layers.length === 0 || isFull
  const isFew = rows.overlay.size + frozen.size <= changedRowsMax && rows.layers.length < layersMax
  if (!isWhole && frozen.size === 0) return written(rows.layers, () => rows.settleLayer(rows.layers))
  if (isWhole || !isFew) {
    const segments = await writePages(rows, frozen, output, isFull)
    const layer = await layerOf(segments, output)
    return written([layer], () => rows.settlePages(layer, segments))
  }
  const blocks = new BlockOutput(output, pageBytes, pageRows)
  for (const [key, cell] of frozen)
    await add(blocks, key, cell === null ? null : output.io.codec.encode(cell.value), output)
  const layers = [...rows.layers, await layerOf(await blocks.takeSegments(), output)]
  return written(layers, () => rows.settleLayer(layers))
}

function written(layers: readonly Layer[], settle: () => void): WrittenRows {
  const bytes = layers.reduce((sum, layer) => sum + layer.bytes, 0)
  return { part: { kind: 'keyed', name: partName, layers }, bytes, settle }
}

async function writePages<V>(
  rows: PagedRows<V>,
  frozen: Keyed<Cell<V>>,
  output: ChunkOutput,
  isFull: boolean,
): Promise<Segment[]> {
  const { segments } = rows
  const made: Segment[] = []
  for (let at = 0; at < Math.max(1, segments.length); at++) {
    const start = at === 0 ? '' : segments[at]!.first
    const end = segments[at + 1]?.first
    const range = { from: start, limit: 1, ...(end !== undefined && { to: end }) }
    const isChanged = isFull || [rows.overlay, frozen].some((cells) => !cells.keys(range).next().done)
    if (!isChanged) {
      const untouched = segments[at]
      if (untouched) made.push(untouched)
      continue
    }
    const blocks = new BlockOutput(output, pageBytes, pageRows)
    const region = await rows.region(segments[at], start, end, [rows.overlay, frozen])
    for (const [index, key] of region.keys.entries()) await add(blocks, key, region.encoded(index), output)
    made.push(...(await blocks.takeSegments()))
  }
  return made
}

async function layerOf(segments: readonly Segment[], output: ChunkOutput): Promise<Layer> {
  const { content } = await writeContent(encodeSegments(segments), new Map(), output)
  let entries = 0
  let bytes = 0
  for (const segment of segments) {
    entries += segment.entries
    for (const ref of segment.refs) bytes += ref.bytes
  }
  return { entries, bytes, body: { kind: 'directory', directory: content } }
}

/** Adds an entry, and closes the block when a page is full. */
async function add(blocks: BlockOutput, key: string, value: Uint8Array | null, output: ChunkOutput): Promise<void> {
  if (blocks.add(key, value)) await blocks.close()
  if (output.isPauseDue) await output.pause()
}
