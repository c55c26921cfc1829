// A message in transit to another shard, stored in an outbox until it has arrived.

import type { MessageId, TimelineId } from '../../core/coordinate.ts'
import type { Change, OutgoingMessage } from '../../core/store/ports.ts'
import { outboxFor } from '../../core/store/shards.ts'

const mark = [0x52, 0x53, 0x58, 0x01] as const
const kind = '$letter'

type Address = [to: TimelineId, id: MessageId, kind: string, life?: number]

/** @example commit.send = [toOutbox(message, 2)] */
export function toOutbox({ id, to, kind: inner, data, life }: OutgoingMessage, shard: number): OutgoingMessage {
  const address = new TextEncoder().encode(JSON.stringify(life === undefined ? [to, id, inner] : [to, id, inner, life]))
  return {
    // The same message makes the same letter.
    id: `${to.length}:${to}${id}` as MessageId,
    to: outboxFor(shard),
    kind,
    data: assemble(address, data),
  }
}

export function fromOutbox(letter: Pick<OutgoingMessage, 'data'>): OutgoingMessage {
  const { address, data } = takeApart(letter.data)
  const [to, id, inner, life] = JSON.parse(new TextDecoder().decode(address)) as Address
  return { id, to, kind: inner, data, ...(life !== undefined && { life }) }
}

/** Also changes the bytes of a message in transit. */
export function changeInside(change: Change): Change {
  return (bytes) => {
    if (!isLetter(bytes)) return change(bytes)
    const { address, data } = takeApart(bytes)
    const other = change(data)
    return other && assemble(address, other)
  }
}

function isLetter(bytes: Uint8Array): boolean {
  return bytes.length >= 8 && mark.every((byte, i) => bytes[i] === byte)
}

function assemble(address: Uint8Array, data: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(8 + address.length + data.length)
  bytes.set(mark)
  new DataView(bytes.buffer).setUint32(4, address.length)
  bytes.set(address, 8)
  bytes.set(data, 8 + address.length)
  return bytes
}

function takeApart(bytes: Uint8Array): { readonly address: Uint8Array; readonly data: Uint8Array } {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(4)
  return { address: bytes.subarray(8, 8 + length), data: bytes.slice(8 + length) }
}
