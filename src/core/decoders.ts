// Decoders for the bytes of a broker's record. A record that cannot be decoded is a dead letter.

import { checkFunction } from './synchronous.ts'

/** A record of a broker: Kafka's and NATS's have their bytes here. */
export interface ByteRecord {
  readonly value: Uint8Array | null
}

/** A record of a broker that has keys: Kafka's. */
export interface KeyedByteRecord extends ByteRecord {
  readonly key: Uint8Array | null
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** @example p.from('orders', kafka({ brokers, topic: 'orders' }), { decode: json<Order>() }) */
export function json<T>(): (record: ByteRecord) => T {
  return (record) => JSON.parse(textOf(record)) as T
}

/** @example p.from('log', nats({ servers, stream: 'LOG' }), { decode: text() }) */
export function text(): (record: ByteRecord) => string {
  return textOf
}

/**
 * The key of each record beside its value, for a topic whose records replace each other by key. A tombstone (a record without a
 * value, which deletes its key) has the value null. A record without a key is a dead letter.
 * @example p.from('prices', kafka({ brokers, topic }), { decode: keyValue(json<Price>()) }).keyBy((c) => c.key, (c) => c.value)
 */
export function keyValue<T>(
  decode: (record: ByteRecord) => T,
): (record: KeyedByteRecord) => { readonly key: string; readonly value: T | null } {
  checkFunction(decode, 'keyValue()')
  return (record) => {
    if (record.key === null) throw new TypeError('the record has no key')
    return { key: utf8.decode(record.key), value: record.value === null ? null : decode(record) }
  }
}

function textOf({ value }: ByteRecord): string {
  if (value === null) throw new TypeError('the record has no value: it deletes its key; keyValue() reads such records')
  return utf8.decode(value)
}
