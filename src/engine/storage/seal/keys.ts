// The keys used for sealing. A record is never encrypted with a key of the ring itself but with a key derived from it,
// for one purpose and one salt: random nonces stay far from repeating, however many records are sealed under a key.

import { createHmac, createSecretKey, type KeyObject, randomFillSync } from 'node:crypto'
import { RepriseError } from '../../../core/errors.ts'
import { checkObject } from '../../../core/options.ts'

export interface KeyRing {
  /** The id of the key that seals. All keys of the ring open. */
  readonly current: string
  /** Id (1 to 64 characters) to key (32 bytes). */
  readonly keys: Readonly<Record<string, Uint8Array>>
  /** Seals the types of entries, too. Default: they are stored in plain text beside the sealed data. */
  readonly hides?: readonly 'types'[]
  /** Values that are hashed with a key of their own, so that they can still be searched for. See docs/guides/encryption.md. */
  readonly hashing?: Hashing
}

export interface Hashing {
  /** 32 bytes. Must never change: lookups of values hashed under another key find nothing. */
  readonly key: Uint8Array
  /** Attributes whose values are stored hashed, and searched by hash. */
  readonly attributes?: readonly string[]
}

export const saltBytes = 12
const keyBytes = 32
const idLengthMax = 64
const sealsPerSalt = 2 ** 24
const noSalt = new Uint8Array(0)
const derivedKept = 256
/** A record is opened soon after it was read, so keys from wrapped records need not be kept for long. */
const adoptedKept = 65_536

interface Session {
  readonly salt: Uint8Array
  readonly key: KeyObject
  sealed: number
}

export class DerivedKeys {
  readonly current: string
  readonly #ring = new Map<string, Uint8Array>()
  readonly #derived = new Map<string, KeyObject>()
  /** Derived keys from wrapped records (wrap.ts), whose origin may have left the ring. */
  readonly #adopted = new Map<string, Uint8Array>()
  #session: Session | null = null

  constructor(ring: KeyRing) {
    checkObject('the keys of the option keys', ring.keys)
    for (const [id, key] of Object.entries(ring.keys)) {
      checkId(id)
      if (!(key instanceof Uint8Array) || key.length !== keyBytes) throw invalid(`key ${id} is not ${keyBytes} bytes`)
      this.#ring.set(id, key.slice())
    }
    if (!this.#ring.has(ring.current)) throw invalid(`the current key ${ring.current} is not in the ring`)
    this.current = ring.current
  }

  /** The key for new records, with the salt from which a reader derives it again. */
  session(): { readonly salt: Uint8Array; readonly key: KeyObject } {
    if (this.#session === null || this.#session.sealed >= sealsPerSalt) {
      const salt = randomFillSync(new Uint8Array(saltBytes))
      this.#session = { salt, key: this.record(this.current, salt), sealed: 0 }
    }
    this.#session.sealed += 1
    return this.#session
  }

  record(id: string, salt: Uint8Array): KeyObject {
    return this.#derive(id, 'record', salt)
  }

  chunk(id: string): KeyObject {
    return this.#derive(id, 'chunk', noSalt)
  }

  chunkNonce(id: string): KeyObject {
    return this.#derive(id, 'chunk nonce', noSalt)
  }

  has(id: string): boolean {
    return this.#ring.has(id)
  }

  /** Distinguishes two keys of one id, and reveals nothing else about them. */
  proof(id: string): string | null {
    const key = this.#ring.get(id)
    return key ? createHmac('sha256', key).update('reprise/1 proof').digest('hex').slice(0, 16) : null
  }

  get ids(): readonly string[] {
    return [...this.#ring.keys()]
  }

  /** Keeps a derived key (of a record, with its salt, or of chunks) whose origin may have left the ring. */
  adopt(id: string, salt: Uint8Array | null, key: Uint8Array): void {
    if (this.#ring.has(id)) return
    const name = nameOf(id, salt ? 'record' : 'chunk', salt ?? noSalt)
    // The newest is last: a full map drops the oldest.
    this.#adopted.delete(name)
    this.#adopted.set(name, key)
    if (this.#adopted.size > adoptedKept) this.#adopted.delete(this.#adopted.keys().next().value!)
  }

  #derive(id: string, purpose: string, salt: Uint8Array): KeyObject {
    const name = nameOf(id, purpose, salt)
    const known = this.#derived.get(name)
    if (known) return known
    const key = this.#ring.get(id)
    const adopted = key ? undefined : this.#adopted.get(name)
    if (!key && !adopted) {
      throw new RepriseError('KEY_MISSING', `the key ${JSON.stringify(id)} is not in the key ring`, { key: id })
    }
    const bytes = key ? createHmac('sha256', key).update(`reprise/1 ${purpose}\0`).update(salt).digest() : adopted!
    const derived = createSecretKey(bytes)
    if (this.#derived.size >= derivedKept) this.#derived.clear()
    this.#derived.set(name, derived)
    return derived
  }
}

function nameOf(id: string, purpose: string, salt: Uint8Array): string {
  return `${id}\0${purpose}\0${Buffer.from(salt).toString('latin1')}`
}

function checkId(id: string): void {
  if (id.length < 1 || id.length > idLengthMax || !/^[\x21-\x7e]+$/.test(id)) {
    throw invalid(`the id of a key must have 1 to ${idLengthMax} printable ASCII characters`)
  }
}

function invalid(message: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', message)
}
