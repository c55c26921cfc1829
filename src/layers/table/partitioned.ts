// A state store in partitions: each is a table of its own with its own timeline, owner, changelog and checkpoints, so
// processes share them and one that dies takes only its part with it. A key always lies in the same partition, and a
// transaction stays inside one.

import { RepriseError } from '../../core/errors.ts'
import type { KeyedRange } from '../../core/keyed.ts'
import { checkName, type Entity, type Fold, type OpenOptions, opens } from '../../engine/definition.ts'
import { newOperation } from '../../engine/kernel.ts'
import { type Described, describes } from '../../engine/model.ts'
import type { Reprise } from '../../engine/reprise.ts'
import type { TableHandle } from './handle.ts'
import { partitionModel } from './model.ts'
import { TableStandby } from './standby.ts'
import type { TableState } from './state.ts'
import { handleOf, openTable, type TableOptions, tableParts, tablePrefix } from './table.ts'
import type { SetOptions, Transaction } from './transaction.ts'

export interface StoreOptions<V> extends TableOptions<V> {
  /** How many; noted with the first one that is opened. Another number is refused: it would miss the keys of the others. */
  readonly partitions: number
}

export interface StoreDefinition<V> extends Entity<PartitionedStore<V>>, Described {
  readonly kind: 'state-store'
  readonly name: string
  readonly partitions: number
  readonly fold: Fold<TableState<V>>
  /** The partition of a key. */
  partitionOf(key: string): number
  /** Opens one partition and takes ownership of it. */
  partition(engine: Reprise, partition: number, options?: OpenOptions): Promise<TableHandle<V>>
  /** Follows one partition, ready to take over. */
  standby(engine: Reprise, partition: number): Promise<TableStandby<V>>
}

/** @example const store = await rp.open(stateStore<number>('counts', { partitions: 8 })) */
export function stateStore<V>(name: string, options: StoreOptions<V>): StoreDefinition<V> {
  checkName('state store', name)
  const { partitions } = options
  if (!Number.isSafeInteger(partitions) || partitions < 1 || partitions > 4096) {
    throw new RepriseError('INVALID_ARGUMENT', 'a state store has 1 to 4096 partitions', { partitions })
  }
  const { fold, model } = tableParts(name, options)
  const timelineOf = (number: number) => `${tablePrefix}${name}/p${number}`
  const models = Array.from({ length: partitions }, (_, n) => partitionModel(name, timelineOf(n), fold as Fold<never>))
  const known = new WeakSet<Reprise>()
  /** Partition by partition: other tables of this name have ids beside theirs. */
  const register = (engine: Reprise) => {
    if (known.has(engine)) return
    for (let number = 0; number < partitions; number++) engine.declare(models[number]!)
    known.add(engine)
  }
  const shared = new WeakMap<object, TableHandle<V>>()
  const openOne = async (engine: Reprise, number: number, open: OpenOptions, isNoted: boolean) => {
    register(engine)
    const timeline = timelineOf(checkPartition(number, partitions))
    const opened = await openTable(engine, timeline, fold, model, open, shared)
    if (!isNoted) await noteCount(engine, timeline, partitions)
    return opened
  }
  const partition = async (engine: Reprise, number: number, open: OpenOptions = {}) =>
    await openOne(engine, number, open, await checkCount(engine, name, partitions))
  return {
    [describes]: models,
    kind: 'state-store',
    name,
    partitions,
    fold,
    partitionOf: (key) => partitionOf(key, partitions),
    partition,
    async standby(engine, number) {
      register(engine)
      await checkCount(engine, name, partitions)
      const timeline = timelineOf(checkPartition(number, partitions))
      const replica = await engine.follow({ prefix: timeline, fold }, '')
      return new TableStandby(engine, replica, (open) => handleOf(engine, model, open, shared))
    },
    async [opens](engine: Reprise, id: string | undefined, open: OpenOptions) {
      if (id !== undefined) throw new RepriseError('INVALID_ARGUMENT', `${name}: open one partition with partition(…)`)
      const tables: TableHandle<V>[] = []
      const isNoted = await checkCount(engine, name, partitions)
      try {
        for (let number = 0; number < partitions; number++) {
          tables.push(await openOne(engine, number, open, isNoted || number > 0))
        }
      } catch (error) {
        for (const table of tables) await table.close()
        throw error
      }
      return new PartitionedStore(tables)
    },
  }
}

/** All partitions in one process, as one map. */
export class PartitionedStore<V> {
  readonly #tables: readonly TableHandle<V>[]

  constructor(tables: readonly TableHandle<V>[]) {
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

  set(key: string, value: V, options: SetOptions = {}): Promise<void> {
    return this.tableOf(key).set(key, value, options)
  }

  delete(key: string): Promise<boolean> {
    return this.tableOf(key).delete(key)
  }

  /** In the partition of this key; keys of others are refused. */
  transaction<R>(key: string, run: (tx: Transaction<V>) => R | Promise<R>): Promise<R> {
    const mine = partitionOf(key, this.#tables.length)
    const check = (other: string) => {
      if (partitionOf(other, this.#tables.length) === mine) return
      throw new RepriseError('INVALID_ARGUMENT', `${other} lies in another partition than ${key}`, { key, other })
    }
    return this.tableOf(key).transaction((tx) => run(guarded(tx, check)))
  }

  /** In key order over all partitions. */
  *entries(range: KeyedRange = {}): IterableIterator<[string, V]> {
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
    for (const table of this.#tables) await table.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
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
  throw new RepriseError('INVALID_ARGUMENT', `there are partitions 0 to ${partitions - 1}, not ${partition}`)
}

const countAttribute = 'partitions'

/** True: the number is noted. Throws where the store lies in another number of partitions. */
async function checkCount(engine: Reprise, name: string, partitions: number): Promise<boolean> {
  const heads = (await engine.list({ prefix: `${tablePrefix}${name}/` })).flatMap((head) => {
    const number = /\/p(\d+)$/.exec(head.timeline)?.[1]
    return number === undefined ? [] : [{ number: Number(number), noted: head.attributes[countAttribute] }]
  })
  const noted = heads.find((head) => typeof head.noted === 'number')?.noted as number | undefined
  // Made before the number was noted: there are at least as many as can be seen.
  const least = heads.reduce((most, { number }) => Math.max(most, number + 1), 0)
  const known = noted ?? (least > partitions ? least : partitions)
  if (known === partitions) return noted !== undefined
  throw new RepriseError(
    'INVALID_ARGUMENT',
    `state store ${name} lies in ${known} partitions, not ${partitions}: open it with ${known}, or copy its rows into another`,
    { name, known, partitions },
  )
}

async function noteCount(engine: Reprise, timeline: string, partitions: number): Promise<void> {
  const { committer, random } = engine.kernel
  const head = await engine.head(timeline)
  if (!head) return
  // Whoever took it meanwhile notes the same.
  await committer.submit({
    operation: newOperation(random),
    guard: { timeline: head.timeline, epoch: head.epoch },
    attributes: { [countAttribute]: partitions },
  })
}

/** FNV-1a over UTF-16 units: a fact of the stored layout, never to be changed. */
function partitionOf(key: string, partitions: number): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
  return (hash >>> 0) % partitions
}
