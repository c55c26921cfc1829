// A state store in partitions: each is a table with its own timeline, owner, changelog and checkpoints, so several processes
// share a store, and one that dies affects only its own partitions. A key is always in the same partition, and a transaction
// is limited to one.

import { ignoring, isReprise, RepriseError } from '../../core/errors.ts'
import type { KeyedRange } from '../../core/keyed-state/keyed.ts'
import { checkGivenOptions, checkObject, checkOptions, namesOf } from '../../core/options.ts'
import { checkFunction } from '../../core/synchronous.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import {
  checkName,
  type Engine,
  type Entity,
  type Fold,
  type OpenOptions,
  openOptions,
  opens,
} from '../../engine/model/definition.ts'
import { type Described, describes } from '../../engine/model/model.ts'
import { forgetGeneration } from '../../engine/tools/generations.ts'
import type { TableHandle } from './handle.ts'
import {
  catalogOf,
  checkIsPartition,
  confirmLive,
  type Layout,
  layoutFor,
  noteCount,
  partitionOf,
  partitionTimeline,
} from './layout.ts'
import { partitionModel } from './model.ts'
import { type RescaleOptions, rescale } from './rescale.ts'
import { type HandleOf, TableStandby } from './standby.ts'
import type { TableState } from './state.ts'
import { handleOf, openTable, type TableOptions, tableOptions, tableParts } from './table.ts'
import type { SetOptions, Transaction } from './transaction.ts'

export interface StateStoreOptions<V> extends TableOptions<V> {
  /**
   * Number of partitions; recorded when the first one is opened. Another number is refused until `rescale` has moved the
   * rows, because keys would be looked up in the wrong partitions.
   */
  readonly partitions: number
}

export interface StoreDefinition<V> extends Entity<PartitionedStore<V>, undefined>, Described {
  readonly kind: 'state-store'
  readonly name: string
  readonly partitions: number
  readonly fold: Fold<TableState<V>>
  /** The partition of a key. */
  partitionOf(key: string): number
  /** Opens one partition and takes ownership of it. */
  partition(rp: Engine, partition: number, options?: OpenOptions): Promise<TableHandle<V>>
  /** Follows one partition, ready to take over. */
  standby(rp: Engine, partition: number): Promise<TableStandby<V>>
  /**
   * Moves the rows into the number of partitions of this definition. Other processes read and write the old partitions
   * meanwhile; at the end those are closed to writers (FENCED, then refused) and removed. An interrupted rescale is resumed.
   * @example await stateStore<number>('counts', { partitions: 16 }).rescale(rp)
   * /
   */
  rescale(rp: Engine, options?: RescaleOptions): Promise<void>
}

const storeOptions = new Set([...tableOptions, 'partitions'])
const knownRescale = namesOf<RescaleOptions>()('onProgress offsets signal')

/** @example const store = await rp.open(stateStore<number>('counts', { partitions: 8 })) */
export function stateStore<V>(name: string, options: StateStoreOptions<V>): StoreDefinition<V> {
  checkName('state store', name)
  checkGivenOptions(`state store ${name}`, options, storeOptions)
  const { partitions, ...rows } = options
  checkPartitionCount(partitions)
  const { fold, model } = tableParts(name, rows as TableOptions<V>)
  const scopes = [...Array.from({ length: partitions }, (_, n) => partitionTimeline(name, 1, n)), catalogOf(name)]
  const models = scopes.map((scope) => partitionModel(name, scope, fold as Fold<never>))
  const known = new WeakSet<Host>()
  /** Partition by partition, because other tables of this name have similar ids. */
  const register = (engine: Host) => {
    if (known.has(engine)) return
    for (const each of models) engine.declare(each)
    known.add(engine)
  }
  const shared = new WeakMap<object, TableHandle<V>>()
  const openOne = async (engine: Host, number: number, open: OpenOptions, layout: Layout) => {
    const timeline = partitionTimeline(name, layout.generation, checkPartition(number, partitions))
    const confirm = () => confirmLive(engine, layout, partitions, timeline)
    await checkIsPartition(engine, timeline)
    const opened = await openTable(engine, timeline, fold, { ...model, confirm }, open, shared)
    try {
      await confirm()
    } catch (error) {
      await closeTable(opened)
      // The partition was removed before it was opened here, and the opening created it again.
      if (isReprise(error) && error.data.isReplaced === true) await forgetGeneration(engine, timeline)
      throw error
    }
    if (!layout.isNoted) await noteCount(engine, timeline, partitions)
    return opened
  }
  const layoutNow = async (engine: Host) => {
    register(engine)
    return await layoutFor(engine, name, partitions)
  }
  return {
    [describes]: models,
    kind: 'state-store',
    name,
    partitions,
    fold,
    partitionOf: (key) => partitionOf(key, partitions),
    async partition(rp, number, open = {}) {
      checkOptions('partition()', open, openOptions)
      const engine = hostOf(rp)
      return await openOne(engine, number, open, await layoutNow(engine))
    },
    async rescale(rp, how = {}) {
      checkOptions(`rescale of ${name}`, how, knownRescale)
      const engine = hostOf(rp)
      register(engine)
      await rescale(engine, { name, partitions, fold }, how)
    },
    async standby(rp, number) {
      const engine = hostOf(rp)
      const layout = await layoutNow(engine)
      const timeline = partitionTimeline(name, layout.generation, checkPartition(number, partitions))
      const replica = await engine.follow({ prefix: timeline, fold }, '')
      const confirm = () => confirmLive(engine, layout, partitions, timeline)
      const handle: HandleOf<V> = (open) => handleOf(engine, { ...model, confirm }, open, shared)
      return new TableStandby(engine, replica, handle, confirm)
    },
    async [opens](engine: Host, id: string | undefined, open: OpenOptions) {
      if (id !== undefined) throw new RepriseError('INVALID_ARGUMENT', `${name}: open one partition with partition(…)`)
      const tables: TableHandle<V>[] = []
      let layout = await layoutNow(engine)
      try {
        for (let number = 0; number < partitions; number++) {
          tables.push(await openOne(engine, number, open, layout))
          layout = { ...layout, isNoted: true }
        }
      } catch (error) {
        for (const table of tables) await closeTable(table)
        throw error
      }
      return new PartitionedStore(name, tables)
    },
  }
}

function checkPartitionCount(partitions: number): void {
  if (Number.isSafeInteger(partitions) && partitions >= 1 && partitions <= 4096) return
  throw new RepriseError('INVALID_ARGUMENT', 'a state store must have 1 to 4096 partitions', { partitions })
}

/** All partitions in one process, as one map. */
export class PartitionedStore<V> {
  /** The store's name: there is one store per name. */
  readonly id: string
  readonly #tables: readonly TableHandle<V>[]

  constructor(id: string, tables: readonly TableHandle<V>[]) {
    this.id = id
    this.#tables = tables
  }

  get size(): number {
    return this.#tables.reduce((sum, table) => sum + table.size, 0)
  }

  tableOf(key: string): TableHandle<V> {
    return this.#tables[partitionOf(key, this.#tables.length)]!
  }

  get(key: string): V | undefined {
    return this.tableOf(key).get(key)
  }

  async set(key: string, value: V, options: SetOptions = {}): Promise<void> {
    await this.tableOf(key).set(key, value, options)
  }

  async delete(key: string): Promise<boolean> {
    return await this.tableOf(key).delete(key)
  }

  /** A transaction in the partition of this key; keys of other partitions are refused. */
  async transaction<R>(key: string, run: (tx: Transaction<V>) => R | Promise<R>): Promise<R> {
    checkFunction(run, 'transaction()')
    const mine = partitionOf(key, this.#tables.length)
    const check = (other: string) => {
      if (partitionOf(other, this.#tables.length) === mine) return
      throw new RepriseError('INVALID_ARGUMENT', `${other} must be in the same partition as ${key}`, { key, other })
    }
    return await this.tableOf(key).transaction((tx) => run(guarded(tx, check)))
  }

  /** In key order across all partitions. */
  *entries(range: KeyedRange = {}): IterableIterator<[string, V]> {
    checkObject('a range of keys', range)
    const { limit, ...whole } = range
    const heads = this.#tables.map((table) => table.entries(whole)).map((walk) => ({ walk, step: walk.next() }))
    let left = limit ?? Number.POSITIVE_INFINITY
    const isFirst = (a: string, b: string) => (range.reverse ? a > b : a < b)
    while (left-- > 0) {
      let best: (typeof heads)[number] | null = null
      for (const head of heads) {
        if (head.step.done) continue
        if (!best || best.step.done || isFirst(head.step.value[0], best.step.value[0])) best = head
      }
      if (!best || best.step.done) return
      yield best.step.value
      best.step = best.walk.next()
    }
  }

  async close(): Promise<void> {
    for (const table of this.#tables) await closeTable(table)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** A partition that another process owns by now, or that was removed, is already closed. */
async function closeTable<V>(table: TableHandle<V>): Promise<void> {
  await table.close().catch(ignoring('FENCED', 'NOT_FOUND'))
}

function guarded<V>(tx: Transaction<V>, check: (key: string) => void): Transaction<V> {
  const checked =
    <Args extends readonly unknown[], R>(call: (key: string, ...args: Args) => R) =>
    (key: string, ...args: Args): R => {
      check(key)
      return call(key, ...args)
    }
  return {
    get: checked((key: string) => tx.get(key)),
    has: checked((key: string) => tx.has(key)),
    set: checked((key: string, value: V, options?: SetOptions) => tx.set(key, value, options)),
    delete: checked((key: string) => tx.delete(key)),
    entries: (range) => tx.entries(range),
    offset: (source) => tx.offset(source),
    advance: (source, offset) => tx.advance(source, offset),
  }
}

function checkPartition(partition: number, partitions: number): number {
  if (Number.isSafeInteger(partition) && partition >= 0 && partition < partitions) return partition
  throw new RepriseError('INVALID_ARGUMENT', `the partition must be 0 to ${partitions - 1} (got ${partition})`)
}
