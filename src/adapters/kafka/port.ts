// What pipelines ask of a Kafka client, and nothing more: partitions are assigned by us and offsets lie in checkpoints, so no
// consumer group is needed; transactions are ended by whoever holds their three numbers, so no producer object is needed.
// One client stands behind it (kafkats.ts); another one would be held by the same tests.

import type { Duration } from '../../core/duration.ts'

export interface KafkaConnecting {
  /** Where to connect to: host:port. */
  readonly brokers: readonly string[]
  readonly clientId?: string
  /** How long brokers may be away before the run ends with BROKER_AWAY; a minute if left out. */
  readonly awayFor?: Duration
  /** Further options of `KafkaClient` of @kafkats/client: tls, sasl, timeouts. */
  readonly client?: Readonly<Record<string, unknown>>
}

export interface KafkaRecord {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  /** In milliseconds since 1970, as the producer or the broker said. */
  readonly time: number
  readonly key: Uint8Array | null
  readonly value: Uint8Array | null
  readonly headers: Readonly<Record<string, Uint8Array | null>>
}

export interface KafkaOut {
  /** Null or left out: any partition. */
  readonly key?: string | Uint8Array | null
  /** Null deletes the key in a compacted topic. */
  readonly value: string | Uint8Array | null
  readonly headers?: Readonly<Record<string, string>>
  /** Left out: as Java's producers choose it by the key. */
  readonly partition?: number
  /** In milliseconds since 1970; now if left out. */
  readonly time?: number
}

export interface Fetched {
  readonly partition: number
  /** 'gone': the broker does not have this offset. 'later': ask again, a leader is being elected or the like. */
  readonly outcome: 'ok' | 'gone' | 'later'
  /** Of committed transactions, and of none. */
  readonly records: readonly KafkaRecord[]
  /** Where to go on, also behind records that are not given. */
  readonly next: number
}

/** What a transaction is ended with, by whoever has it. */
export interface TransactionId {
  readonly id: string
  readonly producerId: bigint
  readonly epoch: number
}

export interface OutRecord {
  readonly key: Uint8Array | null
  readonly value: Uint8Array | null
  readonly headers: Readonly<Record<string, string>>
  readonly time: number
}

export interface OutBatch {
  readonly partition: number
  readonly records: readonly OutRecord[]
  /** Of the first one, in this transaction: the broker knows a batch that is sent again. */
  readonly sequence: number
}

export interface KafkaPort {
  /** NOT_FOUND where there is no such topic. */
  partitions(topic: string): Promise<readonly number[]>
  offset(topic: string, partition: number, at: 'oldest' | 'newest' | number): Promise<number>
  fetch(
    topic: string,
    wanted: readonly { readonly partition: number; readonly offset: number }[],
    waitMs: number,
  ): Promise<readonly Fetched[]>
  /**
   * Aborts what is open under this id, and fences whoever opened it. `known`: only if nobody began one since that was the newest;
   * TRANSACTION_EXPIRED otherwise.
   */
  begin(id: string, timeoutMs: number, known?: TransactionId): Promise<TransactionId>
  addPartitions(transaction: TransactionId, topic: string, partitions: readonly number[]): Promise<void>
  produce(transaction: TransactionId, topic: string, batches: readonly OutBatch[]): Promise<void>
  /** 'gone': there is no such transaction any more. Ended the same way before, it is 'ended' again. */
  end(transaction: TransactionId, how: 'commit' | 'abort'): Promise<'ended' | 'gone'>
  /** For tools that watch how far a group is behind; nothing here reads them. */
  commitOffsets(group: string, topic: string, offsets: ReadonlyMap<number, number>): Promise<void>
  /** Since when (milliseconds since 1970) a broker that is read from has not answered; null: all of them do. */
  readonly silentSince?: number | null
  /** By partition: the offsets that a group has committed. A partition without one is left out. */
  committedOffsets(group: string, topic: string, partitions: readonly number[]): Promise<ReadonlyMap<number, number>>
  close(): Promise<void>
}
