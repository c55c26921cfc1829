// The encoding of a block of state. Columns of numbers, which keys and counts often are, become one typed array: a tenth of the
// work for writing and reading. This form is part of the stored format.

import { RepriseError } from '../../../core/errors.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import type { StateBlock } from './state-capture.ts'

export type Column<T> = readonly T[] | Float64Array

/** [dropped spaces, space, keys, values, deleted keys] */
export type PackedBlock = readonly [
  readonly number[],
  number,
  Column<PipelineKey>,
  Column<unknown>,
  Column<PipelineKey>,
]

/** @example unpackBlock(packBlock(block)) */
export function packBlock({ dropped, space, keys, values, deleted }: StateBlock): PackedBlock {
  return [dropped, space, column(keys), column(values), column(deleted)]
}

export function unpackBlock(packed: unknown): StateBlock {
  if (!Array.isArray(packed) || packed.length !== 5) throw malformed()
  const [dropped, space, keys, values, deleted] = packed as unknown as PackedBlock
  if (!Array.isArray(dropped) || typeof space !== 'number' || keys.length !== values.length) throw malformed()
  return { dropped, space, keys: list(keys), values: list(values), deleted: list(deleted) }
}

/** A column of numbers as one typed array; a short or mixed column unchanged. */
export function column<T>(items: readonly T[]): Column<T> {
  if (items.length < 8) return items
  for (let i = 0; i < items.length; i++) if (typeof items[i] !== 'number') return items
  return Float64Array.from(items as readonly number[])
}

/** The items of a column. */
export function list<T>(items: Column<T>): readonly T[] {
  return items instanceof Float64Array ? (Array.from(items) as T[]) : items
}

function malformed(): RepriseError {
  return new RepriseError('MALFORMED', 'the bytes are not a block of state')
}
