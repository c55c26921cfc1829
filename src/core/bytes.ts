// Reads and writes the building blocks of every stored format: variable-length integers, text, byte runs.
// Integers are unsigned LEB128 up to 2^53 - 1. The reader never reads past its end: short data is MALFORMED.

import { assert } from './assert.ts'
import { RepriseError } from './errors.ts'

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
/** In unicode mode a whole surrogate pair is one character, so only a lone half matches. */
const halfPair = /\p{Cs}/u
/** Shorter text is written unit by unit: that is faster than a call of the encoder. */
const loopedTextBytes = 64

export class ByteWriter {
  #bytes: Uint8Array
  #length = 0

  constructor(capacity = 256) {
    this.#bytes = new Uint8Array(capacity)
  }

  get length(): number {
    return this.#length
  }

  byte(value: number): void {
    this.#reserve(1)
    this.#bytes[this.#length++] = value
  }

  integer(value: number): void {
    this.#reserve(8)
    this.#length = writeInteger(this.#bytes, this.#length, value)
  }

  raw(bytes: Uint8Array): void {
    this.#reserve(bytes.length)
    this.#bytes.set(bytes, this.#length)
    this.#length += bytes.length
  }

  /** Writes the length, then the bytes. */
  sized(bytes: Uint8Array): void {
    this.integer(bytes.length)
    this.raw(bytes)
  }

  text(value: string): void {
    this.#reserve(textBytesMax(value))
    this.#length = writeText(this.#bytes, this.#length, value)
  }

  /** Returns a copy, so that the writer can be reused. */
  take(): Uint8Array {
    return this.#bytes.slice(0, this.#length)
  }

  /** Returns a view that is valid until the next write. */
  view(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  reset(): void {
    this.#length = 0
  }

  #reserve(count: number): void {
    const needed = this.#length + count
    if (needed <= this.#bytes.length) return
    const larger = new Uint8Array(Math.max(needed, this.#bytes.length * 2))
    larger.set(this.#bytes.subarray(0, this.#length))
    this.#bytes = larger
  }
}

export class ByteReader {
  readonly #bytes: Uint8Array
  #offset: number
  readonly #end: number

  constructor(bytes: Uint8Array, offset = 0, end = bytes.length) {
    this.#bytes = bytes
    this.#offset = offset
    this.#end = end
  }

  get offset(): number {
    return this.#offset
  }

  get remaining(): number {
    return this.#end - this.#offset
  }

  byte(): number {
    if (this.#offset >= this.#end) throw short()
    return this.#bytes[this.#offset++]!
  }

  integer(): number {
    let value = 0
    let scale = 1
    for (let count = 0; count < 8; count++) {
      const byte = this.byte()
      value += (byte & 0x7f) * scale
      if (byte < 0x80) {
        if (!Number.isSafeInteger(value)) break
        return value
      }
      scale *= 0x80
    }
    throw new RepriseError('MALFORMED', 'an integer is longer than 53 bits')
  }

  /** Returns a view into the bytes being read, not a copy. */
  raw(count: number): Uint8Array {
    if (count > this.#end - this.#offset) throw short()
    const view = this.#bytes.subarray(this.#offset, this.#offset + count)
    this.#offset += count
    return view
  }

  skip(count: number): void {
    if (count > this.#end - this.#offset) throw short()
    this.#offset += count
  }

  sized(): Uint8Array {
    return this.raw(this.integer())
  }

  text(): string {
    const length = this.integer()
    if (length > this.#end - this.#offset) throw short()
    if (length < 24) {
      let text = ''
      const start = this.#offset
      for (let i = start; i < start + length; i++) {
        const byte = this.#bytes[i]!
        if (byte >= 0x80) return this.#decode(length)
        text += String.fromCharCode(byte)
      }
      this.#offset = start + length
      return text
    }
    return this.#decode(length)
  }

  #decode(length: number): string {
    try {
      return decoder.decode(this.raw(length))
    } catch (cause) {
      if (cause instanceof RepriseError) throw cause
      throw new RepriseError('MALFORMED', 'text is not valid UTF-8', {}, cause)
    }
  }
}

/** Writes into an array that has room for the integer; returns the offset after it. */
export function writeInteger(bytes: Uint8Array, start: number, value: number): number {
  assert(Number.isSafeInteger(value) && value >= 0, 'only safe integers of at least 0 are written as varints')
  let rest = value
  let end = start
  while (rest >= 0x80) {
    bytes[end++] = (rest % 0x80) | 0x80
    rest = Math.floor(rest / 0x80)
  }
  bytes[end++] = rest
  return end
}

export function integerSize(value: number): number {
  let size = 1
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) size += 1
  return size
}

/** Requires well-formed text: callers check for lone surrogates where they may occur. */
export function writeText(bytes: Uint8Array, start: number, text: string): number {
  if (text.length >= loopedTextBytes) return writeLongText(bytes, start, text)
  const end = writeInteger(bytes, start, text.length)
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit >= 0x80) return writeLongText(bytes, start, text)
    bytes[end + i] = unit
  }
  return end + text.length
}

function writeLongText(bytes: Uint8Array, start: number, text: string): number {
  const encoded = encoder.encode(text)
  assert(encoded.length === text.length || !halfPair.test(text), 'text with half of a surrogate pair was not refused')
  const end = writeInteger(bytes, start, encoded.length)
  bytes.set(encoded, end)
  return end + encoded.length
}

/** Upper bound of the bytes that `writeText` writes. */
export function textBytesMax(text: string): number {
  return 8 + 3 * text.length
}

/**
 * Memory for many small results: each part is returned once and never rewritten here. Allocating an array per
 * result costs more than filling it does.
 *
 * @example const start = slab.reserve(300); const end = fill(slab.bytes, start); const result = slab.take(end)
 */
export class Slab {
  readonly #size: number
  bytes: Uint8Array = new Uint8Array(0)
  #start = 0

  constructor(size: number) {
    this.#size = size
  }

  /** Makes room for `count` bytes in `bytes` and returns the offset at which they start. */
  reserve(count: number): number {
    if (this.#start + count > this.bytes.length) {
      this.bytes = new Uint8Array(Math.max(this.#size, count))
      this.#start = 0
    }
    return this.#start
  }

  /** Returns the bytes written from the reserved start up to `end`; reserved bytes beyond `end` are free again. */
  take(end: number): Uint8Array {
    const taken = this.bytes.subarray(this.#start, end)
    this.#start = end
    return taken
  }
}

function short(): RepriseError {
  return new RepriseError('MALFORMED', 'the data ends early')
}
