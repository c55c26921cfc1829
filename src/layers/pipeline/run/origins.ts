// Keys of records that leave a pipeline through `send`, `httpSink` and `call`: from where a record came, never from when it
// arrived. A record of a source is known by the source, the partition and its number there, which is the same after every
// restart. A result is known by the record that caused it, the operators it came through, its key, time and value. Results of
// windows and joins that have a time are known without the record: which one closes a window, or completes a pair, depends on
// the order of arrival. Numbers in partitions are kept by those who need them, in their part of a checkpoint.
//
// Where a pipeline has none of these sinks and operators there are no origins, and records flow as they are.

import { toHex } from '../../../core/coordinate.ts'
import { intentKey } from '../../../core/history/identity.ts'
import type { Head } from '../../../core/store/ports.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { Identified } from '../../../engine/storage/store-identity.ts'
import type { Output } from '../batch.ts'
import type { Graph, OperatorNode } from '../graph.ts'
import type { PoisonRecord } from '../operator.ts'
import type { SinkContext } from '../sink.ts'
import type { SourceBatch, SourceReader } from '../source.ts'

type Counts = Readonly<Record<string, number>>

const timedKinds: ReadonlySet<string | null> = new Set(['windows', 'sessions', 'window join', 'interval join'])
const seenMax = 10_000

type Ports = Pick<Kernel, 'hash' | 'codec' | 'random' | 'identity' | 'planted'>

/** Null: nothing in this pipeline has keys. */
export async function originsOf(kernel: Ports, graph: Graph, head: Head | null | undefined, id: Head['timeline']) {
  const isKeyed = graph.sinks.some(({ sink }) => sink.isKeyed) || graph.operators.some(({ state }) => state === 'calls')
  if (!isKeyed) return null
  await kernel.identity.load()
  const life = head?.life ?? (await kernel.identity.past(id)).life + 1
  return new Origins(kernel, { timeline: id, life, base: head?.base ?? null, attributes: head?.attributes ?? {} })
}

/** Where a source gives its records. */
export function watched(origins: Origins | null, source: string, next: Output): Output {
  return origins?.source(source, next) ?? next
}

export class Origins implements NonNullable<SinkContext['origins']> {
  readonly #ports: Ports
  readonly #of: Identified
  /** For results that have neither a record nor a time: they are sent again under another key after a restart. */
  readonly #run: string
  readonly #counts = new Map<string, number>()
  /** By source: of what it read last. */
  readonly #partitions = new Map<string, string>()
  #cause: string | null = null
  #path = ''
  #isTimed = false
  #seen = new Map<string, number>()
  #arrived = 0
  #checkpoint = 0

  constructor(ports: Ports, of: Identified) {
    this.#ports = ports
    this.#of = of
    this.#run = toHex(ports.random.bytes(8))
  }

  get counts(): Counts {
    return Object.fromEntries(this.#counts)
  }

  /** No part of a key, unless that bug is planted. */
  published(checkpoint: number): void {
    this.#checkpoint = checkpoint
  }

  /** What a checkpoint has of it. */
  restore(counts: Counts): void {
    for (const [name, count] of Object.entries(counts)) {
      if (count > (this.#counts.get(name) ?? 0)) this.#counts.set(name, count)
    }
  }

  /** A reader that is watched: which partition it reads. */
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

  /** Where a source gives its records: one at a time, so that all that flows meanwhile comes from it. */
  source(name: string, next: Output): Output {
    return {
      batch: ({ values, times, keys }) => {
        const partition = JSON.stringify([name, this.#partitions.get(name) ?? ''])
        for (let i = 0; i < values.length; i++) {
          const number = (this.#counts.get(partition) ?? 0) + 1
          this.#counts.set(partition, number)
          const one = { values: [values[i]], times: times && [times[i]!], keys: keys && [keys[i]!] }
          this.from(`${partition}${number}`, () => next.batch(one))
        }
      },
      watermark: (time) => this.from(null, () => next.watermark(time)),
      idle: () => this.from(null, () => next.idle()),
    }
  }

  /** What an operator gives. */
  through({ name, state }: OperatorNode, outputs: readonly Output[]): readonly Output[] {
    return outputs.map((output, i) => ({
      batch: (batch) => {
        const [path, isTimed] = [this.#path, this.#isTimed]
        this.#path = `${path}/${name}${i === 0 ? '' : `:${i}`}`
        this.#isTimed = isTimed || timedKinds.has(state)
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

  /** All that flows during the call comes from this record; null: from no record. */
  from(cause: string | null, call: () => void): void {
    const before = [this.#cause, this.#path, this.#isTimed, this.#seen] as const
    this.#cause = cause
    this.#path = ''
    this.#isTimed = false
    this.#seen = new Map()
    try {
      call()
    } finally {
      ;[this.#cause, this.#path, this.#isTimed, this.#seen] = before
    }
  }

  /** The key of a record that arrives at that sink or operator now. */
  keyOf(name: string, { value, time, key }: Omit<PoisonRecord, 'input'>): string {
    const { hash, codec, identity, planted } = this.#ports
    const parts = [
      this.#causeOf(time),
      this.#path,
      `${typeof key} ${key}`,
      String(time),
      toHex(hash(codec.encode(value))),
    ]
    const seen = JSON.stringify([name, ...parts])
    // The same once more from one record: a function may give it twice.
    const times = this.#seen.get(seen) ?? 0
    if (this.#seen.size >= seenMax) this.#seen.clear()
    this.#seen.set(seen, times + 1)
    if (planted.has('record-counter-in-key')) parts.splice(0, parts.length, String(++this.#arrived))
    if (planted.has('checkpoint-in-key')) parts.push(String(this.#checkpoint))
    return intentKey(hash, { ...identity.origin(this.#of), model: 'pipeline', name, parts: [...parts, String(times)] })
  }

  #causeOf(time: number | null): string {
    if (time !== null && (this.#isTimed || this.#cause === null)) return 'time'
    return this.#cause ?? `run ${this.#run}`
  }
}
