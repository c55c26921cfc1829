// Reads a checkpoint of a pipeline back: its header, and the tables of its operators block by block into the tables of the
// flow. Every chunk is checked against its digest before it is decoded.

import { RepriseError } from '../../../core/errors.ts'
import type { Part } from '../../../core/manifest.ts'
import { unpackBlock } from '../../../core/pipeline/state-block.ts'
import type { StateTable } from '../../../core/pipeline/state-table.ts'
import type { ManifestRecord } from '../../../core/ports.ts'
import type { Kernel } from '../../../engine/kernel.ts'
import { stateIo } from '../../../engine/kernel-io.ts'
import { readManifest } from '../../../engine/recovery/recover.ts'
import { ChunkInput } from '../../../engine/recovery/restore-input.ts'
import { partName, type StoredSegment, type StoredTable } from './checkpoint-writer.ts'
import type { NamedTable } from './flow.ts'
import type { PipelineState } from './state.ts'

export async function readHeader(kernel: Kernel, record: ManifestRecord): Promise<PipelineState> {
  const main = readManifest(kernel, record).parts.find(({ name }) => name === null)
  if (main?.kind !== 'value') throw damaged(record, 'has no header')
  const { plain } = await new ChunkInput(stateIo(kernel)).readContent(main.content, null)
  const { value } = kernel.codec.decode(plain) as { readonly value: PipelineState }
  if (value.format !== 1) {
    const what = `checkpoint ${record.id} is of format ${value.format}, which this version does not know`
    throw new RepriseError('INCOMPATIBLE_VERSION', what, { format: value.format })
  }
  return value
}

/** Fills the tables; those without a part stay empty. `storedAs` gives the name that an operator had then. */
export async function readTables(
  kernel: Kernel,
  record: ManifestRecord,
  header: PipelineState,
  tables: readonly NamedTable[],
  storedAs: (operator: string) => string,
): Promise<{ readonly tables: ReadonlyMap<string, StoredTable>; readonly bytes: number }> {
  const { parts } = readManifest(kernel, record)
  const input = new ChunkInput(stateIo(kernel))
  const stored = new Map<string, StoredTable>()
  for (const named of tables) {
    const before = partName({ operator: storedAs(named.operator), name: named.name })
    const segments: StoredSegment[] = []
    for (let i = 0; ; i++) {
      const part = parts.find(({ name }) => name === `${before}/${i}`)
      if (!part) break
      segments.push(await readSegment(part, named.table, input, record))
    }
    const { cells, stored: written } = header.tables[before] ?? { cells: 0, stored: 0 }
    if (named.table.size !== cells) {
      throw damaged(record, `has ${named.table.size} keys in ${before} where ${cells} were promised`)
    }
    if (segments.length > 0) stored.set(partName(named), { segments, cells: written })
  }
  return { tables: stored, bytes: input.bytesRead }
}

async function readSegment(
  part: Part,
  table: StateTable<unknown>,
  input: ChunkInput,
  record: ManifestRecord,
): Promise<StoredSegment> {
  if (part.kind !== 'stream' || part.content.kind !== 'chunks') {
    throw damaged(record, `has a part ${part.name} that is no table`)
  }
  const refs = await input.streamRefs(part.content, part.name)
  const frames = new Frames()
  let size = 0
  for await (const piece of input.readPlain(refs, part.name)) {
    size += piece.length
    frames.add(piece)
    for (let block = frames.take(); block; block = frames.take()) {
      table.load(unpackBlock(input.io.codec.decode(block)))
    }
  }
  if (size !== part.content.size || !frames.isEmpty) throw damaged(record, `has a part ${part.name} that is cut short`)
  return { refs, size }
}

/** Blocks out of the pieces in which they were stored. A large block lies in several chunks. */
class Frames {
  #rest = new Uint8Array()

  get isEmpty(): boolean {
    return this.#rest.length === 0
  }

  add(piece: Uint8Array): void {
    if (this.#rest.length === 0) {
      this.#rest = new Uint8Array(piece)
      return
    }
    const joined = new Uint8Array(this.#rest.length + piece.length)
    joined.set(this.#rest)
    joined.set(piece, this.#rest.length)
    this.#rest = joined
  }

  take(): Uint8Array | null {
    const rest = this.#rest
    if (rest.length < 4) return null
    const size = new DataView(rest.buffer, rest.byteOffset).getUint32(0, true)
    if (rest.length < 4 + size) return null
    this.#rest = rest.subarray(4 + size)
    return rest.subarray(4, 4 + size)
  }
}

function damaged(record: ManifestRecord, what: string): RepriseError {
  return new RepriseError('CHECKPOINT_DAMAGED', `checkpoint ${record.id} ${what}`, { id: record.id })
}
