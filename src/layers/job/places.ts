// Where a fingerprint is: 256 small tables of places, chosen by its first byte. Small tables grow one at a time, so growing
// neither holds up the event loop nor needs the memory of two whole tables.

/** Tables are at most this full… */
const fullest = 0.8
/** …and grow by this factor, so they are seldom less than two thirds full. */
const growth = 1.25
const tableCount = 256

export class Places {
  /** Fingerprints one after another; the place of one is its number. Grows beside us. */
  readonly #segments: readonly Uint8Array[]
  readonly #segmentKeys: number
  readonly #bytes: number
  /** Places + 1; 0 is empty. Open addressing. */
  readonly #tables: Uint32Array[] = Array.from({ length: tableCount }, () => new Uint32Array(8))
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
    let at =
      ((print.charCodeAt(1) |
        (print.charCodeAt(2) << 8) |
        (print.charCodeAt(3) << 16) |
        (print.charCodeAt(4) << 24)) >>>
        0) %
      length
    for (let entry = table[at]!; entry !== 0; entry = table[at]!) {
      if (this.#isAt(entry - 1, print)) return entry - 1
      at = at + 1 === length ? 0 : at + 1
    }
    return -1
  }

  /** The caller has looked that it is not there. */
  add(place: number): void {
    const segment = this.#segments[Math.floor(place / this.#segmentKeys)]!
    const index = segment[(place % this.#segmentKeys) * this.#bytes]!
    this.#sizes[index]! += 1
    if (this.#sizes[index]! > this.#tables[index]!.length * fullest) this.#grow(index)
    this.#enter(this.#tables[index]!, place)
  }

  #grow(index: number): void {
    const old = this.#tables[index]!
    const larger = new Uint32Array(Math.ceil(old.length * growth) + 8)
    this.#tables[index] = larger
    for (let i = 0; i < old.length; i++) if (old[i] !== 0) this.#enter(larger, old[i]! - 1)
  }

  #enter(table: Uint32Array, place: number): void {
    const { length } = table
    const segment = this.#segments[Math.floor(place / this.#segmentKeys)]!
    const from = (place % this.#segmentKeys) * this.#bytes
    const second =
      segment[from + 1]! | (segment[from + 2]! << 8) | (segment[from + 3]! << 16) | (segment[from + 4]! << 24)
    let at = (second >>> 0) % length
    while (table[at] !== 0) at = at + 1 === length ? 0 : at + 1
    table[at] = place + 1
  }

  #isAt(place: number, print: string): boolean {
    const segment = this.#segments[Math.floor(place / this.#segmentKeys)]!
    const from = (place % this.#segmentKeys) * this.#bytes
    for (let i = 0; i < this.#bytes; i++) if (segment[from + i] !== print.charCodeAt(i)) return false
    return true
  }
}
