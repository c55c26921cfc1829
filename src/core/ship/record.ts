// A record of what was shipped: one object, written once and never again, under its number. Each names the digest of the one
// before it, so a list of them is one history: what is missing, torn or of another shipper does not fit.
//
//   object  = "RPSHIP1\n" previous(32 bytes: H of the object before it; zeros for the first) envelope
//   envelope = sealed (engine/storage/seal), opens only under its number and its predecessor
//   content = head(text: JSON) pages(integer) [number(integer)]… bytes(the pages one after another)
//
// A base names parts instead of holding pages: objects of their own, each of `pagesPerPart` pages, which a later base uses
// again where they have not changed.

import { ByteReader, ByteWriter } from '../bytes.ts'
import { type Digest, equalBytes } from '../coordinate.ts'
import { RepriseError } from '../errors.ts'
import type { LogPlace } from './pages.ts'

export interface PartRow {
  readonly key: string
  /** Of the object as it is stored. */
  readonly digest: string
  /** Of its pages, for the next base. */
  readonly plain: string
  /** The key it is sealed with. */
  readonly sealed: string | null
  readonly bytes: number
}

export interface RecordHead {
  readonly kind: 'base' | 'pages'
  readonly store: string
  /** Whoever wrote it: one life of one shipper. */
  readonly shipper: string
  readonly place: LogPlace
  /** Everything that was acknowledged before this time is in it, and nothing later. By the shipper's clock. */
  readonly at: number
  /** At least up to here the feed is in it. */
  readonly position: number
  readonly pageBytes: number
  readonly pageCount: number
  /** False: part of a transaction; what follows makes it whole. */
  readonly isWhole: boolean
  /** The newest base when it was written; for a base the one before. 0: there is none. */
  readonly base: number
  /** Of a base. */
  readonly whole?: Whole
}

/** What only a base says. */
export interface Whole {
  /** It is the state that this record left; 0: of none. Records between that one and the base go on from it all the same. */
  readonly asOf: number
  readonly asOfDigest: string
  /** Of that state. The record itself may be later. */
  readonly at: number
  readonly position: number
  /** What was shipped before does not lead here: something in between never left as pages. */
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
    throw new RepriseError('MALFORMED', 'it is not a record of shipping, or of a later version')
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
  if (pages.size !== count || reader.remaining > 0) throw new RepriseError('MALFORMED', 'a record of shipping is torn')
  return { head, pages }
}

function headFrom(text: string): RecordHead {
  try {
    return JSON.parse(text) as RecordHead
  } catch (cause) {
    throw new RepriseError('MALFORMED', 'the head of a record of shipping cannot be read', {}, cause)
  }
}

const digits = 16

/** In the order of numbers. */
export function keyOf(number: number): string {
  return `log/${String(number).padStart(digits, '0')}`
}

/** Null: it is no record. */
export function numberOf(key: string): number | null {
  const found = /^log\/(\d{16})$/.exec(key)?.[1]
  return found === undefined ? null : Number(found)
}
