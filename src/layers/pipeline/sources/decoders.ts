// What the bytes of a broker's record mean. One that cannot be read is a dead letter.

/** A record of a broker: Kafka's and NATS's have their bytes here. */
export interface ByteRecord {
  readonly value: Uint8Array | null
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

function textOf({ value }: ByteRecord): string {
  if (value === null) throw new TypeError('the record has no value: it deletes its key')
  return utf8.decode(value)
}
