// Text out of bytes, record by record, however the bytes are cut into pieces: lines, or records of CSV, in which a quoted
// field may hold line ends. Each comes with the bytes it takes, its line end included, so that positions can be told.

export interface TextRecord {
  readonly text: string
  readonly bytes: number
}

const lineFeed = 10
const quote = 34

export class RecordSplitter {
  readonly #isQuoted: boolean
  #rest: Buffer = Buffer.alloc(0)
  /** How far the rest was looked at, and whether that place lies inside quotes. */
  #seen = 0
  #isInside = false

  constructor(isQuoted: boolean) {
    this.#isQuoted = isQuoted
  }

  add(piece: Uint8Array): TextRecord[] {
    const bytes = this.#rest.length === 0 ? Buffer.from(piece) : Buffer.concat([this.#rest, piece])
    const records: TextRecord[] = []
    let from = 0
    let at = this.#seen
    for (; at < bytes.length; at++) {
      const byte = bytes[at]
      if (byte === quote && this.#isQuoted) this.#isInside = !this.#isInside
      else if (byte === lineFeed && !this.#isInside) {
        records.push({ text: textOf(bytes.subarray(from, at)), bytes: at + 1 - from })
        from = at + 1
      }
    }
    this.#rest = bytes.subarray(from)
    this.#seen = at - from
    return records
  }

  /** What is left without a line end. */
  end(): TextRecord[] {
    if (this.#rest.length === 0) return []
    const record = { text: textOf(this.#rest), bytes: this.#rest.length }
    this.#rest = Buffer.alloc(0)
    this.#seen = 0
    return [record]
  }
}

/** @example parseCsvRecord('a,"b ""c"", d"', ',') // ['a', 'b "c", d'] */
export function parseCsvRecord(record: string, separator: string): string[] {
  const fields: string[] = []
  for (let at = 0; ; ) {
    if (record[at] !== '"') {
      const end = record.indexOf(separator, at)
      fields.push(record.slice(at, end < 0 ? undefined : end))
      if (end < 0) return fields
      at = end + 1
      continue
    }
    let field = ''
    at += 1
    for (;;) {
      const end = record.indexOf('"', at)
      if (end < 0) throw new TypeError('a quoted field has no end')
      field += record.slice(at, end)
      at = end + 1
      if (record[at] !== '"') break
      field += '"'
      at += 1
    }
    fields.push(field)
    if (at === record.length) return fields
    if (record[at] !== separator) throw new TypeError('a quoted field is followed by something else than a separator')
    at += 1
  }
}

/** Files of Windows end their lines with two characters; the mark of UTF-8 at the start of a file is no text. */
function textOf(bytes: Buffer): string {
  const text = bytes.toString('utf8').replace(/^\uFEFF/, '')
  return text.endsWith('\r') ? text.slice(0, -1) : text
}
