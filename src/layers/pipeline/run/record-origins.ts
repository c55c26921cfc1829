// Keys of records that leave a pipeline through `send`, `httpSink` and `call`. A key depends on the origin of a record, never
// on its time of arrival. A record of a source is identified by the source, the partition and its number there, which is the
// same after every restart; an entry of the store's feed by its timeline and sequence, since its position differs in a
// restored store. A result is identified by the record that caused it, the operators it passed, its key, time and value.
// Results of windows and window joins with a time are identified without the record: the record that closes a window depends
// on the order of arrival. A pair of an interval join is identified by both of its records. Sinks and operators that need
// numbers in partitions keep them in their part of a checkpoint.
//
// A pipeline without these sinks and operators has no origins, and its records flow unchanged.

import { timelineId, toHex } from '../../../core/coordinate.ts'
import { intentKey } from '../../../core/identity.ts'
import type { Head } from '../../../core/store/ports.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { Identified } from '../../../engine/storage/store-identity.ts'
import type { Output } from '../batch.ts'
import type { Graph, OperatorNode } from '../graph.ts'
import type { OperatorOrigins, PoisonRecord, RecordOrigin } from '../operator.ts'
import type { SourceBatch, SourceReader } from '../source.ts'

type Counts = Readonly<Record<string, number>>

/** Only for results outside of any record and watermark, which nothing else bounds. */
const seenMax = 10_000
const timedKinds: ReadonlySet<string | null> = new Set(['windows', 'sessions', 'window join'])

/** Marks the head of a pipeline that uses the record names of sources. Older pipelines lack it and count records. */
const namesAttribute = '$names'

/** The attribute for the commit that begins a pipeline: one that never ran has no status. */
export function namesNoted(head: Head | null | undefined): Readonly<Record<string, true>> {
  return head?.status ? {} : { [namesAttribute]: true }
}

/** The same attribute, for a pipeline that fails before it has begun. */
export async function notBegun({ store }: Pick<Kernel, 'store'>, timeline: string) {
  try {
    const [head] = await store.head([timelineId(timeline)])
    return head ? { attributes: namesNoted(head) } : {}
  } catch {
    // The pipeline reports the failure that ended it.
    return {}
  }
}

type Ports = Pick<Kernel, 'hash' | 'codec' | 'random' | 'identity' | 'planted'>

/** Null: no part of this pipeline has keys. */
export async function originsOf(kernel: Ports, graph: Graph, head: Head | null | undefined, id: Head['timeline']) {
  const isKeyed = graph.sinks.some(({ sink }) => sink.isKeyed) || graph.operators.some(({ state }) => state === 'calls')
  if (!isKeyed) return null
  await kernel.identity.load()
  const life = head?.life ?? (await kernel.identity.past(id)).life + 1
  const attributes = { ...head?.attributes, ...namesNoted(head) }
  const of = { timeline: id, life, base: head?.base ?? null, attributes }
  return new Origins(kernel, of, attributes[namesAttribute] === true)
}

/** Wraps the output of a source. */
export function watched(origins: Origins | null, source: string, next: Output): Output {
  return origins?.source(source, next) ?? next
}

/** Adds the origin to a record that is set aside. */
export function withOrigin(origins: Origins | null, name: string, record: PoisonRecord): PoisonRecord {
  const { value, time, key, input } = record
  const origin = record.origin ?? origins?.setAside(name, record)
  return { value, time, key, ...(input !== undefined && { input }), ...(origin && { origin }) }
}

/** Processes a record that was set aside; its results get the keys they would have had the first time. */
export function sentBack(origins: Origins | null, origin: RecordOrigin | undefined, call: () => void): void {
  if (origins && origin) origins.from(origin.cause, call, origin)
  else call()
}

export class Origins implements OperatorOrigins {
  readonly #ports: Ports
  readonly #of: Identified
  readonly #usesNames: boolean
  /** For results with neither a record nor a time: after a restart they are sent again under another key. */
  readonly #unnamedCause: string
  readonly #counts = new Map<string, number>()
  /** The partition that each source read last, by source. */
  readonly #partitions = new Map<string, string>()
  #cause: string | null = null
  #path = ''
  #isTimed = false
  /** True: several records come from the cause, so its name alone does not distinguish them. */
  #isMany = false
  /** The number of equal records of the cause that are not processed again. */
  #before = 0
  /** The results of the cause so far: as many as one record yields, or one watermark. */
  #seen = new Map<string, number>()
  readonly #seenOutside = this.#seen
  #unnamed = 0
  #arrived = 0
  #checkpoint = 0

  constructor(ports: Ports, of: Identified, usesNames = false) {
    this.#ports = ports
    this.#of = of
    this.#usesNames = usesNames
    this.#unnamedCause = `run ${toHex(ports.random.bytes(8))}`
  }

  get counts(): Counts {
    return Object.fromEntries(this.#counts)
  }

  /** The checkpoint is not part of a key, unless that bug is planted. */
  published(checkpoint: number): void {
    this.#checkpoint = checkpoint
  }

  /** Restores the counts from a checkpoint. */
  restore(counts: Counts): void {
    for (const [name, count] of Object.entries(counts)) {
      if (count > (this.#counts.get(name) ?? 0)) this.#counts.set(name, count)
    }
  }

  /** Wraps a reader to note which partition it reads. */
  reader<T>(source: string, reader: SourceReader<T>): SourceReader<T> {
    const noted = (read: SourceBatch<T> | null) => {
      if (read) this.#partitions.set(source, read.partition)
      return read
    }
    return {
      read: (max) => {
        const read = reader.read(max)
        return read instanceof Promise ? read.then(noted) : noted(read)
      },
      partitions: () => reader.partitions(),
      ...(reader.published && { published: (positions) => reader.published!(positions) }),
      ...(reader.cursor && { cursor: (positions) => reader.cursor!(positions) }),
      close: () => reader.close(),
    }
  }

  /** Wraps the output of a source: one record at a time, so that everything emitted meanwhile is caused by it. */
  source(name: string, next: Output): Output {
    return {
      batch: ({ values, times, keys, names }) => {
        const partition = JSON.stringify([name, this.#partitions.get(name) ?? ''])
        for (let i = 0; i < values.length; i++) {
          const record = names && this.#usesNames ? ` ${names[i]!}` : this.#numberIn(partition)
          const one = { values: [values[i]], times: times && [times[i]!], keys: keys && [keys[i]!] }
          this.from(`${partition}${record}`, () => next.batch(one))
        }
      },
      watermark: (time) => this.from(null, () => next.watermark(time)),
      idle: () => this.from(null, () => next.idle()),
    }
  }

  #numberIn(partition: string): number {
    const number = (this.#counts.get(partition) ?? 0) + 1
    this.#counts.set(partition, number)
    return number
  }

  /** Wraps the outputs of an operator. */
  through({ name, state }: OperatorNode, outputs: readonly Output[]): readonly Output[] {
    return outputs.map((output, i) => ({
      batch: (batch) => {
        const [path, isTimed] = [this.#path, this.#isTimed]
        this.#path = `${path}/${name}${i === 0 ? '' : `:${i}`}`
        this.#isTimed = isTimed || timedKinds.has(state)
        this.#isMany ||= batch.values.length > 1
        try {
          output.batch(batch)
        } finally {
          this.#path = path
          this.#isTimed = isTimed
        }
      },
      watermark: (time) => output.watermark(time),
      idle: () => output.idle(),
    }))
  }

  /** Everything emitted during the call is caused by this record; null: by no record. */
  from(cause: string | null, call: () => void, at?: Omit<RecordOrigin, 'cause'>): void {
    const before = [this.#cause, this.#path, this.#isTimed, this.#isMany, this.#before, this.#seen] as const
    this.#cause = cause
    this.#path = at?.path ?? ''
    this.#isTimed = at?.isTimed ?? false
    this.#isMany = cause === null
    this.#before = at?.times ?? 0
    this.#seen = new Map()
    try {
      call()
    } finally {
      ;[this.#cause, this.#path, this.#isTimed, this.#isMany, this.#before, this.#seen] = before
    }
  }

  /** The key of a record that arrives at that sink or operator now. */
  keyOf(name: string, record: PoisonRecord): string {
    const parts = this.#partsOf(record)
    return this.#key(name, this.#arrive(name, record.time, parts), parts)
  }

  originOf(name: string, record: PoisonRecord): RecordOrigin {
    return this.#arrive(name, record.time, this.#partsOf(record))
  }

  keyFrom(origin: RecordOrigin, name: string, record: PoisonRecord): string {
    return this.#key(name, origin, this.#partsOf(record))
  }

  #arrive(name: string, time: number | null, parts: readonly string[]): RecordOrigin {
    const [cause, path, isTimed] = [this.#causeOf(time), this.#path, this.#isTimed]
    // Without a record and a time nothing identifies the result, so each attempt gets a new key.
    if (cause === this.#unnamedCause) return { cause, path, isTimed, times: this.#unnamed++ }
    const seen = JSON.stringify([name, cause, path, ...parts])
    // The same result again from one record: a function may emit it twice.
    const times = this.#seen.get(seen) ?? this.#before
    if (this.#seen === this.#seenOutside && this.#seen.size >= seenMax) this.#seen.clear()
    this.#seen.set(seen, times + 1)
    return { cause, path, isTimed, times }
  }

  /**
   * The origin of a failing record. A single record of a cause is processed again as if it had not failed. One of
   * several records may produce the same result as another, and they must not share a key: it becomes a cause of its own.
   */
  setAside(name: string, record: PoisonRecord): RecordOrigin {
    const origin = this.originOf(name, record)
    if (!this.#isMany) return origin
    return { cause: `letter ${this.keyFrom(origin, name, record)}`, path: '', isTimed: false, times: 0 }
  }

  #key(name: string, { cause, path, times }: RecordOrigin, own: readonly string[]): string {
    const { hash, identity, planted } = this.#ports
    const parts = [cause, path, ...own]
    if (planted.has('record-counter-in-key')) parts.splice(0, parts.length, String(++this.#arrived))
    if (planted.has('checkpoint-in-key')) parts.push(String(this.#checkpoint))
    return intentKey(hash, { ...identity.origin(this.#of), model: 'pipeline', name, parts: [...parts, String(times)] })
  }

  #partsOf({ value, time, key }: PoisonRecord): string[] {
    const { hash, codec } = this.#ports
    return [`${typeof key} ${key}`, String(time), toHex(hash(codec.encode(value)))]
  }

  #causeOf(time: number | null): string {
    if (time !== null && (this.#isTimed || this.#cause === null)) return 'time'
    return this.#cause ?? this.#unnamedCause
  }
}
