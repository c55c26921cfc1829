// A second copy of lines of a catalog, manifests included, among the chunks. It is needed where history cannot take the place
// of a checkpoint. Of a state that is its own truth, and of a savepoint, each line has one. Of other timelines whose history
// is trimmed, one line has, the spare: any other line may be lost, since an older one and the history after it do as well,
// and when all of them are lost together there is the spare.
//
// A copy goes before its line is dropped, so a copy without a line is a line that was lost.

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

  /** The copy of a line that no other can take the place of. */
  #chunkOf(timeline: TimelineId, record: ManifestRecord): StoredChunk {
    return { digest: this.#key(timeline, record.id), bytes: this.#sealed(timeline, record), stripe: stripeOfParity }
  }

  async put(timeline: TimelineId, records: readonly ManifestRecord[]): Promise<void> {
    await this.#of(timeline).put(records.map((record) => this.#chunkOf(timeline, record)))
  }

  /** Of several timelines, all of a database at once. */
  async putAll(lines: readonly { readonly timeline: TimelineId; readonly records: readonly ManifestRecord[] }[]) {
    if (this.#blobs.of) {
      await Promise.all(lines.map(({ timeline, records }) => this.put(timeline, records)))
      return
    }
    const chunks = lines.flatMap(({ timeline, records }) => records.map((record) => this.#chunkOf(timeline, record)))
    await this.#blobs.put(chunks)
  }

  /** Before these lines go. */
  async leave(timeline: TimelineId, ids: readonly ManifestId[], rows: () => Promise<readonly ManifestRecord[]>) {
    const keys = [...ids.map((id) => this.#key(timeline, id)), this.#spareKey(timeline)]
    // Most have none; to look is cheaper than to write.
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

  /** Before anything rests on these lines alone. With `isTruth` each of them has a copy, else savepoints and one other. */
  async protect(timeline: TimelineId, rows: readonly ManifestRecord[], isTruth: boolean): Promise<void> {
    const there = new Set((await this.#keys(timeline)).map(toHex))
    const needed = rows.filter((row) => (isTruth || row.isPinned) && isSoundLine(this.#hash, row))
    const missing = needed.filter((row) => !there.has(toHex(this.#key(timeline, row.id))))
    if (missing.length > 0) await this.put(timeline, missing)
    if (!isTruth) await this.#renewSpare(timeline, rows)
  }

  /** Takes away the copies of lines that are not there. Only where it is certain that all lines are given. */
  async forgetOthers(timeline: TimelineId, rows: readonly ManifestRecord[]): Promise<void> {
    const needed = new Set(rows.map((row) => toHex(this.#key(timeline, row.id))))
    const extra = (await this.#keys(timeline)).filter((key) => !needed.has(toHex(key)))
    if (extra.length > 0) await this.#of(timeline).delete(extra, Number.MAX_SAFE_INTEGER)
    if (rows.length === 0) await this.#of(timeline).delete([this.#spareKey(timeline)], Number.MAX_SAFE_INTEGER)
  }

  /** The copies that are sound, in the order of a catalog, and whether they are of lines that stand for themselves. */
  async load(timeline: TimelineId): Promise<ManifestRecord[]> {
    const keys = [...(await this.#keys(timeline)), this.#spareKey(timeline)]
    const records = new Map<string, ManifestRecord>()
    for (const stored of await this.#of(timeline).get(keys)) {
      const record = this.#opened(timeline, stored)
      if (record) records.set(record.id, record)
    }
    return [...records.values()].sort(newestFirst)
  }

  /** Each line of this timeline has its own copy. */
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

  /** Beside the lines themselves. */
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

/** The manifest is the one that was published, and of this line. */
export function isSoundLine(hash: Hash, record: ManifestRecord): boolean {
  if (record.body.length === 0 || !equalBytes(hash(record.body), record.bodyDigest)) return false
  try {
    const { seq, digest } = decodeManifest(record.body)
    return seq === record.seq && equalBytes(digest, record.digest)
  } catch (error) {
    // Of a later release: it may be sound, and is not ours to replace.
    return isReprise(error, 'INCOMPATIBLE_VERSION')
  }
}

/** The digests are left out: they follow from the manifest. */
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
