// The shipped records in an object store: each is written once, under the next number, only if that number does not
// exist. This condition is the fence: of two shippers, one finds its number taken, and stops.

import { type Digest, equalBytes, toHex } from '../../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import {
  contextOf,
  decodeRecord,
  encodeRecord,
  frameRecord,
  keyOf,
  noPrevious,
  numberOf,
  type PartRow,
  partContext,
  type RecordHead,
  type ShipRecord,
  unframeRecord,
} from '../../../core/shipping/record.ts'
import type { Objects } from '../../../core/store/objects.ts'
import type { Hash } from '../../../core/store/ports.ts'
import type { Sealer } from '../../storage/seal/seal.ts'

/** The last record of the list. */
export interface Tip {
  readonly number: number
  readonly digest: Digest
  /** Null: the record is damaged. */
  readonly head: RecordHead | null
}

export interface Appended extends Tip {
  readonly head: RecordHead
  readonly bytes: number
}

export interface FoundRecord extends ShipRecord {
  readonly number: number
  readonly digest: Digest
  readonly previous: Digest
  readonly bytes: number
}

export class ShipLog {
  readonly objects: Objects
  readonly #sealer: Sealer
  readonly #hash: Hash

  constructor(objects: Objects, sealer: Sealer, hash: Hash) {
    this.objects = objects
    this.#sealer = sealer
    this.#hash = hash
  }

  get keyId(): string | null {
    return this.#sealer.keyId
  }

  /** The listed records, in order. A list may be outdated: `newest` checks further. */
  async numbers(): Promise<number[]> {
    const rows = await this.objects.list('log/')
    return rows.flatMap(({ key }) => numberOf(key) ?? []).sort((a, b) => a - b)
  }

  /** The number of the newest record, intact or not; 0: there is none. */
  async newest(numbers?: readonly number[]): Promise<number> {
    let last = (numbers ?? (await this.numbers())).at(-1) ?? 0
    while ((await this.objects.get(keyOf(last + 1), { from: 0, bytes: 1 })) !== null) last += 1
    return last
  }

  /** Null: it does not exist. Throws MALFORMED, KEY_MISSING or DECRYPT_FAILED. */
  async read(number: number): Promise<FoundRecord | null> {
    const object = await this.objects.get(keyOf(number))
    if (!object) return null
    const { previous, envelope } = unframeRecord(object)
    const content = this.#sealer.openChecked(envelope, contextOf(number, previous))
    return { ...decodeRecord(content), number, digest: this.#hash(object), previous, bytes: object.length }
  }

  /** The digest of the stored object, intact or not. */
  async digestAt(number: number): Promise<Digest> {
    const object = await this.objects.get(keyOf(number))
    if (!object) throw lost(`record ${number} is missing`)
    return this.#hash(object)
  }

  /** Null: the number is taken. Rejects if the outcome is unknown: the record may exist or not. */
  async append(tip: Tip | null, record: ShipRecord): Promise<Appended | null> {
    const number = (tip?.number ?? 0) + 1
    const previous = tip?.digest ?? noPrevious
    const envelope = this.#sealer.sealChecked(encodeRecord(record), contextOf(number, previous))
    const object = frameRecord(previous, envelope)
    if (!(await this.objects.put(keyOf(number), object, true))) return null
    return { number, digest: this.#hash(object), head: record.head, bytes: object.length }
  }

  async putPart(key: string, pages: Uint8Array, plain: string): Promise<PartRow> {
    const object = this.#sealer.sealChecked(pages, partContext)
    await this.objects.put(key, object)
    return { key, digest: toHex(this.#hash(object)), plain, sealed: this.keyId, bytes: object.length }
  }

  digestOf(bytes: Uint8Array): string {
    return toHex(this.#hash(bytes))
  }

  /** Throws UNRECOVERABLE, and the errors of opening it. */
  async readPart(row: PartRow): Promise<Uint8Array> {
    const object = await this.objects.get(row.key)
    if (!object) throw lost(`the part ${row.key} is missing`)
    if (toHex(this.#hash(object)) !== row.digest) throw lost(`the part ${row.key} is damaged`)
    return this.#sealer.openChecked(object, partContext)
  }
}

/** The reason it cannot be used. Null: it follows the previous record. */
export function whyUnfit(before: Pick<Tip, 'digest'>, record: FoundRecord): string | null {
  return equalBytes(before.digest, record.previous) ? null : 'it does not follow the previous record'
}

/** The record, or the reason why it cannot be used. */
export async function readOr(log: ShipLog, number: number): Promise<FoundRecord | string> {
  try {
    return (await log.read(number)) ?? 'it is missing'
  } catch (error) {
    // A missing key is not damage.
    if (isReprise(error, 'MALFORMED', 'DECRYPT_FAILED')) return error.message
    throw error
  }
}

export function lost(what: string): RepriseError {
  return new RepriseError('UNRECOVERABLE', what)
}
