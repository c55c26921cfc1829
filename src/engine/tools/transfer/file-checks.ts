// Validates the values of an export file before they are used: the file may come from an untrusted source. A value of the wrong
// shape is NOT_A_SAVEPOINT and names the field.

import { ByteReader } from '../../../core/bytes.ts'
import { equalBytes, type MessageId } from '../../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { inheritedAttribute, isInheritance } from '../../../core/history/inheritance.ts'
import type { EntryRun, ManifestRecord } from '../../../core/store/ports.ts'
import type { Carried } from '../../storage/carried-identity.ts'
import { markIn, movedAttribute } from '../../storage/moved-mark.ts'
import type { Header, TransferredMessage } from './export.ts'

type Check = (value: unknown) => boolean

const isText: Check = (value) => typeof value === 'string' && value.length <= 4096 && !value.includes('\0')
const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0
const isNumber: Check = (value) => typeof value === 'number' && Number.isFinite(value)
const isDigest: Check = (value) => value instanceof Uint8Array && value.length === 32
const isBytes: Check = (value) => value instanceof Uint8Array
const isFlag: Check = (value) => typeof value === 'boolean'
const isAttributes: Check = (value) => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const { [inheritedAttribute]: inherited, [movedAttribute]: moved } = value as Header['attributes']
  return (inherited === undefined || isInheritance(inherited)) && (moved === undefined || isMoved(value))
}
const isMoved: Check = (value) => {
  const { to, at, was } = markIn({ attributes: value as Header['attributes'] }) ?? {}
  return (
    isText(to) && isNumber(at) && isText(was?.status) && orNull(isText)(was?.queue) && orNull(isNumber)(was?.wakeup)
  )
}
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value)
const orMissing =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value)

const isCarried: Check = (value) => {
  const { identity, isOwn, generation, offset } = (value ?? {}) as Partial<Carried>
  const isIdentity = typeof identity === 'string' && /^[0-9a-f]{32}$/.test(identity)
  return isIdentity && isFlag(isOwn) && isCount(generation) && isCount(offset)
}

const header: Readonly<Record<keyof Header, Check>> = {
  timeline: isText,
  seq: isCount,
  epoch: isCount,
  digest: isDigest,
  floor: isCount,
  floorDigest: isDigest,
  attributes: isAttributes,
  exportedAt: isNumber,
  status: orMissing(isText),
  queue: orMissing(orNull(isText)),
  priority: orMissing(isNumber),
  wakeup: orMissing(orNull(isNumber)),
  wasOwned: orMissing(isFlag),
  life: orMissing(isCount),
  carried: orMissing(isCarried),
  feed: orMissing(isText),
}

const record: Readonly<Record<keyof ManifestRecord, Check>> = {
  id: isText,
  seq: isCount,
  epoch: isCount,
  digest: isDigest,
  body: isBytes,
  bodyDigest: isDigest,
  baseId: orNull(isText),
  createdAt: isNumber,
  trigger: isText,
  label: orNull(isText),
  isPinned: isFlag,
  foldVersion: isText,
  totalBytes: isCount,
  addedBytes: isCount,
  verifiedAt: orNull(isNumber),
  invalid: orNull(isText),
  drilledAt: orNull(isNumber),
  drill: orNull(isText),
}

const message: Readonly<Record<keyof TransferredMessage, Check>> = {
  id: (value) => isText(value) && value !== '',
  to: isText,
  kind: (value) => isText(value) && value !== '',
  data: isBytes,
}

/** History that starts late needs a state to start from. */
export function checkOpens({ timeline, seq, floor, floorDigest }: Header, records: readonly ManifestRecord[]): void {
  for (const record of records) {
    if (record.seq <= seq && record.invalid === null) continue
    throw new RepriseError('NOT_A_SAVEPOINT', `checkpoint ${record.id} in the file cannot be one of ${timeline}@${seq}`)
  }
  const isStart = records.some(
    (record) => record.seq > floor || (record.seq === floor && equalBytes(record.digest, floorDigest)),
  )
  if (floor === 0 || isStart) return
  throw new RepriseError(
    'NOT_A_SAVEPOINT',
    `history in the file starts after ${floor}, and no checkpoint in it is at or above that: it could never be opened`,
    { timeline, floor },
  )
}

export function headerOf(value: unknown): Header {
  const checked = pick<Header>(value, header, 'header')
  if (checked.floor > checked.seq) throw wrong('header', 'floor', 'is above its end')
  return checked
}

export function recordOf(value: unknown): ManifestRecord {
  return pick<ManifestRecord>(value, record, 'checkpoint')
}

export function messageOf(value: unknown): TransferredMessage {
  return pick<TransferredMessage>(value, message, 'message')
}

export function readIdsOf(value: unknown): MessageId[] {
  if (Array.isArray(value) && value.every(message.id)) return value
  throw wrong('list of read messages', 'id', 'has an invalid shape')
}

export function decodeRun(bytes: Uint8Array): EntryRun {
  try {
    const reader = new ByteReader(bytes)
    return {
      first: reader.integer(),
      count: reader.integer(),
      digest: reader.raw(32).slice(),
      bytes: reader.raw(reader.remaining).slice(),
    }
  } catch (error) {
    if (isReprise(error, 'MALFORMED'))
      throw new RepriseError('NOT_A_SAVEPOINT', 'a run in the file is malformed', {}, error)
    throw error
  }
}

/** Picks known fields only: additional fields are dropped. */
function pick<Shape>(value: unknown, fields: Readonly<Record<keyof Shape, Check>>, what: string): Shape {
  if (typeof value !== 'object' || value === null) throw wrong(what, '', 'is not an object')
  const picked: Record<string, unknown> = {}
  for (const [name, isRight] of Object.entries<Check>(fields)) {
    const given = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
    if (!isRight(given)) throw wrong(what, name, 'has an invalid shape')
    if (given !== undefined) picked[name] = given
  }
  return picked as Shape
}

function wrong(what: string, field: string, why: string): RepriseError {
  return new RepriseError('NOT_A_SAVEPOINT', `the file cannot be imported: ${field} of a ${what} in it ${why}`, {
    what,
    field,
  })
}
