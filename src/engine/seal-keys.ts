// The keys behind sealing. A record is never encrypted with a key of the ring itself but with one derived from it, for one
// purpose and one salt: random nonces stay far from repeating however many records a key lives through.

import { createHmac, createSecretKey, type KeyObject, randomFillSync } from 'node:crypto'
import { RepriseError } from '../core/errors.ts'

export interface KeyRing {
  /** The id of the key that seals. The others still open. */
  readonly current: string
  /** Id (1 to 64 characters) to key (32 bytes). */
  readonly keys: Readonly<Record<string, Uint8Array>>
}

export const saltBytes = 12
const keyBytes = 32
const idLengthMax = 64
const sealsPerSalt = 2 ** 24
const derivedKept = 256

interface Session {
  readonly salt: Uint8Array
  readonly key: KeyObject
  sealed: number
}

export class DerivedKeys {
  readonly current: string
  readonly #ring = new Map<string, Uint8Array>()
  readonly #derived = new Map<string, KeyObject>()
  #session: Session | null = null

  constructor(ring: KeyRing) {
    for (const [id, key] of Object.entries(ring.keys)) {
      checkId(id)
      if (!(key instanceof Uint8Array) || key.length !== keyBytes) throw invalid(`key ${id} is not ${keyBytes} bytes`)
      this.#ring.set(id, key.slice())
    }
    if (!this.#ring.has(ring.current)) throw invalid(`the current key ${ring.current} is not in the ring`)
    this.current = ring.current
  }

  /** The key for new records, with the salt that a reader needs to find it again. */
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
    return this.#derive(id, 'chunk', new Uint8Array(0))
  }

  chunkNonce(id: string): KeyObject {
    return this.#derive(id, 'chunk nonce', new Uint8Array(0))
  }

  #derive(id: string, purpose: string, salt: Uint8Array): KeyObject {
    const name = `${id}\0${purpose}\0${Buffer.from(salt).toString('latin1')}`
    const known = this.#derived.get(name)
    if (known) return known
    const key = this.#ring.get(id)
    if (!key) throw new RepriseError('KEY_MISSING', `the key ${JSON.stringify(id)} is not in the key ring`, { key: id })
    const derived = createSecretKey(createHmac('sha256', key).update(`reprise/1 ${purpose}\0`).update(salt).digest())
    if (this.#derived.size >= derivedKept) this.#derived.clear()
    this.#derived.set(name, derived)
    return derived
  }
}

function checkId(id: string): void {
  if (id.length < 1 || id.length > idLengthMax || !/^[\x21-\x7e]+$/.test(id)) {
    throw invalid(`a key id has 1 to ${idLengthMax} printable ASCII characters`)
  }
}

function invalid(message: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', message)
}
