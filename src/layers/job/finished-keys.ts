// The set of finished keys, flat in memory: fingerprints in segments, in the order they were finished, and a table of
// 4-byte places to find them. A key costs 12 bytes and about 6 bytes of table, whatever its length, and 8 more bytes if
// the job has versions. Segments are values of a Keyed, so that a checkpoint writes only the new ones.

import { assert } from '../../core/assert.ts'
import type { Keyed } from '../../core/keyed-state/keyed.ts'
import type { Yielder } from '../../engine/base/yielder.ts'
import { fingerprint, fingerprintBytes, versionBytes } from './fingerprint.ts'
import { FingerprintIndex } from './fingerprint-index.ts'

/**
 * Keys per segment: 3 KB, so that a page of the Keyed is 1.5 MB and a checkpoint rewrites little more than the new
 * keys.
 */
export const segmentKeys = 256

const segmentsPerPiece = 64

/** Keys that are placed without checking the clock. */
const keysAtOnce = 1024

export interface FinishedParts {
  readonly finished: Keyed<Uint8Array>
  readonly versions: Keyed<Uint8Array>
}

export class FinishedSet {
  readonly #parts: FinishedParts
  readonly #segments: Uint8Array[] = []
  readonly #versions: (Uint8Array | undefined)[] = []
  readonly #places = new FingerprintIndex(this.#segments, segmentKeys, fingerprintBytes)
  #size = 0
  /** The number of keys that are in the lookup table. */
  #placed = 0
  // The segment being filled, in a buffer with spare room: a view of it is published, and bytes inside a view never
  // change. One view is created per flush: one per key would be most of a run's garbage.
  #tail: Uint8Array = new Uint8Array(0)
  #tailIndex = -1
  /** The rest of the buffer that segments are cut from. */
  #piece: Uint8Array = new Uint8Array(0)
  #dirtyVersions = new Map<number, Uint8Array>()
  readonly #hints: { readonly keys: readonly string[]; readonly prints: readonly string[] }[] = []
  #hinted = 0

  constructor(parts: FinishedParts) {
    this.#parts = parts
    for (const [name, segment] of parts.finished.entries()) {
      assert(name === segmentName(this.#segments.length), 'segments of finished keys are numbered without a gap')
      assert(this.#size % segmentKeys === 0, 'only the last segment of finished keys may be short')
      this.#segments.push(segment)
      this.#versions.push(parts.versions.get(name))
      this.#size += segment.length / fingerprintBytes
    }
  }

  /** Builds the lookup table in slices. A lookup before the end builds the rest at once. */
  async prepare(yielder: Pick<Yielder, 'isDue' | 'take'>): Promise<void> {
    while (this.#placed < this.#size) {
      this.#place(this.#placed + keysAtOnce)
      if (yielder.isDue) await yielder.take()
    }
  }

  /** Fingerprints of keys that are about to be finished, in order, so that they are not computed twice. */
  hint(keys: readonly string[], prints: readonly string[]): void {
    this.#hints.push({ keys, prints })
  }

  fingerprintOf(key: string): string {
    const hint = this.#hints[0]
    if (hint?.keys[this.#hinted] !== key) {
      // The key is not the hinted one: a commit failed in between, or this is a replay.
      this.#hints.length = 0
      this.#hinted = 0
      return fingerprint(key)
    }
    const print = hint.prints[this.#hinted]!
    this.#hinted += 1
    if (this.#hinted === hint.keys.length) {
      this.#hints.shift()
      this.#hinted = 0
    }
    return print
  }

  get size(): number {
    return this.#size
  }

  /** True if the key is finished in this version ('' matches any version). */
  has(print: string, version: string): boolean {
    if (this.#placed < this.#size) this.#place(this.#size)
    const place = this.#places.find(print)
    return place >= 0 && (version === '' || this.#versionAt(place) === version)
  }

  add(print: string, version: string): void {
    assert(print.length >= fingerprintBytes, 'a fingerprint is a whole digest')
    if (this.#placed < this.#size) this.#place(this.#size)
    let place = this.#places.find(print)
    if (place < 0) place = this.#append(print)
    if (version !== '' && this.#versionAt(place) !== version) this.#setVersion(place, version)
  }

  /** Publishes the added keys. Call it once after a series of `add`. */
  flush(): void {
    const index = this.#segments.length - 1
    if (index >= 0) this.#parts.finished.set(segmentName(index), this.#used(index))
    for (const [at, bytes] of this.#dirtyVersions) this.#parts.versions.set(segmentName(at), bytes)
    this.#dirtyVersions.clear()
  }

  /** In the order they were first finished. */
  *prints(): Generator<{ readonly print: string; readonly version: string }> {
    for (let place = 0; place < this.#size; place++) {
      const segment = this.#segments[Math.floor(place / segmentKeys)]!
      const start = (place % segmentKeys) * fingerprintBytes
      const print = Buffer.from(segment.subarray(start, start + fingerprintBytes)).toString('latin1')
      yield { print, version: this.#versionAt(place) }
    }
  }

  #append(print: string): number {
    const place = this.#size
    const offset = (place % segmentKeys) * fingerprintBytes
    const index = Math.floor(place / segmentKeys)
    if (offset === 0) {
      if (index > 0) this.#parts.finished.set(segmentName(index - 1), this.#segments[index - 1]!)
      this.#versions.push(undefined)
    }
    if (this.#tailIndex !== index || offset + fingerprintBytes > this.#tail.length) this.#makeRoom(index, offset)
    for (let i = 0; i < fingerprintBytes; i++) this.#tail[offset + i] = print.charCodeAt(i)
    this.#size += 1
    this.#places.add(place)
    this.#placed = this.#size
    return place
  }

  #place(upTo: number): void {
    const end = Math.min(upTo, this.#size)
    for (let place = this.#placed; place < end; place++) this.#places.add(place)
    this.#placed = end
  }

  #makeRoom(index: number, offset: number): void {
    const held = this.#segments[index]
    const keys = index > 0 ? segmentKeys : Math.min(segmentKeys, Math.max(64, (offset / fingerprintBytes) * 4))
    const larger = index > 0 ? this.#cut(index) : new Uint8Array(keys * fingerprintBytes)
    if (held) larger.set(held)
    this.#tail = larger
    this.#tailIndex = index
    this.#segments[index] = larger
  }

  /** Space for one segment, cut from a larger buffer: thousands of small buffers would fragment memory. */
  #cut(index: number): Uint8Array {
    const bytes = segmentKeys * fingerprintBytes
    if (this.#piece.length < bytes) this.#piece = new Uint8Array(Math.min(index, segmentsPerPiece) * bytes)
    const segment = this.#piece.subarray(0, bytes)
    this.#piece = this.#piece.subarray(bytes)
    return segment
  }

  /** The filled part of a segment: all of it, except for the last one. */
  #used(index: number): Uint8Array {
    const segment = this.#segments[index]!
    const bytes = (this.#size - index * segmentKeys) * fingerprintBytes
    return bytes < segment.length ? segment.subarray(0, bytes) : segment
  }

  #versionAt(place: number): string {
    const bytes = this.#versions[Math.floor(place / segmentKeys)]
    if (!bytes) return ''
    const start = (place % segmentKeys) * versionBytes
    let text = ''
    let isSet = false
    for (let i = start; i < start + versionBytes; i++) {
      text += String.fromCharCode(bytes[i]!)
      isSet ||= bytes[i] !== 0
    }
    return isSet ? text : ''
  }

  #setVersion(place: number, version: string): void {
    const index = Math.floor(place / segmentKeys)
    let bytes = this.#dirtyVersions.get(index)
    if (!bytes) {
      // A copy: the published bytes must not change while checkpoints write them.
      bytes = new Uint8Array(segmentKeys * versionBytes)
      const held = this.#versions[index]
      if (held) bytes.set(held)
      this.#dirtyVersions.set(index, bytes)
      this.#versions[index] = bytes
    }
    const start = (place % segmentKeys) * versionBytes
    for (let i = 0; i < versionBytes; i++) bytes[start + i] = version.charCodeAt(i)
  }
}

/** Zero-padded, so that text order is number order. */
function segmentName(index: number): string {
  return String(index).padStart(8, '0')
}
