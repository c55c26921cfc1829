// An open transaction: records are sent as they arrive, one request at a time, each with all records that arrived meanwhile.

import type { KafkaOut, KafkaPort, OutBatch, OutRecord, TransactionId } from './port.ts'

/** With more unsent records than this, `add` waits. */
const waitingMax = 20_000
const recordsPerBatch = 5000
const utf8 = new TextEncoder()
const noHeaders = {}

export interface Begun {
  readonly slot: number
  readonly begunAt: number
  readonly id: TransactionId
}

export class OpenTransaction {
  readonly begun: Promise<Begun>
  readonly #port: KafkaPort
  readonly #topic: string
  readonly #partitions: readonly number[]
  readonly #added = new Set<number>()
  readonly #sequences = new Map<number, number>()
  #waiting = new Map<number, OutRecord[]>()
  #count = 0
  #turn = 0
  #sending: Promise<void> | null = null
  readonly #before: Promise<unknown>

  /** `before`: the preceding transaction. Records of a partition keep their order, so it is sent first. */
  constructor(
    port: KafkaPort,
    topic: string,
    partitions: readonly number[],
    begun: Promise<Begun>,
    before: OpenTransaction | null,
  ) {
    this.#port = port
    this.#topic = topic
    this.#partitions = partitions
    this.begun = begun
    begun.catch(() => undefined)
    this.#before = before?.settled().catch(() => undefined) ?? Promise.resolve()
  }

  add(messages: readonly KafkaOut[]): void | Promise<void> {
    const now = Date.now()
    const any = this.#partitions[this.#turn++ % this.#partitions.length]!
    for (const { key = null, value, headers = noHeaders, partition, time = now } of messages) {
      const keyBytes = typeof key === 'string' ? utf8.encode(key) : key
      const to =
        partition ?? (keyBytes === null ? any : this.#partitions[partitionOf(keyBytes, this.#partitions.length)]!)
      const record = { key: keyBytes, value: typeof value === 'string' ? utf8.encode(value) : value, headers, time }
      const waiting = this.#waiting.get(to)
      if (waiting) waiting.push(record)
      else this.#waiting.set(to, [record])
    }
    this.#count += messages.length
    this.#sending ??= this.#send()
    this.#sending.catch(() => undefined)
    if (this.#count > waitingMax) return this.#sending
  }

  /** Waits until the broker has all added records. */
  async settled(): Promise<Begun> {
    await this.#sending
    return await this.begun
  }

  async abort(): Promise<void> {
    await this.#sending
    if (this.#added.size > 0) await this.#port.end((await this.begun).id, 'abort')
  }

  async #send(): Promise<void> {
    await this.#before
    const { id } = await this.begun
    while (this.#count > 0) {
      const batches = this.#next()
      const fresh = batches.map(({ partition }) => partition).filter((partition) => !this.#added.has(partition))
      if (fresh.length > 0) await this.#port.addPartitions(id, this.#topic, fresh)
      for (const partition of fresh) this.#added.add(partition)
      await this.#port.produce(id, this.#topic, batches)
    }
    this.#sending = null
  }

  #next(): OutBatch[] {
    const waiting = this.#waiting
    this.#waiting = new Map()
    this.#count = 0
    return [...waiting].map(([partition, all]) => {
      const records = all.slice(0, recordsPerBatch)
      if (all.length > records.length) {
        this.#waiting.set(partition, all.slice(recordsPerBatch))
        this.#count += all.length - records.length
      }
      const sequence = this.#sequences.get(partition) ?? 0
      this.#sequences.set(partition, sequence + records.length)
      return { partition, records, sequence }
    })
  }
}

// Assigns keys to partitions as Java's producers do (murmur2), so that topics are partitioned alike by all writers.

/** @example partitionOf(Buffer.from('ann'), 6) */
function partitionOf(key: Uint8Array, partitions: number): number {
  return (murmur2(key) & 0x7fffffff) % partitions
}

function murmur2(bytes: Uint8Array): number {
  const m = 0x5bd1e995
  let hash = 0x9747b28c ^ bytes.length
  const blocks = bytes.length >> 2
  for (let block = 0; block < blocks; block++) {
    const at = block * 4
    let k = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
    k = Math.imul(k, m)
    k = Math.imul(k ^ (k >>> 24), m)
    hash = Math.imul(hash, m) ^ k
  }
  const rest = bytes.length & 3
  const at = bytes.length - rest
  if (rest === 3) hash ^= bytes[at + 2]! << 16
  if (rest >= 2) hash ^= bytes[at + 1]! << 8
  if (rest >= 1) hash = Math.imul(hash ^ bytes[at]!, m)
  hash = Math.imul(hash ^ (hash >>> 13), m)
  return hash ^ (hash >>> 15)
}
