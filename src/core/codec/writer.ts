// The output buffer of the encoder. Small values are returned as views of a shared slab that is never written twice:
// allocating a typed array costs more than encoding a small object. Large values get their own buffer.
// A packing writer writes many values one after another (packer.ts) and hands them all out in place.

import { RepriseError } from '../errors.ts'
import { tag, textTags } from './format.ts'

const slabBytes = 32 * 1024
const handOutBytesMax = slabBytes / 4
const packingSlabBytes = 256 * 1024
const scratchKeptBytes = 1024 * 1024
const shortTextMax = 512
/** Up to this length a loop is faster than a call. */
const loopedTextMax = 64
/** A buffer of at least this size moves to a larger one in pieces of this size, where the caller can pause. */
const pieceBytes = 1024 * 1024
/** Largest number of bytes that a caller reserves beyond those it writes. */
const reserveSlack = 3 * shortTextMax + 16

const encoder = new TextEncoder()

export class ValueWriter {
  /** The current buffer and the end of the written bytes; hot callers use them directly after `reserve`. */
  bytes: Uint8Array
  length = 0
  readonly #bytesMax: number
  readonly #isPacking: boolean
  #view: DataView
  #start = 0
  /** Offset of the current value, relative to `#start`: earlier values may precede it. */
  #valueAt = 0
  #slab: Uint8Array
  #slabUsed = 0
  #scratch: Uint8Array | null = null

  constructor(bytesMax: number, isPacking = false) {
    this.#bytesMax = bytesMax
    this.#isPacking = isPacking
    this.#slab = new Uint8Array(isPacking ? packingSlabBytes : slabBytes)
    this.bytes = this.#slab
    this.#view = viewOf(this.#slab)
  }

  /** Starts a value, and drops the bytes of an unfinished one. */
  begin(): void {
    if (this.bytes !== this.#slab) this.#use(this.#slab)
    this.#start = this.#slabUsed
    this.#valueAt = 0
    this.length = this.#slabUsed
  }

  /** Offset of the bytes since `begin`. It moves when the buffer grows. */
  get start(): number {
    return this.#start
  }

  /** Starts the next of several values. */
  beginValue(): void {
    this.#valueAt = this.length - this.#start
  }

  endValue(): void {
    const size = this.length - this.#start - this.#valueAt
    if (size > this.#bytesMax) throw this.#tooLarge(size)
  }

  /** The bytes of the current value: a view that is valid until the next write. */
  get value(): Uint8Array {
    return this.bytes.subarray(this.#start + this.#valueAt, this.length)
  }

  /** For a packing writer: the bytes between `start` and `length` belong to the caller from now on. */
  handOut(): void {
    if (this.bytes === this.#slab) this.#slabUsed = this.length
  }

  finish(): Uint8Array {
    const size = this.length - this.#start
    if (size > this.#bytesMax) throw this.#tooLarge(size)
    if (this.bytes !== this.#slab) {
      if (this.bytes.length <= scratchKeptBytes) this.#scratch = this.bytes
      return this.bytes.slice(0, size)
    }
    if (size > handOutBytesMax) return this.bytes.slice(this.#start, this.length)
    this.#slabUsed = this.length
    if (slabBytes - this.#slabUsed < handOutBytesMax) {
      this.#slab = new Uint8Array(slabBytes)
      this.#slabUsed = 0
    }
    return this.bytes.subarray(this.#start, this.length)
  }

  /** Like `finish`, for a writer that is not used again: a large value is not copied, and may occupy twice its size. */
  finishLast(): Uint8Array {
    const size = this.length - this.#start
    if (this.bytes === this.#slab || size > this.#bytesMax || size < pieceBytes) return this.finish()
    return this.bytes.subarray(0, size)
  }

  /** Makes room for `count` bytes. The contents move in pieces with a yield after each; nothing may be written meanwhile. */
  *growInSteps(count: number): Generator<void> {
    const used = this.length - this.#start
    const isLarge = this.bytes.length >= pieceBytes && used + count <= this.#bytesMax
    if (!isLarge || this.length + count <= this.bytes.length) return
    const larger = new Uint8Array(Math.max(this.bytes.length * 2, used + count))
    for (let at = 0; at < used; at += pieceBytes) {
      const from = this.#start + at
      larger.set(this.bytes.subarray(from, Math.min(from + pieceBytes, this.length)), at)
      yield
    }
    this.#use(larger)
    this.#start = 0
    this.length = used
  }

  reserve(count: number): void {
    if (this.length + count > this.bytes.length) this.#grow(count)
  }

  byte(value: number): void {
    this.reserve(1)
    this.bytes[this.length++] = value
  }

  /** LEB128, up to 2^53 - 1. */
  integer(value: number): void {
    this.reserve(8)
    const bytes = this.bytes
    let rest = value
    while (rest >= 0x80000000) {
      bytes[this.length++] = (rest % 0x80) | 0x80
      rest = Math.floor(rest / 0x80)
    }
    while (rest >= 0x80) {
      bytes[this.length++] = (rest & 0x7f) | 0x80
      rest >>>= 7
    }
    bytes[this.length++] = rest
  }

  tagged(tagByte: number, value: number): void {
    this.byte(tagByte)
    this.integer(value)
  }

  float32(value: number): void {
    this.reserve(4)
    this.#view.setFloat32(this.length, value, true)
    this.length += 4
  }

  float64(value: number): void {
    this.reserve(8)
    this.#view.setFloat64(this.length, value, true)
    this.length += 8
  }

  raw(bytes: Uint8Array): void {
    const count = bytes.length
    this.reserve(count)
    if (count > 48) {
      this.bytes.set(bytes, this.length)
      this.length += count
      return
    }
    const target = this.bytes
    let at = this.length
    for (let i = 0; i < count; i++) target[at++] = bytes[i]!
    this.length = at
  }

  text(value: string): void {
    const count = value.length
    if (count > shortTextMax) {
      this.#longText(value)
      return
    }
    this.reserve(3 * count + 3)
    const bytes = this.bytes
    let at = this.length + (count < 32 ? 1 : count < 0x80 ? 2 : 3)
    if (count > loopedTextMax) {
      // As many bytes as characters: the text is ASCII and already in its place.
      const { written } = encoder.encodeInto(value, bytes.subarray(at))
      if (written !== count) {
        this.#wideText(value)
        return
      }
      this.#textHead(count)
      this.length = at + count
      return
    }
    for (let i = 0; i < count; i++) {
      const code = value.charCodeAt(i)
      if (code >= 0x80) {
        this.#wideText(value)
        return
      }
      bytes[at++] = code
    }
    this.#textHead(count)
    this.length = at
  }

  #textHead(byteCount: number): void {
    if (byteCount < 32) this.bytes[this.length++] = textTags + byteCount
    else this.tagged(tag.text, byteCount)
  }

  /** Writes short text that is not ASCII: counts the bytes first, then writes them. */
  #wideText(value: string): void {
    const size = utf8Bytes(value)
    if (size < 0) {
      this.#text16(value)
      return
    }
    this.#textHead(size)
    const bytes = this.bytes
    let at = this.length
    for (let i = 0; i < value.length; i++) {
      let code = value.charCodeAt(i)
      if (code < 0x80) {
        bytes[at++] = code
      } else if (code < 0x800) {
        bytes[at++] = 0xc0 | (code >> 6)
        bytes[at++] = 0x80 | (code & 0x3f)
      } else if (code < 0xd800 || code > 0xdfff) {
        bytes[at++] = 0xe0 | (code >> 12)
        bytes[at++] = 0x80 | ((code >> 6) & 0x3f)
        bytes[at++] = 0x80 | (code & 0x3f)
      } else {
        code = 0x10000 + ((code & 0x3ff) << 10) + (value.charCodeAt(++i) & 0x3ff)
        bytes[at++] = 0xf0 | (code >> 18)
        bytes[at++] = 0x80 | ((code >> 12) & 0x3f)
        bytes[at++] = 0x80 | ((code >> 6) & 0x3f)
        bytes[at++] = 0x80 | (code & 0x3f)
      }
    }
    this.length = at
  }

  #longText(value: string): void {
    // UTF-8 has at least as many bytes as the text has characters: a text over the limit is refused before it is copied.
    this.reserve(value.length)
    if (!isWellFormed(value)) {
      this.#text16(value)
      return
    }
    const utf8 = encoder.encode(value)
    this.tagged(tag.text, utf8.length)
    this.raw(utf8)
  }

  /** UTF-8 cannot encode half of a surrogate pair; such text is written in 16-bit units. */
  #text16(value: string): void {
    this.tagged(tag.text16, value.length)
    this.reserve(2 * value.length)
    for (let i = 0; i < value.length; i++) {
      const code = value.charCodeAt(i)
      this.bytes[this.length++] = code & 0xff
      this.bytes[this.length++] = code >> 8
    }
  }

  #grow(count: number): void {
    const used = this.length - this.#start
    const needed = used + count
    if (needed - this.#valueAt > this.#bytesMax + reserveSlack) throw this.#tooLarge(needed - this.#valueAt)
    const larger = this.#isPacking ? this.#packingRoom(needed) : this.#room(needed)
    larger.set(this.bytes.subarray(this.#start, this.length))
    this.#use(larger)
    this.#start = 0
    this.length = used
  }

  #room(needed: number): Uint8Array {
    const scratch = this.#scratch
    this.#scratch = null
    if (scratch && scratch.length >= needed) return scratch
    return new Uint8Array(Math.max(needed, this.bytes.length * 2, slabBytes))
  }

  /** Continues the unfinished bytes in a new slab, or in a separate buffer if they are large. */
  #packingRoom(needed: number): Uint8Array {
    if (needed > packingSlabBytes / 2) return new Uint8Array(2 * needed)
    this.#slab = new Uint8Array(packingSlabBytes)
    this.#slabUsed = 0
    return this.#slab
  }

  #use(bytes: Uint8Array): void {
    this.bytes = bytes
    this.#view = viewOf(bytes)
  }

  #tooLarge(bytes: number): RepriseError {
    return new RepriseError('LIMIT_EXCEEDED', `the encoded value is larger than ${this.#bytesMax} bytes`, {
      limit: 'valueBytes',
      max: this.#bytesMax,
      atLeast: bytes,
    })
  }
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Node 20 provides it; the compiler's ES2023 library does not declare it yet. */
export function isWellFormed(value: string): boolean {
  return (value as unknown as { isWellFormed(): boolean }).isWellFormed()
}

/** -1: the text contains half of a surrogate pair. */
function utf8Bytes(value: string): number {
  if (!isWellFormed(value)) return -1
  let size = 0
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i)
    if (code < 0x80) size += 1
    else if (code < 0x800) size += 2
    else if (code < 0xd800 || code > 0xdfff) size += 3
    else size += 2
  }
  return size
}
