// Reads the primitives of an encoded value. It never reads past its end, accepts only one encoding of each primitive,
// and checks every count against the remaining bytes before anything is allocated.

import { RepriseError } from '../errors.ts'
import { tag, textTags } from './format.ts'
import { isWellFormed } from './writer.ts'

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const asciiTextMax = 48

export class ValueReader {
  readonly bytes: Uint8Array
  offset = 0
  readonly #end: number
  readonly #view: DataView

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
    this.#end = bytes.length
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get remaining(): number {
    return this.#end - this.offset
  }

  byte(): number {
    if (this.offset >= this.#end) throw malformed('the data ends early')
    return this.bytes[this.offset++]!
  }

  /** Returns the next byte without consuming it. */
  peek(): number {
    if (this.offset >= this.#end) throw malformed('the data ends early')
    return this.bytes[this.offset]!
  }

  integer(): number {
    const first = this.byte()
    return first < 0x80 ? first : this.#longInteger(first & 0x7f)
  }

  #longInteger(first: number): number {
    let value = first
    let scale = 0x80
    const { bytes } = this
    const end = Math.min(this.#end, this.offset + 7)
    while (this.offset < end) {
      const byte = bytes[this.offset++]!
      value += (byte & 0x7f) * scale
      if (byte < 0x80) {
        if (byte === 0) throw malformed('an integer is not in its shortest form')
        if (value > Number.MAX_SAFE_INTEGER) break
        return value
      }
      scale *= 0x80
    }
    throw malformed('an integer is longer than 53 bits, or cut off')
  }

  /** Reads the count of items that take at least `bytesEach` bytes each. */
  count(bytesEach: number): number {
    const count = this.integer()
    if (count * bytesEach > this.remaining) throw malformed('the data ends early')
    return count
  }

  float32(): number {
    this.#need(4)
    const value = this.#view.getFloat32(this.offset, true)
    this.offset += 4
    return value
  }

  float64(): number {
    this.#need(8)
    const value = this.#view.getFloat64(this.offset, true)
    this.offset += 8
    return value
  }

  /** Returns a view into the bytes being read, not a copy. */
  raw(count: number): Uint8Array {
    this.#need(count)
    const start = this.offset
    this.offset = start + count
    return this.bytes.subarray(start, start + count)
  }

  /** Reads a text with its tag, where no other value is allowed. */
  text(): string {
    const found = this.byte()
    if (found >= textTags && found < textTags + 32) return this.shortText(found - textTags)
    if (found === tag.text) return this.longText()
    if (found === tag.text16) return this.text16()
    throw malformed(`tag ${found} in place of text`)
  }

  longText(): string {
    const count = this.count(1)
    if (count < 32) throw malformed('a text is not in its shortest form')
    return count <= asciiTextMax ? this.shortText(count) : this.#utf8(count)
  }

  /** Building short ASCII text in a loop is several times faster than a call of the decoder. */
  shortText(count: number): string {
    this.#need(count)
    const bytes = this.bytes
    const start = this.offset
    const end = start + count
    let all = 0
    for (let i = start; i < end; i++) all |= bytes[i]!
    if (all >= 0x80) return this.#utf8(count)
    this.offset = end
    let text = ''
    let i = start
    for (; i + 8 <= end; i += 8) text += eight(bytes, i)
    switch (end - i) {
      case 0:
        return text
      case 1:
        return text + String.fromCharCode(bytes[i]!)
      case 2:
        return text + String.fromCharCode(bytes[i]!, bytes[i + 1]!)
      case 3:
        return text + String.fromCharCode(bytes[i]!, bytes[i + 1]!, bytes[i + 2]!)
      default:
        text += String.fromCharCode(bytes[i]!, bytes[i + 1]!, bytes[i + 2]!, bytes[i + 3]!)
        for (i += 4; i < end; i++) text += String.fromCharCode(bytes[i]!)
        return text
    }
  }

  text16(): string {
    const count = this.count(2)
    const pieces: string[] = []
    let units: number[] = []
    for (let i = 0; i < count; i++) {
      units.push(this.bytes[this.offset]! | (this.bytes[this.offset + 1]! << 8))
      this.offset += 2
      if (units.length === 4096 || i === count - 1) {
        pieces.push(String.fromCharCode(...units))
        units = []
      }
    }
    const text = pieces.join('')
    if (isWellFormed(text)) throw malformed('well-formed text is not written in UTF-8')
    return text
  }

  #utf8(count: number): string {
    try {
      return decoder.decode(this.raw(count))
    } catch (cause) {
      if (isStackOverflow(cause)) throw cause
      throw malformed('text is not valid UTF-8', cause)
    }
  }

  #need(count: number): void {
    if (count > this.#end - this.offset) throw malformed('the data ends early')
  }
}

function eight(bytes: Uint8Array, i: number): string {
  return String.fromCharCode(
    bytes[i]!,
    bytes[i + 1]!,
    bytes[i + 2]!,
    bytes[i + 3]!,
    bytes[i + 4]!,
    bytes[i + 5]!,
    bytes[i + 6]!,
    bytes[i + 7]!,
  )
}

export function malformed(message: string, cause?: unknown): RepriseError {
  return new RepriseError('MALFORMED', message, {}, cause)
}

/** `valueDepth` was raised beyond the capacity of the stack, or the caller was already deep in it. Never a sign of damage. */
export function isStackOverflow(error: unknown): boolean {
  return error instanceof RangeError && error.message.includes('call stack')
}
