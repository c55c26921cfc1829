// Where a fingerprint is: 256 small tables of places, chosen by its first byte. Small tables grow one at a time, so growing
// neither holds up the event loop nor needs the memory of two whole tables.

/** Tables are at most this full… */
const fullest = 0.8
/** …and grow by this factor, so they are seldom less than two thirds full. */
const growth = 1.25
const tableCount = 256

/** What is at a place: byte `at` (0 to 15) of the fingerprint there. */
export type ByteAt = (place: number, at: number) => number

export class Places {
  readonly #byteAt: ByteAt
  /** Places + 1; 0 is empty. Open addressing. */
  readonly #tables: Uint32Array[] = Array.from({ length: tableCount }, () => new Uint32Array(8))
  readonly #sizes = new Uint32Array(tableCount)

  constructor(byteAt: ByteAt) {
    this.#byteAt = byteAt
  }

  /** -1: not there. */
  find(print: string): number {
    const table = this.#tables[print.charCodeAt(0)]!
    const { length } = table
    const start = slot(print.charCodeAt(1), print.charCodeAt(2), print.charCodeAt(3), print.charCodeAt(4), length)
    for (let at = start; ; at = at + 1 === length ? 0 : at + 1) {
      const entry = table[at]!
      if (entry === 0) return -1
      if (this.#isAt(entry - 1, print)) return entry - 1
    }
  }

  /** The caller has looked that it is not there. */
  add(place: number): void {
    const index = this.#byteAt(place, 0)
    const table = this.#tables[index]!
    this.#sizes[index]! += 1
    if (this.#sizes[index]! > table.length * fullest) this.#grow(index)
    this.#enter(this.#tables[index]!, place)
  }

  #grow(index: number): void {
    const old = this.#tables[index]!
    const larger = new Uint32Array(Math.ceil(old.length * growth) + 8)
    this.#tables[index] = larger
    for (const entry of old) if (entry !== 0) this.#enter(larger, entry - 1)
  }

  #enter(table: Uint32Array, place: number): void {
    const { length } = table
    const byte = this.#byteAt
    let at = slot(byte(place, 1), byte(place, 2), byte(place, 3), byte(place, 4), length)
    while (table[at] !== 0) at = at + 1 === length ? 0 : at + 1
    table[at] = place + 1
  }

  #isAt(place: number, print: string): boolean {
    for (let i = 0; i < print.length; i++) if (this.#byteAt(place, i) !== print.charCodeAt(i)) return false
    return true
  }
}

function slot(a: number, b: number, c: number, d: number, length: number): number {
  return ((a | (b << 8) | (c << 16) | (d << 24)) >>> 0) % length
}
