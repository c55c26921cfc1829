// A coordinate names a position in history: timeline + sequence + epoch + digest of the history up to that
// sequence. Ids are path-like text; they are data, never paths or SQL.

import { RepriseError } from './errors.ts'

declare const brand: unique symbol
export type Branded<Name extends string> = string & { readonly [brand]: Name }

/** Path-like id of a timeline, unique in its namespace: `workflow/checkout/order-42`. */
export type TimelineId = Branded<'timeline'>
/** One incarnation of a worker process: its name and a random suffix. */
export type WorkerId = Branded<'worker'>
export type ManifestId = Branded<'manifest'>
export type MessageId = Branded<'message'>
/** Unique for each attempt to write, so that the result can be looked up after a lost answer. */
export type OperationId = Branded<'operation'>

/** SHA-256, 32 bytes. */
export type Digest = Uint8Array

export interface Coordinate {
  readonly timeline: string
  readonly seq: number
  /** The epoch of the timeline's owner when the coordinate was read. No check uses it: the digest identifies the history. */
  readonly epoch: number
  /** Hexadecimal, 64 characters. */
  readonly digest: string
}

/** A place in the history of one timeline, without its id. */
export type HistoryPoint = Pick<Coordinate, 'seq' | 'digest'>

const digestDigits = 16

/** The text of a place in history outside of the store: SEQ:DIGEST. @example pointText(coordinate) // '17:9f86d081884c7d65' */
export function pointText({ seq, digest }: HistoryPoint): string {
  return `${seq}:${digest.slice(0, digestDigits)}`
}

/** Null: not SEQ:DIGEST, with at least 16 digits of the digest. */
export function parsePoint(text: string): HistoryPoint | null {
  const [, seq, digest] = /^(\d{1,15}):([0-9a-f]{16,64})$/.exec(text) ?? []
  return digest === undefined ? null : { seq: Number(seq), digest }
}

/** `given` may have only the first digits of the digest. */
export function isSamePoint(given: HistoryPoint, { seq, digest }: HistoryPoint): boolean {
  return given.seq === seq && given.digest.length >= digestDigits && digest.startsWith(given.digest)
}

const controlCharacters = /\p{Cc}/u
const loneSurrogate = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/

/** @example timelineId('counter/visits') */
export function timelineId(text: string, lengthMax = 512): TimelineId {
  const reason =
    typeof text !== 'string'
      ? 'is not a string'
      : text.length === 0
        ? 'is empty'
        : text.length > lengthMax
          ? `has ${text.length} characters, more than ${lengthMax}`
          : controlCharacters.test(text)
            ? 'contains a control character'
            : loneSurrogate.test(text)
              ? 'contains half of a surrogate pair'
              : text.startsWith('/') || text.endsWith('/') || text.includes('//')
                ? 'has an empty segment'
                : undefined
  if (reason) throw new RepriseError('INVALID_ID', `timeline id ${reason}`, { id: String(text).slice(0, 80) })
  return text as TimelineId
}

/** A lone half of a surrogate pair has no UTF-8 encoding: two different texts could encode to the same bytes. */
export function isWellFormed(text: string): boolean {
  return !loneSurrogate.test(text)
}

const hexOf = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** @example toHex(new Uint8Array([255])) // 'ff' */
export function toHex(bytes: Uint8Array): string {
  let text = ''
  let at = 0
  for (; at + 4 <= bytes.length; at += 4) text += hexOfFour(bytes, at)
  for (; at < bytes.length; at++) text += hexOf[bytes[at]!]
  return text
}

/** Text joined from a piece per byte takes twice as long, and a digest is written this way several times per run. */
function hexOfFour(bytes: Uint8Array, at: number): string {
  const a = bytes[at]!
  const b = bytes[at + 1]!
  const c = bytes[at + 2]!
  const d = bytes[at + 3]!
  return String.fromCharCode(
    hexDigit(a >> 4),
    hexDigit(a & 15),
    hexDigit(b >> 4),
    hexDigit(b & 15),
    hexDigit(c >> 4),
    hexDigit(c & 15),
    hexDigit(d >> 4),
    hexDigit(d & 15),
  )
}

function hexDigit(value: number): number {
  return value < 10 ? 48 + value : 87 + value
}

/** @example fromHex('ff') // Uint8Array [255] */
export function fromHex(text: string): Uint8Array {
  if (text.length % 2 !== 0 || !/^[0-9a-f]*$/.test(text)) {
    throw new RepriseError('INVALID_ARGUMENT', 'a digest must be written in lower-case hexadecimal', {
      text: text.slice(0, 80),
    })
  }
  const bytes = new Uint8Array(text.length / 2)
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16)
  return bytes
}

export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}
