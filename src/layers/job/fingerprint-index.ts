// The index of fingerprints: 256 small tables of places, chosen by the first byte. Small tables grow one at a time, so
// growing neither blocks the event loop nor needs the memory of two whole tables. An entry is 32 bits: 5 bits of the
// fingerprint, which avoid most comparisons with other fingerprints, and the place + 1; 0 is empty.

import { assert } from '../../core/assert.ts'

const placeBits = 27
const placeMask = 2 ** placeBits - 1
/** 134,217,727 keys per shard: at that size they take more than 2 GB, and the job needs more shards. */
export const placesMax = placeMask

/** The highest load factor of a table. */
const fullest = 0.75
/**
 * The growth factor: a smaller one would move places more often, and each move reads the fingerprint again; a larger
 * one would leave more of a table empty.
 */
const growth = 2
const tableCount = 256

/** Tables begin with different lengths, so that they do not all grow at once, or end up half empty together. */
const firstLength = (index: number) => Math.ceil(8 * growth ** (index / tableCount))

export class FingerprintIndex {
  /** Fingerprints in order; a place is the number of a fingerprint. The owner appends to it. */
  readonly #segments: readonly Uint8Array[]
  readonly #segmentKeys: number
  readonly #bytes: number
  /** Open addressing. */
  readonly #tables: Uint32Array[] = Array.from({ length: tableCount }, (_, i) => new Uint32Array(firstLength(i)))
  readonly #sizes = new Uint32Array(tableCount)

  constructor(segments: readonly Uint8Array[], segmentKeys: number, fingerprintBytes: number) {
    this.#segments = segments
    this.#segmentKeys = segmentKeys
    this.#bytes = fingerprintBytes
  }

  /** Returns -1 if the fingerprint is not present. */
  find(print: string): number {
    const table = this.#tables[print.charCodeAt(0)]!
    const { length } = table
    const home =
      print.charCodeAt(1) | (print.charCodeAt(2) << 8) | (print.charCodeAt(3) << 16) | (print.charCodeAt(4) << 24)
    const tag = print.charCodeAt(5) >>> 3
    let at = (home >>> 0) % length
    for (let entry = table[at]!; entry !== 0; entry = table[at]!) {
      if (entry >>> placeBits === tag) {
        const place = (entry & placeMask) - 1
        if (this.#isAt(place, print)) return place
      }
      at = at + 1 === length ? 0 : at + 1
    }
    return -1
  }

  /** The caller has checked that the fingerprint is not present. */
  add(place: number): void {
    assert(place < placesMax, 'a shard of a job holds at most 134,217,727 finished keys: divide it into more shards')
    const segment = this.#segments[Math.floor(place / this.#segmentKeys)]!
    const index = segment[(place % this.#segmentKeys) * this.#bytes]!
    this.#sizes[index]! += 1
    if (this.#sizes[index]! > this.#tables[index]!.length * fullest) this.#grow(index)
    this.#enter(this.#tables[index]!, place)
  }

  #grow(index: number): void {
    const old = this.#tables[index]!
    const larger = new Uint32Array(Math.ceil(old.length * growth))
    this.#tables[index] = larger
    for (let i = 0; i < old.length; i++) if (old[i] !== 0) this.#enter(larger, (old[i]! & placeMask) - 1)
  }

  #enter(table: Uint32Array, place: number): void {
    const { length } = table
    const segment = this.#segments[Math.floor(place / this.#segmentKeys)]!
    const from = (place % this.#segmentKeys) * this.#bytes
    const home =
      segment[from + 1]! | (segment[from + 2]! << 8) | (segment[from + 3]! << 16) | (segment[from + 4]! << 24)
    const tag = segment[from + 5]! >>> 3
    let at = (home >>> 0) % length
    while (table[at] !== 0) at = at + 1 === length ? 0 : at + 1
    table[at] = ((tag << placeBits) | (place + 1)) >>> 0
  }

  #isAt(place: number, print: string): boolean {
    const segment = this.#segments[Math.floor(place / this.#segmentKeys)]!
    const from = (place % this.#segmentKeys) * this.#bytes
    for (let i = 0; i < this.#bytes; i++) if (segment[from + i] !== print.charCodeAt(i)) return false
    return true
  }
}
