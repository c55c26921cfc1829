// A durable keyed map: get, set, ranges in key order, transactions over many keys, secondary indexes, rows that expire. One
// timeline per table (table/<name>), or one per tenant (table/<name>/<id>).

import { type CheckpointPolicy, checkPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import { type RetentionPolicy, resolveRetention } from '../../core/checkpoint/retention.ts'
import { timelineId } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import type { Validity } from '../../core/history/validity.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { checkFunctionMap, checkFunctions } from '../../core/synchronous.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import {
  checkName,
  type Engine,
  type Entity,
  type Fold,
  type OpenOptions,
  opens,
} from '../../engine/model/definition.ts'
import { type Described, describes, idOf } from '../../engine/model/model.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { TableHandle, type TableModel } from './handle.ts'
import type { IndexFunction } from './indexes.ts'
import { tablePrefix } from './layout.ts'
import { checkIsTable, tableModel, usualPolicy } from './model.ts'
import { TableStandby } from './standby.ts'
import { applyEntry, initialState, type TableState } from './state.ts'
import { type RowMigrations, rowVersions } from './versions.ts'

export interface TableOptions<V> {
  readonly indexes?: Readonly<Record<string, IndexFunction<V>>>
  /** Version of the rows: raise it when their shape changes, and add a migration for older ones to `migrations`. Default: 1. */
  readonly version?: number
  /** By older version: converts a row to the current one. @example { 1: (row: { name: string }) => ({ names: [row.name] }) } */
  readonly migrations?: RowMigrations<V>
  /** Time until a row expires, unless `set` overrides it. */
  readonly ttl?: Duration
  /** Default: after 10,000 entries, or when recovery would take longer than two seconds. */
  readonly checkpoint?: CheckpointPolicy
  /** Default: two checkpoints, and the history that they need. */
  readonly retain?: RetentionPolicy
  /** Checks the rows for consistency (true, false, or the reason): called before a capture and after a restore. */
  readonly valid?: Validity<RowsView<V>>
}

/** A read-only view of the rows. */
export interface RowsView<V> {
  readonly size: number
  get(key: string): V | undefined
  has(key: string): boolean
  entries(): Iterable<readonly [string, V]>
  values(): Iterable<V>
}

export interface TableDefinition<V> extends Entity<TableHandle<V>>, Described {
  readonly kind: 'table'
  readonly name: string
  readonly prefix: string
  readonly fold: Fold<TableState<V>>
  readonly model: TableModel<V>
  /** Follows the table without owning it, ready to take over. */
  standby(rp: Engine, id?: string): Promise<TableStandby<V>>
}

export const tableOptions = namesOf<TableOptions<unknown>>()('indexes version migrations ttl checkpoint retain valid')

/** @example const sessions = await rp.open(table<{ user: string }>('sessions')) */
export function table<V>(name: string, options: TableOptions<V> = {}): TableDefinition<V> {
  checkName('table', name)
  const { fold, model } = tableParts(name, options)
  const prefix = `${tablePrefix}${name}`
  const described = tableModel(name, prefix, fold as Fold<never>)
  // Handles of one open table share its indexes and its queue.
  const shared = new WeakMap<object, TableHandle<V>>()
  return {
    [describes]: described,
    kind: 'table',
    name,
    prefix,
    fold,
    model,
    async standby(rp, id) {
      const engine = hostOf(rp)
      engine.declare(described)
      checkIsTable(engine, idOf(prefix, id))
      const replica = await engine.follow(this, id)
      return new TableStandby(engine, replica, (open) => handleOf(engine, model, open, shared))
    },
    async [opens](engine: Host, id: string | undefined, open: OpenOptions) {
      engine.declare(described)
      checkIsTable(engine, idOf(prefix, id))
      return await openTable(engine, idOf(prefix, id), fold, model, open, shared)
    },
  }
}

export async function openTable<V>(
  engine: Host,
  id: string,
  fold: Fold<TableState<V>>,
  model: TableModel<V>,
  options: OpenOptions,
  shared: WeakMap<object, TableHandle<V>>,
): Promise<TableHandle<V>> {
  return await handleOf(engine, model, await engine.openTimeline(timelineId(id), fold, options), shared)
}

/** One handle per open table in this process: two would miss each other's writes. */
export async function handleOf<V>(
  engine: Host,
  model: TableModel<V>,
  opened: OpenTimeline<TableState<V>>,
  shared: WeakMap<object, TableHandle<V>>,
): Promise<TableHandle<V>> {
  const held = shared.get(opened)
  if (held) return held.share()
  const handle = new TableHandle(engine.kernel, model, opened)
  shared.set(opened, handle)
  await handle.recover()
  return handle
}

export function tableParts<V>(name: string, options: TableOptions<V>) {
  checkOptions(`table ${name}`, options, tableOptions)
  checkFunctions(`table ${name}`, options, [], ['valid'])
  checkFunctionMap(`table ${name}: indexes`, options.indexes ?? {})
  if (options.checkpoint) checkPolicy(options.checkpoint)
  if (options.retain) resolveRetention(options.retain)
  const versions = rowVersions(name, options.version, options.migrations)
  const fold: Fold<TableState<V>> = {
    ...versions.fold,
    initial: initialState<V>,
    apply: applyEntry,
    checkpoint: options.checkpoint ?? usualPolicy.checkpoint,
    retain: options.retain ?? usualPolicy.retain,
    valid: options.valid && (({ rows }) => options.valid!(rows)),
  }
  const model: TableModel<V> = {
    name,
    ttlMs: options.ttl === undefined ? undefined : toMs(options.ttl, 'ttl'),
    indexes: options.indexes ?? {},
  }
  return { fold, model, versions }
}
