// Reads a checkpoint of a pipeline: its header, and the tables of its operators, block by block, into the tables of the flow.
// Every chunk is verified against its digest before it is decoded.

import type { Part } from '../../../core/checkpoint/manifest.ts'
import { RepriseError } from '../../../core/errors.ts'
import { groupOf, ownerOf, type PipelineKey } from '../../../core/key-groups.ts'
import type { ManifestRecord } from '../../../core/store/ports.ts'
import { readManifest } from '../../../engine/history/recover.ts'
import type { StateIo } from '../../../engine/model/state-io.ts'
import { stateIo } from '../../../engine/snapshot/kernel-io.ts'
import { ChunkInput } from '../../../engine/snapshot/restore-input.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import { everyInstanceHas } from '../operator.ts'
import { unpackBlock } from '../rules/state-block.ts'
import type { StateBlock } from '../rules/state-capture.ts'
import { StateTable } from '../rules/state-table.ts'
import type { StoredSegment, StoredTable } from './checkpoint-writer.ts'
import { type NamedTable, partName } from './named-table.ts'
import type { PipelineState } from './state.ts'

export async function readHeader(kernel: Kernel, record: ManifestRecord): Promise<PipelineState> {
  return await headerIn(record, readManifest(kernel, record).parts, stateIo(kernel))
}

async function headerIn(record: ManifestRecord, parts: readonly Part[], io: StateIo): Promise<PipelineState> {
  const main = parts.find(({ name }) => name === null)
  if (main?.kind !== 'value') throw damaged(record, 'has no header')
  const { plain } = await new ChunkInput(io).readContent(main.content, null)
  const { value } = io.codec.decode(plain) as { readonly value: PipelineState }
  if (value.format !== 1 && value.format !== 2) {
    const what = `checkpoint ${record.id} is of format ${value.format}, which this version does not support`
    throw new RepriseError('INCOMPATIBLE_VERSION', what, { format: value.format })
  }
  // Checkpoints without a parallelism had one instance of each operator.
  return { ...value, parallelism: value.parallelism ?? 1 }
}

/** Fills the tables; those without a part stay empty. `storedAs` returns the operator's name in the checkpoint. */
export async function readTables(
  kernel: Kernel,
  record: ManifestRecord,
  header: PipelineState,
  tables: readonly NamedTable[],
  storedAs: (operator: string) => string,
): Promise<{ readonly tables: ReadonlyMap<string, StoredTable>; readonly bytes: number }> {
  const reading: Reading = {
    ...{ record, header, parts: readManifest(kernel, record).parts },
    input: new ChunkInput(stateIo(kernel)),
  }
  const stored = new Map<string, StoredTable>()
  for (const group of groupsOf(tables)) {
    const { operator, name } = group[0]!
    const before = { operator: storedAs(operator), name }
    const count = storedInstances(header, before)
    if (count !== 0 && count !== group.length) {
      await rescale(reading, before, count, group)
      continue
    }
    for (const named of group) {
      const segments = await readTable(reading, partName({ ...before, index: named.index }), named.table)
      const { stored: cells } = header.tables[partName({ ...before, index: named.index })] ?? { stored: 0 }
      if (segments.length > 0) stored.set(partName(named), { segments, cells, keys: named.table.size })
    }
  }
  return { tables: stored, bytes: reading.input.bytesRead }
}

/** Every table of the checkpoint, one after another, as a restore reads it. CHECKPOINT_DAMAGED: a table lacks keys. */
export async function readWhole(
  record: ManifestRecord,
  { parts }: { readonly parts: readonly Part[] },
  io: StateIo,
): Promise<void> {
  const header = await headerIn(record, parts, io)
  const reading = { record, header, parts, input: new ChunkInput(io) }
  for (const name of Object.keys(header.tables)) await readTable(reading, name, new StateTable<unknown>())
}

interface Reading {
  readonly record: ManifestRecord
  readonly header: PipelineState
  readonly parts: readonly Part[]
  readonly input: ChunkInput
}

type TableName = Pick<NamedTable, 'operator' | 'name'>

/** Groups the instances of each table of an operator. */
function groupsOf(tables: readonly NamedTable[]): readonly NamedTable[][] {
  const groups = new Map<string, NamedTable[]>()
  for (const named of tables) {
    const name = partName({ ...named, index: null })
    groups.set(name, [...(groups.get(name) ?? []), named])
  }
  return [...groups.values()]
}

/** The number of instances in the checkpoint; 0: it does not have the table. */
function storedInstances({ tables }: PipelineState, before: TableName): number {
  if (tables[partName({ ...before, index: null })]) return 1
  let count = 0
  while (tables[partName({ ...before, index: count })]) count += 1
  return count
}

/** After a change of parallelism, every key is sent to the instance that owns its group. The next checkpoint is full. */
async function rescale(
  reading: Reading,
  before: TableName,
  count: number,
  group: readonly NamedTable[],
): Promise<void> {
  const { keyGroups } = reading.header
  const tables = group.map(({ table }) => table)
  for (let i = 0; i < count; i++) {
    const whole = new StateTable<unknown>()
    await readTable(reading, partName({ ...before, index: count === 1 ? null : i }), whole)
    for (const space of whole.spaces()) {
      for (const [key, value] of space.entries()) {
        if (before.name === everyInstanceHas) for (const table of tables) adoptHighest(table, space.id, key, value)
        else tables[ownerOf(groupOf(key, keyGroups), tables.length, keyGroups)]!.adopt(space.id, key, value)
      }
    }
  }
}

function adoptHighest(table: StateTable<unknown>, spaceId: number, key: PipelineKey, value: unknown): void {
  const held = table.get(table.space(spaceId), key)
  if (held === undefined || (value as number) > (held as number)) table.adopt(spaceId, key, value)
}

async function readTable(
  { record, header, parts, input }: Reading,
  name: string,
  table: StateTable<unknown>,
): Promise<StoredSegment[]> {
  const segments: StoredSegment[] = []
  const { cells, stored } = header.tables[name] ?? { cells: 0, stored: 0 }
  // The number of stored cells equals the number of keys: each key is stored once, and no key was deleted.
  const areDistinct = stored === cells
  for (let i = 0; ; i++) {
    const part = parts.find((each) => each.name === `${name}/${i}`)
    if (!part) break
    segments.push(await readSegment(part, (block) => table.load(block, areDistinct), input, record))
  }
  if (table.size !== cells) throw damaged(record, `has ${table.size} keys in ${name} where ${cells} were promised`)
  return segments
}

async function readSegment(
  part: Part,
  load: (block: StateBlock) => void,
  input: ChunkInput,
  record: ManifestRecord,
): Promise<StoredSegment> {
  if (part.kind !== 'stream' || part.content.kind !== 'chunks') {
    throw damaged(record, `has a part ${part.name} that is not a table`)
  }
  const refs = await input.streamRefs(part.content, part.name)
  const frames = new Frames()
  let size = 0
  for await (const piece of input.readPlain(refs, part.name)) {
    size += piece.length
    frames.add(piece)
    for (let block = frames.take(); block; block = frames.take()) {
      load(unpackBlock(input.io.codec.decode(block)))
    }
  }
  if (size !== part.content.size || !frames.isEmpty) throw damaged(record, `has a part ${part.name} that is cut short`)
  return { refs, size }
}

/** Reassembles blocks from their stored pieces. A large block spans several chunks. */
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
