// A second copy of catalog entries, manifests included, among the chunks, needed where history cannot replace a
// checkpoint.
// With authority "state", and for savepoints, each entry has a copy. A timeline with trimmed history has one copied
// entry, the spare: any other entry may be lost, because an older checkpoint and the history after it replace it, and
// the spare remains if all of them are lost together.
// A copy is removed before its entry is dropped, so a copy without an entry is an entry that was lost.

import { ByteReader, ByteWriter } from '../../../core/bytes.ts'
import { decodeManifest } from '../../../core/checkpoint/manifest.ts'
import { stripeOfParity } from '../../../core/checkpoint/parity.ts'
import { type Digest, equalBytes, type ManifestId, type TimelineId, toHex } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import { newestFirst } from '../../../core/history/recovery.ts'
import type { Blobs, Hash, ManifestRecord, StoredChunk } from '../../../core/store/ports.ts'
import { keyOf, kinds, listKind, withDigest, withoutDigest } from './keys.ts'

const halfId = 12

export class CatalogLines {
  readonly #blobs: Blobs
  readonly #hash: Hash

  constructor(blobs: Blobs, hash: Hash) {
    this.#blobs = blobs
    this.#hash = hash
  }

  /** The copy of an entry that no other can replace. */
  #chunkOf(timeline: TimelineId, record: ManifestRecord): StoredChunk {
    return { digest: this.#key(timeline, record.id), bytes: this.#sealed(timeline, record), stripe: stripeOfParity }
  }

  async put(timeline: TimelineId, records: readonly ManifestRecord[]): Promise<void> {
    await this.#of(timeline).put(records.map((record) => this.#chunkOf(timeline, record)))
  }

  /** For several timelines, all of one database at once. */
  async putAll(lines: readonly { readonly timeline: TimelineId; readonly records: readonly ManifestRecord[] }[]) {
    if (this.#blobs.of) {
      await Promise.all(lines.map(({ timeline, records }) => this.put(timeline, records)))
      return
    }
    const chunks = lines.flatMap(({ timeline, records }) => records.map((record) => this.#chunkOf(timeline, record)))
    await this.#blobs.put(chunks)
  }

  /** Call before these entries are dropped. */
  async leave(timeline: TimelineId, ids: readonly ManifestId[], rows: () => Promise<readonly ManifestRecord[]>) {
    const keys = [...ids.map((id) => this.#key(timeline, id)), this.#spareKey(timeline)]
    // Most do not exist, and checking is cheaper than writing.
    const isThere = await this.#of(timeline).has?.(keys)
    const there = keys.filter((_, i) => isThere?.[i] !== false)
    if (there.length === 0) return
    const own = there.filter((key) => key !== keys[ids.length])
    if (own.length > 0) await this.#of(timeline).delete(own, Number.MAX_SAFE_INTEGER)
    if (own.length === there.length) return
    const left = (await rows()).filter(({ id }) => !ids.includes(id))
    await this.#renewSpare(timeline, left)
  }

  async removeAll(timeline: TimelineId): Promise<void> {
    const keys = [...(await this.#keys(timeline)), this.#spareKey(timeline)]
    await this.#of(timeline).delete(keys, Number.MAX_SAFE_INTEGER)
  }

  /**
   * Call before anything depends on these entries alone. With `isTruth`, each of them gets a copy; otherwise savepoints
   * and one other entry do.
   */
  async protect(timeline: TimelineId, rows: readonly ManifestRecord[], isTruth: boolean): Promise<void> {
    const there = new Set((await this.#keys(timeline)).map(toHex))
    const needed = rows.filter((row) => (isTruth || row.isPinned) && isSoundLine(this.#hash, row))
    const missing = needed.filter((row) => !there.has(toHex(this.#key(timeline, row.id))))
    if (missing.length > 0) await this.put(timeline, missing)
    if (!isTruth) await this.#renewSpare(timeline, rows)
  }

  /** Removes the copies of entries that do not exist. Call only with the complete catalog. */
  async forgetOthers(timeline: TimelineId, rows: readonly ManifestRecord[]): Promise<void> {
    const needed = new Set(rows.map((row) => toHex(this.#key(timeline, row.id))))
    const extra = (await this.#keys(timeline)).filter((key) => !needed.has(toHex(key)))
    if (extra.length > 0) await this.#of(timeline).delete(extra, Number.MAX_SAFE_INTEGER)
    if (rows.length === 0) await this.#of(timeline).delete([this.#spareKey(timeline)], Number.MAX_SAFE_INTEGER)
  }

  /** The intact copies, in catalog order. */
  async load(timeline: TimelineId): Promise<ManifestRecord[]> {
    const keys = [...(await this.#keys(timeline)), this.#spareKey(timeline)]
    const records = new Map<string, ManifestRecord>()
    for (const stored of await this.#of(timeline).get(keys)) {
      const record = this.#opened(timeline, stored)
      if (record) records.set(record.id, record)
    }
    return [...records.values()].sort(newestFirst)
  }

  /** True if each entry of this timeline has its own copy. */
  async isTruth(timeline: TimelineId): Promise<boolean> {
    for (const stored of await this.#of(timeline).get(await this.#keys(timeline))) {
      if (this.#opened(timeline, stored)?.isPinned === false) return true
    }
    return false
  }

  async #renewSpare(timeline: TimelineId, rows: readonly ManifestRecord[]): Promise<void> {
    const key = this.#spareKey(timeline)
    const [stored] = await this.#of(timeline).get([key])
    const held = this.#opened(timeline, stored ?? null)
    if (held && rows.some(({ id }) => id === held.id)) return
    const newest = [...rows].sort(newestFirst).find((row) => row.invalid === null && isSoundLine(this.#hash, row))
    if (stored) await this.#of(timeline).delete([key], Number.MAX_SAFE_INTEGER)
    if (!newest) return
    await this.#of(timeline).put([{ digest: key, bytes: this.#sealed(timeline, newest), stripe: stripeOfParity }])
  }

  /** Stored beside the entries themselves. */
  #of(timeline: TimelineId): Blobs {
    return this.#blobs.of?.(timeline) ?? this.#blobs
  }

  #sealed(timeline: TimelineId, record: ManifestRecord): Uint8Array {
    return withDigest(this.#hash, encodeLine(timeline, record))
  }

  #opened(timeline: TimelineId, stored: Uint8Array | null): ManifestRecord | null {
    const bytes = withoutDigest(this.#hash, stored)
    const line = bytes && decodeLine(bytes, this.#hash)
    return line?.timeline === timeline && isSoundLine(this.#hash, line.record) ? line.record : null
  }

  #spareKey(timeline: TimelineId): Digest {
    return keyOf(kinds.spare, this.#hash(new TextEncoder().encode(timeline)))
  }

  async #keys(timeline: TimelineId): Promise<Digest[]> {
    return (await listKind(this.#of(timeline), kinds.line, this.#start(timeline))).map(({ digest }) => digest)
  }

  #key(timeline: TimelineId, id: ManifestId): Digest {
    const name = new Uint8Array(2 * halfId)
    name.set(this.#start(timeline))
    name.set(this.#hash(new TextEncoder().encode(id)).subarray(0, halfId), halfId)
    return keyOf(kinds.line, name)
  }

  #start(timeline: TimelineId): Uint8Array {
    return this.#hash(new TextEncoder().encode(timeline)).subarray(0, halfId)
  }
}

/** True if the manifest is the published one and belongs to this entry. */
export function isSoundLine(hash: Hash, record: ManifestRecord): boolean {
  if (record.body.length === 0 || !equalBytes(hash(record.body), record.bodyDigest)) return false
  try {
    const { seq, digest } = decodeManifest(record.body)
    return seq === record.seq && equalBytes(digest, record.digest)
  } catch (error) {
    // Written by a later release: possibly intact, so it must not be replaced.
    return isReprise(error, 'INCOMPATIBLE_VERSION')
  }
}

/** The digests are omitted: they follow from the manifest. */
function encodeLine(timeline: TimelineId, record: ManifestRecord): Uint8Array {
  const { body, bodyDigest: _, digest: __, ...rest } = record
  const writer = new ByteWriter(body.length + 256)
  writer.text(JSON.stringify([timeline, ...fields.map((name) => rest[name])]))
  writer.raw(body)
  return writer.take()
}

const fields = [
  ...(['id', 'seq', 'epoch', 'baseId', 'createdAt', 'trigger', 'label', 'isPinned', 'foldVersion'] as const),
  ...(['totalBytes', 'addedBytes', 'verifiedAt', 'invalid', 'drilledAt', 'drill'] as const),
]

function decodeLine(bytes: Uint8Array, hash: Hash): { readonly timeline: string; readonly record: ManifestRecord } {
  const reader = new ByteReader(bytes)
  const [timeline, ...values] = JSON.parse(reader.text())
  const rest = Object.fromEntries(fields.map((name, i) => [name, values[i]]))
  const body = new Uint8Array(reader.raw(reader.remaining))
  const { digest } = decodeManifest(body)
  return { timeline, record: { ...rest, body, bodyDigest: hash(body), digest } as ManifestRecord }
}
