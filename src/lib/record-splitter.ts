// Text out of bytes, record by record, however the bytes are cut into pieces: lines, or records of CSV, in which a quoted field
// may hold line ends. Each record has the offsets at which it begins and ends, its line end included. The byte-order mark of
// UTF-8 at offset 0 is not text; the carriage return before a line feed belongs to the line end.

export interface TextRecord {
  readonly text: string
  readonly offset: number
  readonly end: number
}

const lineFeed = 10
const carriageReturn = 13
const quote = 34
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf])

export class RecordSplitter {
  /** Of CSV, as bytes; null for lines. */
  readonly #separator: Buffer | null
  /** Where the rest begins. */
  #offset: number
  #rest: Buffer = Buffer.alloc(0)
  /** How far the rest was searched, where the field of that place begins, and whether that place is inside quotes. */
  #seen = 0
  #fieldAt = 0
  #isInside = false

  constructor(separator: string | null, offset = 0) {
    this.#separator = separator === null ? null : Buffer.from(separator)
    this.#offset = offset
  }

  add(piece: Uint8Array): TextRecord[] {
    this.#rest = this.#rest.length === 0 ? Buffer.from(piece) : Buffer.concat([this.#rest, piece])
    const records: TextRecord[] = []
    let from = 0
    for (let at = this.#lineEnd(); at >= 0; at = this.#lineEnd()) {
      records.push(this.#record(from, at, at + 1))
      from = at + 1
      this.#seen = from
      this.#fieldAt = from
    }
    this.#rest = this.#rest.subarray(from)
    this.#offset += from
    this.#seen -= from
    this.#fieldAt -= from
    return records
  }

  /** The bytes after the last line end so far; null if there are none. */
  rest(): TextRecord | null {
    return this.#rest.length === 0 ? null : this.#record(0, this.#rest.length, this.#rest.length)
  }

  /** The next line end that ends a record; negative if there is none. In both cases, the bytes before it have been searched. */
  #lineEnd(): number {
    const [bytes, separator] = [this.#rest, this.#separator]
    if (separator === null) {
      const found = bytes.indexOf(lineFeed, this.#seen)
      this.#seen = bytes.length
      return found
    }
    const last = separator.at(-1)
    for (; this.#seen < bytes.length; this.#seen++) {
      const byte = bytes[this.#seen]
      if (byte === lineFeed && !this.#isInside) return this.#seen
      if (byte === quote) this.#meetQuote(this.#seen)
      else if (byte === last && !this.#isInside) this.#endField(separator, this.#seen)
    }
    return -1
  }

  /**
   * A quote at the start of a field opens it, and the next closes it; two in a row close and open it. In other places it is text.
   */
  #meetQuote(at: number): void {
    if (at === byteOrderMark.length && this.#fieldAt === 0 && this.#hasMark()) this.#fieldAt = at
    if (this.#rest[this.#fieldAt] === quote) this.#isInside = !this.#isInside
  }

  #endField(separator: Buffer, at: number): void {
    const begin = at + 1 - separator.length
    if (begin >= this.#fieldAt && separator.equals(this.#rest.subarray(begin, at + 1))) this.#fieldAt = at + 1
  }

  #hasMark(): boolean {
    return this.#offset === 0 && byteOrderMark.equals(this.#rest.subarray(0, byteOrderMark.length))
  }

  #record(from: number, to: number, end: number): TextRecord {
    const begin = from === 0 && this.#hasMark() ? byteOrderMark.length : from
    const last = to > begin && this.#rest[to - 1] === carriageReturn ? to - 1 : to
    return { text: this.#rest.toString('utf8', begin, last), offset: this.#offset + from, end: this.#offset + end }
  }
}
