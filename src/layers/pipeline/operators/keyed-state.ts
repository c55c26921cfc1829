// State of a `process` operator: its declarations, and the handles that its functions use for the current record. Each
// declared state is one table; a list or map is copied once per checkpoint before it is changed in place, and written whole.
// Time to live is measured by the clock: older values are invisible, and are removed soon after.

import { type Duration, toMs } from '../../../core/duration.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { checkList, checkOptions, namesOf } from '../../../core/options.ts'
import { synchronous } from '../../../core/synchronous.ts'
import { TimeQueue } from '../../../core/time-queue.ts'
import { Before, Watch } from '../../../lib/in-place-changes.ts'
import { StateTable } from '../rules/state-table.ts'

export interface StateOptions {
  /** The value is removed when it has not been written for this long. */
  readonly ttl?: Duration
}

const knownState = namesOf<StateOptions>()('ttl')

/** A state declaration for `process`, made by `valueState` and its siblings. `Handle` is the type that its functions get. */
export interface StateSpec<Handle> {
  readonly kind: string
  readonly ttlMs: number | null
  /** For type inference only. */
  readonly gives?: Handle | undefined
  /** @internal */
  handle(cell: StateCell): Handle
}

export interface ValueState<T> {
  get(): T | undefined
  set(value: T): void
  clear(): void
}

export interface ListState<T> {
  get(): readonly T[]
  add(...values: readonly T[]): void
  set(values: readonly T[]): void
  clear(): void
}

export interface MapState<T> {
  get(key: string): T | undefined
  has(key: string): boolean
  set(key: string, value: T): void
  delete(key: string): void
  entries(): IterableIterator<[string, T]>
  readonly size: number
  clear(): void
}

export interface ReducingState<T> {
  get(): T | undefined
  add(value: T): void
  clear(): void
}

/** @example process('last-seen', { state: { last: valueState<number>({ ttl: '1d' }) }, … }) */
export function valueState<T>(options: StateOptions = {}): StateSpec<ValueState<T>> {
  return spec('value', options, (cell) => ({
    get: () => cell.watched(cell.read()) as T | undefined,
    set: (value) => cell.write(value),
    clear: () => cell.clear(),
  }))
}

export function listState<T>(options: StateOptions = {}): StateSpec<ListState<T>> {
  return spec('list', options, (cell) => ({
    get: () => (cell.read() as readonly T[] | undefined) ?? [],
    add: (...values) => {
      cell.change<T[]>(
        () => [],
        (held) => [...held],
        (held) => {
          const before = held.length
          for (const value of values) held.push(value)
          return () => void held.splice(before)
        },
      )
    },
    set: (values) => {
      checkList('the values of a list state', values)
      cell.write([...values])
    },
    clear: () => cell.clear(),
  }))
}

export function mapState<T>(options: StateOptions = {}): StateSpec<MapState<T>> {
  const empty: ReadonlyMap<string, T> = new Map()
  return spec('map', options, (cell) => {
    const held = () => (cell.read() as ReadonlyMap<string, T> | undefined) ?? empty
    const change = (work: (map: Map<string, T>) => () => void) =>
      cell.change<Map<string, T>>(
        () => new Map(),
        (map) => new Map(map),
        work,
      )
    return {
      get: (key) => cell.watched(held().get(key)) as T | undefined,
      has: (key) => held().has(key),
      set: (key, value) =>
        change((map) => {
          const undo = putBack(map, key)
          map.set(key, value)
          return undo
        }),
      delete: (key) => {
        if (!held().has(key)) return
        change((map) => {
          const undo = putBack(map, key)
          map.delete(key)
          return undo
        })
      },
      entries: () => held().entries() as IterableIterator<[string, T]>,
      get size() {
        return held().size
      },
      clear: () => cell.clear(),
    }
  })
}

export function reducingState<T>(given: (a: T, b: T) => T, options: StateOptions = {}): StateSpec<ReducingState<T>> {
  const combine = synchronous(given, 'the function of reducingState()', 'use call() before the operator')
  return spec('reducing', options, (cell) => ({
    get: () => cell.watched(cell.read()) as T | undefined,
    add: (value) => {
      const before = cell.watched(cell.read()) as T | undefined
      cell.write(before === undefined ? value : combine(before, value))
    },
    clear: () => cell.clear(),
  }))
}

/** Returns a function that restores one entry of a map. A deleted entry is restored at the end. */
function putBack<T>(map: Map<string, T>, key: string): () => void {
  if (!map.has(key)) return () => void map.delete(key)
  const before = map.get(key) as T
  return () => void map.set(key, before)
}

function spec<Handle>(kind: string, options: StateOptions, handle: (cell: StateCell) => Handle): StateSpec<Handle> {
  checkOptions('the options of a state', options, knownState)
  const { ttl } = options
  return { kind, ttlMs: ttl === undefined ? null : toMs(ttl, 'ttl'), handle }
}

interface Held {
  readonly value: unknown
  /** The expiry time; null: never. */
  readonly until: number | null
}

/** Marks that nothing was written. */
const none: unique symbol = Symbol('none')

/** The state of one name at the key of the current record. Changes apply when the function has returned. */
export class StateCell {
  readonly table = new StateTable<Held>()
  readonly #ttlMs: number | null
  readonly #now: () => number
  readonly #expiring = new TimeQueue<PipelineKey>()
  #key: PipelineKey = ''
  /** The value that the running function wrote, not in the state yet; undefined: cleared. */
  #pending: Held | undefined | typeof none = none
  /** Undo functions for changes made in place. */
  #undo: (() => void)[] = []
  readonly #watch = new Watch()
  /** Values that the function has read, where changes in place are checked. */
  #given: Before[] = []

  constructor(ttlMs: number | null, now: () => number) {
    this.#ttlMs = ttlMs
    this.#now = now
  }

  at(key: PipelineKey): void {
    this.#key = key
  }

  read(): unknown {
    const held = this.#pending === none ? this.table.get(this.table.space(0), this.#key) : this.#pending
    return held === undefined || this.#isOver(held) ? undefined : held.value
  }

  /** Returns a stored value for the function, which must not change it in place (../in-place-changes.ts). */
  watched(value: unknown): unknown {
    const isStored = this.#pending === none && typeof value === 'object' && value !== null
    if (isStored && this.#watch.next()) this.#given.push(new Before(value))
    return value
  }

  /** Whether the function changed a value that it had read. */
  isChanged(): boolean {
    if (this.#given.length === 0) return false
    const isChanged = this.#given.some((before) => before.isChanged())
    this.#given = []
    return isChanged
  }

  write(value: unknown): void {
    this.#pending = { value, until: this.#ttlMs === null ? null : this.#now() + this.#ttlMs }
  }

  clear(): void {
    this.#pending = undefined
  }

  /** Changes the value in place where no checkpoint needs the old one. `work` returns its undo function. */
  change<V>(initial: () => V, copy: (value: V) => V, work: (value: V) => () => void): void {
    if (this.#pending !== none || this.read() === undefined) {
      const value = (this.read() as V | undefined) ?? initial()
      this.#undo.push(work(value))
      this.write(value)
      return
    }
    const space = this.table.space(0)
    const slot = space.slots.get(this.#key)!
    const own = this.table.own(space, slot, ({ value, until }) => ({ value: copy(value as V), until }))
    this.#undo.push(work(own.value as V))
    if (this.#ttlMs !== null) this.write(own.value)
  }

  /** Applies the changes after the function has returned. */
  commit(): void {
    if (this.#undo.length > 0) this.#undo = []
    const pending = this.#pending
    if (pending === none) return
    this.#pending = none
    const space = this.table.space(0)
    if (pending === undefined) this.table.delete(space, this.#key)
    else {
      this.table.set(space, this.#key, pending)
      if (pending.until !== null) this.#expiring.add(this.#bucketOf(pending.until), this.#key)
    }
  }

  /** Undoes all changes after the function has thrown. */
  rollback(): void {
    this.#watch.again()
    this.#pending = none
    for (const undo of this.#undo.reverse()) undo()
    this.#undo = []
  }

  restored(): void {
    for (const [key, { until }] of this.table.space(0).entries()) {
      if (until !== null) this.#expiring.add(this.#bucketOf(until), key)
    }
  }

  expire(now: number): void {
    for (let due = this.#expiring.take(now); due; due = this.#expiring.take(now)) {
      for (const key of due.items) {
        const held = this.table.get(this.table.space(0), key)
        if (held && held.until !== null && held.until <= now) this.table.delete(this.table.space(0), key)
      }
    }
  }

  #isOver({ until }: Held): boolean {
    return until !== null && until <= this.#now()
  }

  /** Rounds expiry times up to a bucket, so that a key that is written constantly is in only a few buckets. */
  #bucketOf(until: number): number {
    const width = Math.max(1, Math.ceil(this.#ttlMs! / 8))
    return Math.ceil(until / width) * width
  }
}
