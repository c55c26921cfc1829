// Packs entries for a run while they are encoded: one after another in the format of the run, with room before the first
// for the start of the run (entry-run.ts). So an append is written once, hashed in place, and allocates no array per entry.
// The envelopes are bare (engine/storage/seal); entries that must be sealed are taken out again.

import { assert } from '../assert.ts'
import { ByteReader, integerSize, Slab, textBytesMax, writeInteger, writeText } from '../bytes.ts'
import type { Codec } from '../codec/codec.ts'
import type { ValuePacker } from '../codec/packer.ts'
import { type EntryDraft, hasKey, startBytesMax } from './entry-run.ts'

export interface PackedEntries {
  /** The entries are between start and end; below start there is room for the start of a run and the previous digest. */
  readonly bytes: Uint8Array
  readonly start: number
  readonly end: number
  /** The time of the earliest entry; the others store their delay after it. */
  readonly time: number
  /** Bytes of the largest value. */
  readonly longest: number
}

/** The packed fields of an entry, beside its data. */
export interface PackedHead {
  readonly type: string
  readonly version: number
  readonly time: number
  readonly key: string | undefined
}

/** First byte of an envelope that needs no other byte: the rest is the data (engine/storage/seal). */
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
  /** Bytes of an entry's size: known last, and mostly equal to that of the previous entry. */
  #sizeBytes = 2

  /** `time`: the earliest time of any entry. */
  constructor(codec: Codec, time: number) {
    this.#codec = codec
    this.#time = time
    this.#values = codec.takePacker()
    const { out } = this.#values
    out.reserve(startBytesMax)
    out.length += startBytesMax
  }

  /** Returns the decoded copy of the data. `holdsType`: the data is an object with the entry's type, which is omitted. */
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

  /** Must be called in every case. */
  close(): void {
    this.#codec.giveBack(this.#values)
  }

  /** Writes the size of the entry that begins at `from`, relative to the start, and ends here. */
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

/** Joins all parts in order; null if their times differ. */
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

/** The entries whose index is wanted. */
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

/** Each entry as a draft, its data without an envelope. */
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
