// Reads the newest checkpoint of a pipeline, running or not. Takes no ownership and changes nothing.

import { RepriseError } from '../../../core/errors.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { checkObject } from '../../../core/options.ts'
import type { Head } from '../../../core/store/ports.ts'
import { type Host, hostOf } from '../../../engine/host/host.ts'
import type { Engine } from '../../../engine/model/definition.ts'
import { isEqual } from '../../../lib/differences.ts'
import { StateTable } from '../rules/state-table.ts'
import { lettersOperator } from './flow.ts'
import { Letters, type PipelineLetter } from './letters.ts'
import { readHeader, readTables } from './restore.ts'

export interface PipelineCell {
  readonly table: string
  /** The start of its window; 0 without a window. */
  readonly space: number
  readonly key: PipelineKey
  readonly value: unknown
}

/** The dead letters in the newest checkpoint. */
export async function readPipelineLetters(
  engine: Host,
  { timeline }: Pick<Head, 'timeline'>,
): Promise<PipelineLetter[]> {
  const [record] = await engine.catalogOf(timeline)
  if (!record) return []
  const letters = new Letters(Number.POSITIVE_INFINITY)
  const named = { operator: lettersOperator, name: 'letters', index: null, table: letters.table as StateTable<unknown> }
  await readTables(engine.kernel, record, await readHeader(engine.kernel, record), [named], (name) => name)
  return letters.list()
}

/**
 * An operator's state of a key in a checkpoint (default: the newest). A window operator has one cell per open window.
 * @example await readPipelineState(rp, 'pipeline/revenue', 'per-minute', 'ann')
 */
export async function readPipelineState(
  rp: Engine,
  timeline: string,
  operator: string,
  key: PipelineKey,
  options: { readonly checkpoint?: string } = {},
): Promise<PipelineCell[]> {
  checkObject('the options of readPipelineState()', options)
  return await cellsOf(rp, timeline, operator, options.checkpoint, key)
}

/** A cell in two checkpoints. Undefined: the checkpoint does not have it. */
export interface PipelineCellChange extends Omit<PipelineCell, 'value'> {
  readonly before: unknown
  readonly after: unknown
}

/**
 * The differences between two checkpoints in the state of an operator, by key (default: all keys). The pipeline may be running.
 * @example await comparePipelineState(rp, 'pipeline/revenue', 'per-minute', { before: first, key: 'ann' })
 */
export async function comparePipelineState(
  rp: Engine,
  timeline: string,
  operator: string,
  options: { readonly before: string; readonly after?: string; readonly key?: PipelineKey },
): Promise<PipelineCellChange[]> {
  checkObject('the options of comparePipelineState()', options)
  const place = ({ table, space, key }: PipelineCell) => JSON.stringify([table, space, key])
  const was = await cellsOf(rp, timeline, operator, options.before, options.key)
  const is = new Map(
    (await cellsOf(rp, timeline, operator, options.after, options.key)).map((cell) => [place(cell), cell]),
  )
  const dataOf = (value: object) => hostOf(rp).codec.dataOf(value)
  const changes: PipelineCellChange[] = []
  for (const cell of was) {
    const after = is.get(place(cell))
    is.delete(place(cell))
    const { value: before, ...where } = cell
    if (!after || !isEqual(before, after.value, { dataOf })) changes.push({ ...where, before, after: after?.value })
  }
  for (const { value: after, ...where } of is.values()) changes.push({ ...where, before: undefined, after })
  return changes
}

/** `key` undefined: all keys. */
async function cellsOf(
  rp: Engine,
  timeline: string,
  operator: string,
  checkpoint: string | undefined,
  key: PipelineKey | undefined,
): Promise<PipelineCell[]> {
  const { kernel } = hostOf(rp)
  const head = await hostOf(rp).head(timeline)
  const records = head ? await kernel.store.checkpoints(head.timeline) : []
  const record = checkpoint === undefined ? records[0] : records.find(({ id }) => id === checkpoint)
  if (!record) {
    const what = `${timeline} has no checkpoint${checkpoint === undefined ? '' : ` ${checkpoint}`}`
    throw new RepriseError('NOT_FOUND', what, { timeline })
  }
  const header = await readHeader(kernel, record)
  const names = Object.keys(header.tables).filter((name) => name.slice(0, name.indexOf('/')) === operator)
  if (names.length === 0) {
    const known = Object.keys(header.operators).join(', ') || 'none'
    throw new RepriseError('NOT_FOUND', `${timeline} has no operator ${operator} with state; it has: ${known}`, {
      operator,
    })
  }
  const tables = names.map((name) => ({
    operator,
    name: name.slice(operator.length + 1),
    index: null,
    table: new StateTable<unknown>(),
  }))
  await readTables(kernel, record, header, tables, (name) => name)
  const cells: PipelineCell[] = []
  for (const { name, table: held } of tables) {
    const table = header.parallelism > 1 ? name.replace(/:\d+$/, '') : name
    for (const space of held.spaces()) {
      for (const each of key === undefined ? space.slots.keys() : [key]) {
        const slot = space.slots.get(each)
        if (slot !== undefined) cells.push({ table, space: space.id, key: each, value: space.values[slot] })
      }
    }
  }
  return cells
}
