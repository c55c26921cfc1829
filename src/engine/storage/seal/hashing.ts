// Keyed hashes in place of plain text: values of attributes that the ring names, and values that a program puts into an
// id.
// Equal values have equal hashes, so a program that knows a value can still search for it.

import { createHmac } from 'node:crypto'
import { RepriseError } from '../../../core/errors.ts'
import type { Attribute } from '../../../core/store/ports.ts'
import type { Hashing } from './keys.ts'

const keyBytes = 32
const hashBytes = 24
/** A value that is hashed already: from an import, or from a head that was read and written again. */
const hashed = /^#[A-Za-z0-9_-]{32}$/

type Attributes = Readonly<Record<string, Attribute | null>>

export class Hasher {
  readonly #key: Uint8Array
  readonly #attributes: ReadonlySet<string>

  constructor({ key, attributes = [] }: Hashing) {
    if (!(key instanceof Uint8Array) || key.length !== keyBytes) {
      throw new RepriseError('INVALID_ARGUMENT', `hashing.key must be ${keyBytes} bytes`)
    }
    if (!Array.isArray(attributes) || !attributes.every((name) => typeof name === 'string')) {
      throw new RepriseError('INVALID_ARGUMENT', 'hashing.attributes must be a list of names', {
        option: 'hashing.attributes',
      })
    }
    const own = attributes.find((name) => name.startsWith('$'))
    if (own) throw new RepriseError('INVALID_ARGUMENT', `${own} is an attribute of the engine, and is not hashed`)
    this.#key = key.slice()
    this.#attributes = new Set(attributes)
  }

  /** For an id, or anything else. @example `customer/${hasher.text('anna@example.com')}` */
  text(value: string): string {
    return this.#hash('text', value)
  }

  /** The attributes, with the configured values hashed; null removes an attribute, hashed or not. */
  attributes<Given extends Attributes>(given: Given): Given {
    if (!Object.keys(given).some((name) => this.#attributes.has(name))) return given
    const entries = Object.entries(given).map(([name, value]) => [name, this.#attribute(name, value)] as const)
    return Object.fromEntries(entries) as Given
  }

  #attribute(name: string, value: Attribute | null): Attribute | null {
    if (value === null || !this.#attributes.has(name)) return value
    if (typeof value === 'string' && hashed.test(value)) return value
    return `#${this.#hash(`attribute ${name}`, `${typeof value} ${value}`)}`
  }

  #hash(purpose: string, value: string): string {
    const mac = createHmac('sha256', this.#key).update(`reprise/1 ${purpose}\0`).update(value)
    return mac.digest().subarray(0, hashBytes).toString('base64url')
  }
}
