// Decodes fetched records without aborted transactions, and encodes the records that a transaction sends.

import { createRecordBatch, encodeRecordBatchSync, isControlBatch, isTransactional, responses } from '@kafkats/client'
import type { Fetched, KafkaRecord, OutBatch, TransactionId } from './port.ts'

export type PartitionResponse = responses.FetchPartitionResponse

/**
 * Records up to the last stable offset without those of aborted transactions. A producer counts as aborted from the first
 * offset that the broker names until its abort marker; each answer names all relevant ones, so no state is kept.
 */
export async function committedOf(
  topic: string,
  response: PartitionResponse,
  from: number,
): Promise<Pick<Fetched, 'records' | 'next'>> {
  const partition = response.partitionIndex
  const batches = response.recordsData?.length ? await responses.decodePartitionRecordBatches(response) : []
  const aborts = [...response.abortedTransactions].sort((a, b) => (a.firstOffset < b.firstOffset ? -1 : 1))
  const aborted = new Set<bigint>()
  const records: KafkaRecord[] = []
  let next = from
  for (const batch of batches) {
    const last = batch.baseOffset + BigInt(batch.lastOffsetDelta)
    while (aborts.length > 0 && aborts[0]!.firstOffset <= last) aborted.add(aborts.shift()!.producerId)
    next = Math.max(next, Number(last) + 1)
    if (isControlBatch(batch.attributes)) {
      // The key of a control record holds its type in the second pair of bytes: 0 is an abort.
      if (batch.records[0]?.key?.readInt16BE(2) === 0) aborted.delete(batch.producerId)
      continue
    }
    if (isTransactional(batch.attributes) && aborted.has(batch.producerId)) continue
    for (const { offset, timestamp, key, value, headers } of batch.records) {
      if (Number(offset) < from) continue
      records.push({
        ...{ topic, partition, offset: Number(offset), time: Number(timestamp), key, value },
        headers: headers.length === 0 ? noHeaders : Object.fromEntries(headers.map((each) => [each.key, each.value])),
      })
    }
  }
  return { records, next }
}

const noHeaders = {}

export function encode({ records, sequence }: OutBatch, { producerId, epoch }: TransactionId): Buffer {
  const messages = records.map(({ key, value, headers, time }) => ({
    ...{ key: bufferOf(key), value: bufferOf(value), headers: headers as Record<string, string>, timestamp: time },
  }))
  const batch = createRecordBatch(messages, 0n, BigInt(records[0]!.time), producerId, epoch, sequence)
  return encodeRecordBatchSync(batch, { isTransactional: true })
}

function bufferOf(bytes: Uint8Array | null): Buffer | null {
  if (bytes === null || Buffer.isBuffer(bytes)) return bytes
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
