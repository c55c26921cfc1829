// An operator as the flow holds it: batches and watermarks in, batches and watermarks out, and the tables that a
// checkpoint must contain. Its name is the identity of its state.

import type { PipelineKey } from '../../core/key-groups.ts'
import type { Clock, Random } from '../../core/store/ports.ts'
import type { RunTrace } from '../../engine/base/tracing.ts'
import type { Batch, Output } from './batch.ts'
import type { StateTable } from './rules/state-table.ts'
import type { SinkContext } from './sink.ts'

export interface Operator {
  /** One per stream that flows into it. Further ones only get records that are sent back. */
  readonly inputs: readonly Output[]
  /** Takes records of several inputs in one batch, with the input of each. Left out: each input gets its own batches. */
  mixed?(batch: Batch, inputs: readonly number[]): void
  /** By name within the operator. Empty: it keeps nothing. */
  readonly tables: ReadonlyMap<string, StateTable<unknown>>
  /**
   * The lowest watermark above this one at which the operator gives something or treats a record otherwise. Sources send
   * their watermark there, and before every late record, so that results do not depend on how records are batched. Left
   * out: watermarks only pass.
   */
  dueAbove?(watermark: number): number
  /** Called when the tables were filled from a checkpoint, before the first batch. */
  restored?(): void
  /** Called now and then with the time of the clock, also when no record comes. */
  tick?(now: number): void
  /** Records that are inside and will come out without a further input: calls under way. */
  inFlight?(): number
  /** The flow ends: whatever is under way may be given up. */
  stop?(): void
}

export type TimedOperator = Operator & Required<Pick<Operator, 'dueAbove'>>

/** What an operator may ask of the flow. */
export interface OperatorContext {
  /** Of the operator: the identity of its state, and of its dead letters. */
  readonly name: string
  /** Of the run. */
  readonly pipeline: string
  readonly clock: Clock
  readonly random: Random
  /** The run that it belongs to, where somebody traces. */
  readonly trace?: RunTrace | null
  /** Where records come from, where the pipeline has operators or sinks with keys. */
  readonly origins?: OperatorOrigins | null
  /** What the operator's node opens; null: nothing. All instances share it. */
  readonly resource: OperatorResource | null
  /** A record that cannot be processed, or not now (`RetryLater`): kept aside with the reason, and the rest goes on. */
  poison(record: PoisonRecord, error: unknown): void
  /** Records that came too late and went nowhere. */
  late(count: number): void
  /** No more records may come from the sources until this settles. */
  wait(until: Promise<unknown>): void
  /** Something happened outside of a batch: whoever waits for the end looks again. */
  wake(): void
  /** The run cannot go on. */
  fail(error: unknown): void
}

/** Something outside that is open while the pipeline runs. It is no part of a checkpoint. */
export interface OperatorResource {
  close(): void
}

/** Where a record that arrived at an operator came from. Stored with records that are under way or set aside. */
export interface RecordOrigin {
  readonly cause: string
  readonly path: string
  readonly isTimed: boolean
  /** How many equal ones arrived from the same cause before it. */
  readonly times: number
}

export interface OperatorOrigins extends NonNullable<SinkContext['origins']> {
  /** Of a record that arrives now. */
  originOf(name: string, record: PoisonRecord): RecordOrigin
  /** The key of a record that arrived from there. */
  keyFrom(origin: RecordOrigin, name: string, record: PoisonRecord): string
}

export interface PoisonRecord {
  readonly value: unknown
  readonly time: number | null
  readonly key: PipelineKey | null
  /** Which input of the operator gets it when it is sent back; the first if left out. */
  readonly input?: number
  /** Where it comes from; left out: the flow knows it, while the record is under way. */
  readonly origin?: RecordOrigin
}

export function recordOf({ values, times, keys }: Batch, i: number, input = 0): PoisonRecord {
  const record = { value: values[i], time: times?.[i] ?? null, key: keys?.[i] ?? null }
  return input === 0 ? record : { ...record, input }
}

/** A batch of this record alone. */
export function batchOf({ value, time, key }: PoisonRecord): Batch {
  return { values: [value], times: time === null ? null : [time], keys: key === null ? null : [key] }
}

/** The first output is that of the stream, further ones are side outputs. */
export interface MakeOperator {
  (outputs: readonly Output[], context: OperatorContext): Operator
  /** Results that it gives during a batch have the `order` of the records that they come from. Default: false. */
  readonly keepsOrder?: boolean
}

/** Branches with this operator get whole batches although they meet again (branches.ts). */
export function keepsOrder(make: MakeOperator): MakeOperator {
  return Object.assign(make, { keepsOrder: true })
}

const noTables: ReadonlyMap<string, StateTable<unknown>> = new Map()

/** An operator that keeps nothing. */
export function stateless(input: Output): Operator {
  return { inputs: [input], tables: noTables }
}

/**
 * The table of this name is not divided by keys: each instance has the same, how far its watermark has come. Divided anew,
 * all get the highest.
 */
export const everyInstanceHas = 'progress'

/** For the map of tables, where the type of what a table holds no longer matters. */
export function tablesOf(tables: Readonly<Record<string, unknown>>): Operator['tables'] {
  return new Map(Object.entries(tables) as [string, StateTable<unknown>][])
}
