// Tables of operators as a checkpoint names them, and the rule by which the next checkpoint writes one in full.

import type { StateCapture } from '../rules/state-capture.ts'
import type { StateTable } from '../rules/state-table.ts'

/** State of one operator, with its name in a checkpoint. */
export interface NamedTable {
  readonly operator: string
  readonly name: string
  /** The index among several instances of the operator, by key groups; null: there is one. */
  readonly index: number | null
  readonly table: StateTable<unknown>
}

export type TableName = Pick<NamedTable, 'operator' | 'name' | 'index'>

/** An encoded block of a capture, with its number of keys and of deletions. */
export interface EncodedBlock {
  readonly bytes: Uint8Array
  readonly keys: number
  readonly deleted: number
}

/** A capture in another thread, which encodes its blocks there. */
export interface DistantCapture extends Omit<StateCapture, 'next'> {
  /** The next block; undefined at the end. */
  pull(): Promise<EncodedBlock | undefined>
}

export interface CapturedTable extends TableName {
  readonly capture: StateCapture | DistantCapture
}

export const cellsPerBlock = 4096
/** A table is written in full when its blocks hold this many times the existing cells. */
const storedMax = 3
/** Smaller tables are exempt from that rule. */
const cellsFree = 1024

/** @example partName({ operator: 'per-minute', name: 'windows', index: 2 }) // 'per-minute/windows:2' */
export function partName({ operator, name, index }: TableName): string {
  return index === null ? `${operator}/${name}` : `${operator}/${name}:${index}`
}

/** Whether the next checkpoint writes this table in full. `storedCells`: the cells of its blocks; undefined: it has no blocks. */
export function isDueInFull(storedCells: number | undefined, { changed, size }: StateTable<unknown>): boolean {
  return storedCells === undefined || storedCells + changed > storedMax * size + cellsFree
}
