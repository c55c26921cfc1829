// Entries on their way into a run, packed as they are encoded: one behind another in the form that the run has them in, with room
// before the first for the run's own start (entry-run.ts). So an append is written once, hashed where it lies, and makes no
// array of its own per entry. Their envelopes are bare (engine/storage/seal); what must be sealed otherwise is taken out again.

import { assert } from '../assert.ts'
import { ByteReader, integerSize, Slab, textBytesMax, writeInteger, writeText } from '../bytes.ts'
import type { Codec } from '../codec/codec.ts'
import type { ValuePacker } from '../codec/packer.ts'
import { type EntryDraft, hasKey, startBytesMax } from './entry-run.ts'

export interface PackedEntries {
  /** They lie between start and end; below start there is room for the start of a run, and for the digest before it. */
  readonly bytes: Uint8Array
  readonly start: number
  readonly end: number
  /** That of the earliest; the others say how much later they are. */
  readonly time: number
  /** Bytes of the largest value among them. */
  readonly longest: number
}

/** What is packed of an entry, beside its data. */
export interface PackedHead {
  readonly type: string
  readonly version: number
  readonly time: number
  readonly key: string | undefined
}

/** The first byte of an envelope that needs no other: the rest is the data (engine/storage/seal). */
const bareEnvelope = 0

/**
 * Packs the entries of one request.
 * @example const packer = new EntryPacker(codec, time); const value = packer.add(head, data, false); packer.finish()
 */
export class EntryPacker {
  readonly #codec: Codec
  readonly #values: ValuePacker
  readonly #time: number
  #longest = 0
  /** How many bytes the size of an entry takes: known last, and mostly as many as that of the one before. */
  #sizeBytes = 2

  /** `time`: no entry is earlier. */
  constructor(codec: Codec, time: number) {
    this.#codec = codec
    this.#time = time
    this.#values = codec.takePacker()
    const { out } = this.#values
    out.reserve(startBytesMax)
    out.length += startBytesMax
  }

  /** Gives what decoding the data gives. `holdsType`: the data is an object whose type is that of the entry, and is left out. */
  add({ type, version, time, key }: PackedHead, data: unknown, holdsType: boolean): unknown {
    const { out } = this.#values
    const from = out.length - out.start
    out.reserve(textBytesMax(type) + (key === undefined ? 0 : textBytesMax(key)) + 40)
    const { bytes } = out
    let end = writeText(bytes, out.length + this.#sizeBytes, type)
    end = writeInteger(bytes, end, version)
    end = writeInteger(bytes, end, time - this.#time)
    bytes[end++] = key === undefined ? 0 : hasKey
    if (key !== undefined) end = writeText(bytes, end, key)
    bytes[end++] = bareEnvelope
    out.length = end
    const valueAt = end - out.start
    const value = holdsType ? this.#values.addWithoutType(data as object) : this.#values.add(data)
    const longest = out.length - out.start - valueAt
    if (longest > this.#longest) this.#longest = longest
    this.#writeSize(from)
    return value
  }

  finish(): PackedEntries {
    const { out } = this.#values
    const start = out.start + startBytesMax
    const packed = { bytes: out.bytes, start, end: out.length, time: this.#time, longest: this.#longest }
    out.handOut()
    return packed
  }

  /** To be called whatever happens. */
  close(): void {
    this.#codec.giveBack(this.#values)
  }

  /** Of the entry that begins there, counted from the start, and ends here. */
  #writeSize(from: number): void {
    const { out } = this.#values
    const size = out.length - out.start - from - this.#sizeBytes
    const sizeBytes = integerSize(size)
    const shift = sizeBytes - this.#sizeBytes
    if (shift !== 0) {
      out.reserve(8)
      const at = out.start + from
      out.bytes.copyWithin(at + sizeBytes, at + this.#sizeBytes, out.length)
      out.length += shift
      this.#sizeBytes = sizeBytes
    }
    writeInteger(out.bytes, out.start + from, size)
  }
}

const slab = new Slab(64 * 1024)

/** All of them as one, in order; null where they do not have the same time. */
export function joinPacked(parts: readonly PackedEntries[]): PackedEntries | null {
  const [first] = parts
  assert(first, 'something is joined')
  let size = startBytesMax
  let longest = 0
  for (const part of parts) {
    if (part.time !== first.time) return null
    size += part.end - part.start
    longest = Math.max(longest, part.longest)
  }
  const room = slab.reserve(size)
  const { bytes } = slab
  const start = room + startBytesMax
  let end = start
  for (const part of parts) {
    bytes.set(part.bytes.subarray(part.start, part.end), end)
    end += part.end - part.start
  }
  slab.take(end)
  return { bytes, start, end, time: first.time, longest }
}

/** Those of them that are wanted, each by its index. */
export function pickPacked(packed: PackedEntries, isWanted: (index: number) => boolean): PackedEntries {
  const reader = new ByteReader(packed.bytes, packed.start, packed.end)
  const picked: PackedEntries[] = []
  for (let index = 0; reader.remaining > 0; index++) {
    const start = reader.offset
    reader.skip(reader.integer())
    if (isWanted(index)) picked.push({ ...packed, start, end: reader.offset })
  }
  return joinPacked(picked)!
}

/** Each by itself, its data without an envelope. */
export function takeOut({ bytes, start, end: endOfAll, time }: PackedEntries): EntryDraft[] {
  const reader = new ByteReader(bytes, start, endOfAll)
  const drafts: EntryDraft[] = []
  while (reader.remaining > 0) {
    const size = reader.integer()
    const end = reader.offset + size
    const type = reader.text()
    const version = reader.integer()
    const delay = reader.integer()
    const key = reader.byte() & hasKey ? reader.text() : undefined
    assert(reader.byte() === bareEnvelope, 'packed entries have bare envelopes')
    drafts.push({ type, version, time: time + delay, key, data: reader.raw(end - reader.offset) })
  }
  return drafts
}
