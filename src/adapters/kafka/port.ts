// The operations that pipelines need from a Kafka client: partitions are assigned by the pipeline and offsets are stored in
// checkpoints, so no consumer group is needed; any process with a TransactionId can end a transaction, so no producer object
// is needed. kafkats.ts implements the port; another client would have to pass the same tests.

import type { Duration } from '../../core/duration.ts'

export interface KafkaConnecting {
  /** Addresses to connect to: host:port. */
  readonly brokers: readonly string[]
  readonly clientId?: string
  /** How long brokers may be unavailable before the run ends with BROKER_AWAY. Default: 1 minute. */
  readonly awayFor?: Duration
  /** Further options of `KafkaClient` of @kafkats/client: tls, sasl, timeouts. */
  readonly client?: Readonly<Record<string, unknown>>
}

export interface KafkaRecord {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  /** Milliseconds since 1970, set by the producer or the broker. */
  readonly time: number
  readonly key: Uint8Array | null
  readonly value: Uint8Array | null
  readonly headers: Readonly<Record<string, Uint8Array | null>>
}

export interface KafkaOut {
  /** Null: any partition. Default: null. */
  readonly key?: string | Uint8Array | null
  /** Null deletes the key in a compacted topic. */
  readonly value: string | Uint8Array | null
  readonly headers?: Readonly<Record<string, string>>
  /** Default: chosen by the key, as Java's producers do. */
  readonly partition?: number
  /** Milliseconds since 1970. Default: now. */
  readonly time?: number
}

export interface Fetched {
  readonly partition: number
  /** 'gone': the broker does not have this offset. 'later': retry, for example while a leader is being elected. */
  readonly outcome: 'ok' | 'gone' | 'later'
  /** Records of committed transactions, and records without a transaction. */
  readonly records: readonly KafkaRecord[]
  /** The next offset, after records that were filtered out too. */
  readonly next: number
}

/** Identifies a transaction; any process that has it can end the transaction. */
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
  /** Sequence of the first record in this transaction: the broker recognises a batch that is sent again. */
  readonly sequence: number
}

export interface KafkaPort {
  /** NOT_FOUND if the topic does not exist. */
  partitions(topic: string): Promise<readonly number[]>
  offset(topic: string, partition: number, at: 'oldest' | 'newest' | number): Promise<number>
  fetch(
    topic: string,
    wanted: readonly { readonly partition: number; readonly offset: number }[],
    waitMs: number,
  ): Promise<readonly Fetched[]>
  /**
   * Aborts an open transaction under this id, and fences its producer. With `known`: only if no newer transaction was begun
   * since; TRANSACTION_EXPIRED otherwise.
   */
  begin(id: string, timeoutMs: number, known?: TransactionId): Promise<TransactionId>
  addPartitions(transaction: TransactionId, topic: string, partitions: readonly number[]): Promise<void>
  produce(transaction: TransactionId, topic: string, batches: readonly OutBatch[]): Promise<void>
  /** 'gone': the transaction no longer exists. If it already ended the same way, the result is 'ended' again. */
  end(transaction: TransactionId, how: 'commit' | 'abort'): Promise<'ended' | 'gone'>
  /** For tools that monitor the lag of a group; nothing here reads them. */
  commitOffsets(group: string, topic: string, offsets: ReadonlyMap<number, number>): Promise<void>
  /** The time (milliseconds since 1970) since which a broker has not answered; null: all answer. */
  readonly silentSince?: number | null
  /** By partition: the offsets that a group has committed. Partitions without one are absent. */
  committedOffsets(group: string, topic: string, partitions: readonly number[]): Promise<ReadonlyMap<number, number>>
  close(): Promise<void>
}
