// Where a fingerprint is: 256 small tables of places, chosen by its first byte. Small tables grow one at a time, so growing
// neither holds up the event loop nor needs the memory of two whole tables. An entry is 32 bits: 5 bits of the fingerprint,
// which spare most looks at fingerprints that are not the one, and the place + 1; 0 is empty.

import { assert } from '../../core/assert.ts'

const placeBits = 27
const placeMask = 2 ** placeBits - 1
/** 134,217,727 keys a shard: by then they take more than 2 GB, and the job wants more shards. */
export const placesMax = placeMask

/** Tables are at most this full… */
const fullest = 0.75
/** …and grow by this factor: less would move the places more often, each move looks at the fingerprint again, and more would
 *  leave more of them empty. */
const growth = 2
const tableCount = 256

/** Tables begin with different lengths, so that they do not all grow in the same moment, nor are all half empty after it. */
const firstLength = (index: number) => Math.ceil(8 * growth ** (index / tableCount))

export class Places {
  /** Fingerprints one after another; the place of one is its number. Grows beside us. */
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

  /** -1: not there. */
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

  /** The caller has looked that it is not there. */
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
