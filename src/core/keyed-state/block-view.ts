// Reads a block (block.ts) in place: one pass finds the start of each entry, and lookups then compare bytes. Keys and
// values are decoded one by one, so reading one row costs one row. The pass checks the same as readBlock: the version, that
// nothing is cut off, that keys ascend.

import { ByteReader } from '../bytes.ts'
import { RepriseError } from '../errors.ts'
import { formatVersion, readKey } from './block.ts'

export class BlockView {
  readonly #bytes: Uint8Array
  /** Offset of each entry's key, at its length. */
  readonly #starts: Uint32Array

  /** `entries` is the expected number of entries; any other number is MALFORMED. */
  constructor(bytes: Uint8Array, entries: number) {
    // Taking views of a Buffer is slow.
    this.#bytes = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length)
    if (entries > bytes.length) throw new RepriseError('MALFORMED', `a block has fewer than ${entries} entries`)
    this.#starts = new Uint32Array(entries)
    this.#scan()
  }

  get size(): number {
    return this.#starts.length
  }

  /** Memory use in bytes. */
  get memoryBytes(): number {
    return this.#bytes.length + this.#starts.byteLength
  }

  key(at: number): string {
    return readKey(new ByteReader(this.#bytes, this.#starts[at]!))
  }

  /** The encoded value; null: the key was removed. */
  value(at: number): Uint8Array | null {
    const reader = new ByteReader(this.#bytes, this.#starts[at]!)
    const units = reader.integer()
    reader.skip(keyBytes(units))
    const size = reader.integer()
    return size === 0 ? null : reader.raw(size - 1)
  }

  /** The index of the key, or -1. */
  find(key: string): number {
    let low = 0
    let high = this.#starts.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const order = this.#compare(middle, key)
      if (order === 0) return middle
      if (order < 0) low = middle + 1
      else high = middle
    }
    return -1
  }

  #scan(): void {
    const reader = new ByteReader(this.#bytes)
    const version = reader.byte()
    if (version !== formatVersion) {
      const data = { version, known: formatVersion }
      throw new RepriseError('INCOMPATIBLE_VERSION', `block format ${version} is not known`, data)
    }
    let count = 0
    while (reader.remaining > 0) {
      if (count >= this.#starts.length) throw new RepriseError('MALFORMED', `a block has more than ${count} entries`)
      this.#starts[count] = reader.offset
      reader.skip(keyBytes(reader.integer()))
      const size = reader.integer()
      if (size > 0) reader.skip(size - 1)
      if (count > 0 && !this.#ascends(this.#starts[count - 1]!, this.#starts[count]!)) {
        throw new RepriseError('MALFORMED', 'keys of a block are out of order')
      }
      count += 1
    }
    if (count !== this.#starts.length) throw new RepriseError('MALFORMED', `a block has ${count} entries`)
  }

  #ascends(before: number, after: number): boolean {
    const bytes = this.#bytes
    const [units, otherUnits] = [bytes[before]!, bytes[after]!]
    // Nearly all keys are short and have one byte per character: these are compared in place.
    if ((units & 0x81) === 0 && (otherUnits & 0x81) === 0) {
      const [length, otherLength] = [units >>> 1, otherUnits >>> 1]
      const both = Math.min(length, otherLength)
      for (let i = 1; i <= both; i++) {
        const [unit, other] = [bytes[before + i]!, bytes[after + i]!]
        if (unit !== other) return unit < other
      }
      return length < otherLength
    }
    return readKey(new ByteReader(bytes, before)) < readKey(new ByteReader(bytes, after))
  }

  /** Below 0: the key of the entry comes first. Compares by code units, as strings do. */
  #compare(at: number, key: string): number {
    const bytes = this.#bytes
    const start = this.#starts[at]!
    const units = bytes[start]!
    if ((units & 0x81) !== 0) {
      const own = this.key(at)
      return own < key ? -1 : own > key ? 1 : 0
    }
    const length = units >>> 1
    const both = Math.min(length, key.length)
    for (let i = 0; i < both; i++) {
      const order = bytes[start + 1 + i]! - key.charCodeAt(i)
      if (order !== 0) return order
    }
    return length - key.length
  }
}

function keyBytes(units: number): number {
  return units % 2 === 0 ? units / 2 : units - 1
}
