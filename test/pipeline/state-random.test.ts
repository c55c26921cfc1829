// State through the real writer and reader of checkpoints: with changes before, during and after the write, whether the
// checkpoint is published, fails or is called off, and with any number of instances afterwards, a restore returns the state at
// the barrier.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { groupOf, ownerOf, type PipelineKey } from '../../src/core/key-groups.ts'
import type { ManifestRecord } from '../../src/core/store/ports.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { ChunkHold } from '../../src/engine/storage/chunk-hold.ts'
import type { Kernel } from '../../src/engine/storage/kernel.ts'
import { StateTimeline } from '../../src/engine/writing/state-timeline.ts'
import { open } from '../../src/index.ts'
import type { StateCapture } from '../../src/layers/pipeline/rules/state-capture.ts'
import { StateTable } from '../../src/layers/pipeline/rules/state-table.ts'
import { type CheckpointBase, writeState } from '../../src/layers/pipeline/run/checkpoint-writer.ts'
import {
  type CapturedTable,
  isDueInFull,
  type NamedTable,
  partName,
} from '../../src/layers/pipeline/run/named-table.ts'
import { readHeader, readTables } from '../../src/layers/pipeline/run/restore.ts'
import { emptyState, pipelineVersion } from '../../src/layers/pipeline/run/state.ts'

type Contents = Readonly<Record<string, unknown>>

function instances(count: number): NamedTable[] {
  return Array.from({ length: count }, (_, i) => ({
    ...{ operator: 'op', name: 'cells', index: count === 1 ? null : i },
    table: new StateTable<unknown>(),
  }))
}

function contentsOf(tables: readonly NamedTable[]): Contents {
  const all: Record<string, unknown> = {}
  for (const { table } of tables) {
    for (const space of table.spaces()) for (const [key, value] of space.entries()) all[`${space.id}/${key}`] = value
  }
  return all
}

/** Returns small blocks, and calls a hook before each. */
function interrupted(capture: StateCapture, meanwhile: () => void): StateCapture {
  return {
    ...{ isFull: capture.isFull, size: capture.size, builtOn: capture.builtOn, promised: capture.promised },
    next: () => {
      meanwhile()
      return capture.next(2)
    },
    publish: () => capture.publish(),
    abandon: () => capture.abandon(),
  }
}

/** The calls of a run on its tables. */
class World {
  readonly #kernel: Kernel
  readonly #taken: StateTimeline
  tables = instances(1)
  #base: CheckpointBase | null = null
  #record: ManifestRecord | null = null
  #published: Contents = {}

  constructor(kernel: Kernel, taken: StateTimeline) {
    this.#kernel = kernel
    this.#taken = taken
  }

  change({ space, key, value }: Change): void {
    const count = this.tables.length
    const { table } = this.tables[ownerOf(groupOf(key, emptyState.keyGroups), count, emptyState.keyGroups)]!
    if (value === 'drop') for (const each of this.tables) dropSpace(each.table, space)
    else if (value === null) table.delete(table.space(space), key)
    else table.set(table.space(space), key, value)
  }

  async checkpoint(beside: readonly Change[], end: End): Promise<void> {
    const later = [...beside]
    const next = () => {
      const due = later.shift()
      if (due) this.change(due)
    }
    const base = this.#base
    const atBarrier = contentsOf(this.tables)
    const captures = this.tables.map(
      (each): CapturedTable => ({
        ...each,
        capture: interrupted(
          each.table.capture(isDueInFull(base?.tables.get(partName(each))?.cells, each.table)),
          next,
        ),
      }),
    )
    const hold = await ChunkHold.begin(this.#kernel)
    try {
      const written = await writeState(this.#kernel, hold, captures, base, async (tables) => {
        if (end === 'fails') throw new Error('the sink is away')
        const entries = [...tables].map(([name, { cells, keys }]) => [name, { stored: cells, cells: keys }])
        return { ...emptyState, parallelism: this.tables.length, tables: Object.fromEntries(entries) }
      })
      for (const each of later) this.change(each)
      if (end === 'called off') {
        for (const { capture } of captures) capture.abandon()
        return
      }
      const { parts, totalBytes, addedBytes, addedChunks } = written
      this.#record = await this.#taken.publish({
        ...{ entry: { type: 'checkpoint', data: null }, foldVersion: pipelineVersion, baseId: base?.id ?? null },
        ...{ parts, totalBytes, addedBytes, addedChunks, hold, trigger: 'time' },
      })
      for (const { capture } of captures) capture.publish()
      this.#base = { id: this.#record.id, tables: written.tables }
      this.#published = atBarrier
    } catch (error) {
      if (end !== 'fails') throw error
      for (const { capture } of captures) capture.abandon()
      this.#base = null
    } finally {
      hold.end()
    }
    await this.#read(this.tables.length)
  }

  /** A kill: the last published state counts. */
  async restart(parallelism: number): Promise<void> {
    const { tables, base } = await this.#read(parallelism)
    this.tables = tables
    this.#base = base
  }

  async #read(parallelism: number): Promise<{ tables: NamedTable[]; base: CheckpointBase | null }> {
    const tables = instances(parallelism)
    const record = this.#record
    if (!record) return { tables, base: null }
    const header = await readHeader(this.#kernel, record)
    const read = await readTables(this.#kernel, record, header, tables, (name) => name)
    expect(contentsOf(tables)).toEqual(this.#published)
    return { tables, base: { id: record.id, tables: read.tables } }
  }
}

function dropSpace(table: StateTable<unknown>, id: number): void {
  const space = table.peekSpace(id)
  if (space) table.drop(space)
}

interface Change {
  readonly space: number
  readonly key: PipelineKey
  /** Null: it is deleted; drop: all of its space is. */
  readonly value: number | null | 'drop'
}

type End = 'is published' | 'fails' | 'called off'

const change: fc.Arbitrary<Change> = fc.record({
  space: fc.nat(1),
  key: fc.oneof(fc.nat(8), fc.constantFrom('a', 'b')),
  value: fc.oneof(
    { weight: 5, arbitrary: fc.nat(99) },
    { weight: 4, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.constant('drop' as const) },
  ),
})
const changes = fc.array(change, { maxLength: 8, size: 'max' })
const end = fc.constantFrom<End>('is published', 'is published', 'is published', 'fails', 'called off')
const step = fc.record({
  before: changes,
  beside: changes,
  end,
  restart: fc.option(fc.integer({ min: 1, max: 3 }), { freq: 3 }),
})

it('comes back as it was at the barrier, whatever happens while it is written', async () => {
  const rp = await open('memory:')
  const { kernel } = hostOf(rp)
  let runs = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 10, size: 'max' }), async (steps) => {
      const taken = await StateTimeline.take(kernel, timelineId(`pipeline/${runs++}`))
      const world = new World(kernel, taken)
      for (const { before, beside, end, restart } of steps) {
        for (const each of before) world.change(each)
        await world.checkpoint(beside, end)
        if (restart !== null) await world.restart(restart)
      }
      await world.checkpoint([], 'is published')
      await taken.release()
    }),
    { numRuns: 25 },
  )
  await rp.close()
})

it('is not published without the state at its barrier, or on another base', async () => {
  const rp = await open('memory:')
  const { kernel } = hostOf(rp)
  const [named] = instances(1)
  const { table } = named!
  const write = async (lie: Partial<StateCapture>, base: CheckpointBase | null) => {
    const capture = table.capture(base === null)
    const hold = await ChunkHold.begin(kernel)
    const told = { ...interrupted(capture, () => undefined), ...lie }
    try {
      const written = await writeState(kernel, hold, [{ ...named!, capture: told }], base, async () => emptyState)
      capture.publish()
      return { id: '', tables: written.tables } as unknown as CheckpointBase
    } finally {
      capture.abandon()
      hold.end()
    }
  }
  for (let i = 0; i < 9; i++) table.set(table.space(0), i, i)
  await expect(write({ promised: { keys: 10, deleted: 0 } }, null)).rejects.toMatchObject({
    code: 'BUG',
    message: expect.stringContaining('op/cells has 10 keys and 0 deletions to write, and wrote 9 and 0'),
  })
  const base = await write({}, null)
  table.delete(table.space(0), 3)
  await expect(write({ promised: { keys: 0, deleted: 0 } }, base)).rejects.toMatchObject({ code: 'BUG' })
  await expect(write({ builtOn: 8 }, base)).rejects.toMatchObject({
    code: 'BUG',
    message: expect.stringContaining('op/cells builds on 8 keys, and its base has 9'),
  })
  // Unpublished changes are part of the next capture.
  expect((await write({}, base)).tables.get('op/cells')).toMatchObject({ keys: 8, cells: 10 })
  await rp.close()
})
