// A pipeline looked into from outside, running or not: what its newest checkpoint has. Takes no ownership and changes nothing.

import { RepriseError } from '../../../core/errors.ts'
import type { PipelineKey } from '../../../core/pipeline/key-groups.ts'
import { StateTable } from '../../../core/pipeline/state-table.ts'
import type { Head } from '../../../core/ports.ts'
import type { Engine } from '../../../engine/definition.ts'
import { type Host, hostOf } from '../../../engine/host.ts'
import { lettersOperator } from './flow.ts'
import { Letters, type PipelineLetter } from './letters.ts'
import { readHeader, readTables } from './restore.ts'

export interface PipelineCell {
  readonly table: string
  /** The start of its window; 0 where there is none. */
  readonly space: number
  readonly key: PipelineKey
  readonly value: unknown
}

/** Dead letters as of the newest checkpoint. */
export async function readPipelineLetters(
  engine: Host,
  { timeline }: Pick<Head, 'timeline'>,
): Promise<PipelineLetter[]> {
  const [record] = await engine.kernel.store.checkpoints(timeline)
  if (!record) return []
  const letters = new Letters(Number.POSITIVE_INFINITY)
  const named = { operator: lettersOperator, name: 'letters', index: null, table: letters.table as StateTable<unknown> }
  await readTables(engine.kernel, record, await readHeader(engine.kernel, record), [named], (name) => name)
  return letters.list()
}

/**
 * What an operator has of a key as of a checkpoint, the newest if left out: of a window, one cell per window that is open.
 * @example await readPipelineState(rp, 'pipeline/revenue', 'per-minute', 'ann')
 */
export async function readPipelineState(
  rp: Engine,
  timeline: string,
  operator: string,
  key: PipelineKey,
  options: { readonly checkpoint?: string } = {},
): Promise<PipelineCell[]> {
  const { kernel } = hostOf(rp)
  const head = await hostOf(rp).head(timeline)
  const records = head ? await kernel.store.checkpoints(head.timeline) : []
  const { checkpoint } = options
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
  return tables.flatMap(({ name, table }) =>
    [...table.spaces()].flatMap((space) => {
      const slot = space.slots.get(key)
      return slot === undefined
        ? []
        : [
            {
              table: header.parallelism > 1 ? name.replace(/:\d+$/, '') : name,
              space: space.id,
              key,
              value: space.values[slot],
            },
          ]
    }),
  )
}
