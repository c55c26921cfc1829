// The operator as the flow uses it: batches and watermarks in, batches and watermarks out, and the tables that a checkpoint
// must contain. An operator's name is the identity of its state.

import type { PipelineKey } from '../../core/key-groups.ts'
import type { Clock, Random } from '../../core/store/ports.ts'
import type { LogPlace } from '../../engine/base/log.ts'
import type { RunTrace } from '../../engine/base/tracing.ts'
import type { Batch, Output } from './batch.ts'
import type { StateTable } from './rules/state-table.ts'
import type { SinkContext } from './sink.ts'

export interface Operator {
  /** One per incoming stream. Further inputs get only records that are sent back. */
  readonly inputs: readonly Output[]
  /** Takes records of several inputs in one batch, with the input of each. Default: each input gets its own batches. */
  mixed?(batch: Batch, inputs: readonly number[]): void
  /** The tables by name within the operator. Empty: the operator has no state. */
  readonly tables: ReadonlyMap<string, StateTable<unknown>>
  /**
   * The lowest watermark above this one at which the operator emits something or treats a record differently. Sources send
   * their watermark there, and before every late record, so that results do not depend on how records are batched.
   * Default: watermarks only pass through.
   */
  dueAbove?(watermark: number): number
  /** True: the result of `dueAbove` depends on the state. */
  readonly isDueByState?: boolean
  /** The flow calls this after the tables were filled from a checkpoint, before the first batch. */
  restored?(): void
  /** The flow calls this periodically with the clock time, even without records. */
  tick?(now: number): void
  /** The number of records inside that will be emitted without further input: calls in progress. */
  inFlight?(): number
  /** The flow ends: work in progress may be abandoned. */
  stop?(): void
}

export type TimedOperator = Operator & Required<Pick<Operator, 'dueAbove'>>

/** The services of the flow that an operator may use. */
export interface OperatorContext {
  /** The operator's name: the identity of its state and of its dead letters. */
  readonly name: string
  /** The name of the run. */
  readonly pipeline: string
  readonly clock: Clock
  readonly random: Random
  /** The trace of the run, if tracing is on. */
  readonly trace?: RunTrace | null
  /** The origins of records, if the pipeline has operators or sinks with keys. */
  readonly origins?: OperatorOrigins | null
  /** The resource that the operator's node opens; null: no resource. All instances share it. */
  readonly resource: OperatorResource | null
  /** Sets aside, with the reason, a record that cannot be processed, or not now (`RetryLater`); other records continue. */
  poison(record: PoisonRecord, error: unknown): void
  /** Counts records that were too late and were dropped. */
  late(count: number): void
  /** Holds back all sources until the promise settles. */
  wait(until: Promise<unknown>): void
  /** Something happened outside of a batch: code that waits for the end must check again. */
  wake(): void
  /** Fails the run. */
  fail(error: unknown): void
}

/** An outside resource that is open while the pipeline runs. It is not part of a checkpoint. */
export interface OperatorResource {
  close(): void
}

/** The origin of a record that arrived at an operator. It is stored with records that are in progress or set aside. */
export interface RecordOrigin {
  readonly cause: string
  readonly path: string
  readonly isTimed: boolean
  /** The number of equal records that arrived from the same cause before it. */
  readonly times: number
}

export interface OperatorOrigins extends NonNullable<SinkContext['origins']> {
  /** The origin of the current record. */
  originOf(name: string, record: PoisonRecord): RecordOrigin
  /** The key of a record with this origin. */
  keyFrom(origin: RecordOrigin, name: string, record: PoisonRecord): string
}

export interface PoisonRecord {
  readonly value: unknown
  readonly time: number | null
  readonly key: PipelineKey | null
  /** The index of the operator's input for the record when it is sent back. Default: 0. */
  readonly input?: number
  /** The record's origin. Default: the origin that the flow holds while the record is in progress. */
  readonly origin?: RecordOrigin
}

export function recordOf({ values, times, keys }: Batch, i: number, input = 0): PoisonRecord {
  const record = { value: values[i], time: times?.[i] ?? null, key: keys?.[i] ?? null }
  return input === 0 ? record : { ...record, input }
}

/** A batch with only this record. */
export function batchOf({ value, time, key }: PoisonRecord): Batch {
  return { values: [value], times: time === null ? null : [time], keys: key === null ? null : [key] }
}

/** The first output is the stream itself; further ones are side outputs. */
export interface MakeOperator {
  (outputs: readonly Output[], context: OperatorContext): Operator
  /** True: results emitted during a batch carry the `order` of the records that caused them. Default: false. */
  readonly keepsOrder?: boolean
}

/** Marks an operator so that branches with it get whole batches although they meet again (branches.ts). */
export function keepsOrder(make: MakeOperator): MakeOperator {
  return Object.assign(make, { keepsOrder: true })
}

const noTables: ReadonlyMap<string, StateTable<unknown>> = new Map()

/** An operator without state. */
export function stateless(input: Output): Operator {
  return { inputs: [input], tables: noTables }
}

/**
 * The name of the table that is not partitioned by key: it holds the watermark of an instance. When state is repartitioned, all
 * instances get the highest watermark.
 */
export const everyInstanceHas = 'progress'

/** Builds the map of tables and erases the type of their values. */
export function tablesOf(tables: Readonly<Record<string, unknown>>): Operator['tables'] {
  return new Map(Object.entries(tables) as [string, StateTable<unknown>][])
}

/** In `process`, one context serves all records, so the key is read when a line is logged. */
export const recordPlace: LogPlace = {
  fields: ({
    pipeline,
    operator,
    key,
    attempt,
  }: {
    pipeline: string
    operator: string
    key: unknown
    attempt?: number
  }) => ({
    pipeline,
    operator,
    key,
    ...(attempt !== undefined && { attempt }),
  }),
}
