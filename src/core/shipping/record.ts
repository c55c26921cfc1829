// A record of shipping: one object, written once under its number and never changed. Each names the digest of its
// predecessor, so a list of records is one history: a missing or torn record, or one of another shipper, does not match.
//
//   object  = "RPSHIP1\n" previous(32 bytes: H of the object before it; zeros for the first) envelope
//   envelope = sealed (engine/storage/seal), opens only under its number and its predecessor
//   content = head(text: JSON) pages(integer) [number(integer)]… bytes(the pages one after another)
//
// A base names parts instead of holding pages: separate objects of `pagesPerPart` pages each, which a later base reuses
// where they have not changed.

import { ByteReader, ByteWriter } from '../bytes.ts'
import { type Digest, equalBytes } from '../coordinate.ts'
import { RepriseError } from '../errors.ts'
import type { LogPlace } from './page-source.ts'

export interface PartRow {
  readonly key: string
  /** Digest of the stored object. */
  readonly digest: string
  /** Digest of its pages, for the next base. */
  readonly plain: string
  /** The key with which it is sealed. */
  readonly sealed: string | null
  readonly bytes: number
}

export interface RecordHead {
  readonly kind: 'base' | 'pages'
  readonly store: string
  /** The writer: one life of one shipper. */
  readonly shipper: string
  readonly place: LogPlace
  /** The record contains everything acknowledged before this time, and nothing later. By the shipper's clock. */
  readonly at: number
  /** The record contains the feed at least up to this position. */
  readonly position: number
  readonly pageBytes: number
  readonly pageCount: number
  /** False: part of a transaction; later records complete it. */
  readonly isWhole: boolean
  /** The newest base at the time of writing; for a base, the previous one. 0: there is none. */
  readonly base: number
  /** Only in a base. */
  readonly whole?: BaseState
}

/** The fields that only a base has. */
export interface BaseState {
  /** The record whose state the base holds; 0: none. Records between that record and the base still follow from it. */
  readonly asOf: number
  readonly asOfDigest: string
  /** Time and position of that state. The record itself may be later. */
  readonly at: number
  readonly position: number
  /** Earlier records do not lead to this state: some changes were never shipped as pages. */
  readonly isGap: boolean
  readonly pagesPerPart: number
  readonly parts: readonly PartRow[]
}

export interface ShipRecord {
  readonly head: RecordHead
  readonly pages: ReadonlyMap<number, Uint8Array>
}

const magic = new TextEncoder().encode('RPSHIP1\n')
const digestBytes = 32

export function frameRecord(previous: Digest, envelope: Uint8Array): Uint8Array {
  const object = new Uint8Array(magic.length + digestBytes + envelope.length)
  object.set(magic)
  object.set(previous, magic.length)
  object.set(envelope, magic.length + digestBytes)
  return object
}

/** Throws MALFORMED. */
export function unframeRecord(object: Uint8Array): { readonly previous: Digest; readonly envelope: Uint8Array } {
  if (object.length < magic.length + digestBytes || !equalBytes(object.subarray(0, magic.length), magic)) {
    throw new RepriseError('MALFORMED', 'it is not a shipped record, or has a later version')
  }
  const previous = object.subarray(magic.length, magic.length + digestBytes)
  return { previous, envelope: object.subarray(magic.length + digestBytes) }
}

export const noPrevious: Digest = new Uint8Array(digestBytes)

export function contextOf(number: number, previous: Digest): Uint8Array {
  const writer = new ByteWriter(64)
  writer.text('reprise ship 1')
  writer.integer(number)
  writer.raw(previous)
  return writer.take()
}

export const partContext = new TextEncoder().encode('reprise ship part 1')

export function encodeRecord({ head, pages }: ShipRecord): Uint8Array {
  const writer = new ByteWriter(1024 + pages.size * (head.pageBytes + 5))
  writer.text(JSON.stringify(head))
  const numbers = [...pages.keys()].sort((a, b) => a - b)
  writer.integer(numbers.length)
  for (const number of numbers) writer.integer(number)
  for (const number of numbers) writer.raw(pages.get(number)!)
  return writer.take()
}

/** Throws MALFORMED. */
export function decodeRecord(content: Uint8Array): ShipRecord {
  const reader = new ByteReader(content)
  const head = headFrom(reader.text())
  const count = reader.integer()
  const numbers = Array.from({ length: Math.min(count, reader.remaining) }, () => reader.integer())
  const pages = new Map<number, Uint8Array>()
  for (const number of numbers) pages.set(number, reader.raw(head.pageBytes))
  if (pages.size !== count || reader.remaining > 0)
    throw new RepriseError('MALFORMED', 'a shipped record is incomplete')
  return { head, pages }
}

function headFrom(text: string): RecordHead {
  try {
    return JSON.parse(text) as RecordHead
  } catch (cause) {
    throw new RepriseError('MALFORMED', 'the head of a shipped record cannot be read', {}, cause)
  }
}

const digits = 16

/** Keys sort in the order of numbers. */
export function keyOf(number: number): string {
  return `log/${String(number).padStart(digits, '0')}`
}

/** Null: the key is not that of a record. */
export function numberOf(key: string): number | null {
  const found = /^log\/(\d{16})$/.exec(key)?.[1]
  return found === undefined ? null : Number(found)
}
