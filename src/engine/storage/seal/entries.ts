// Seals an entry for its run, and opens it. Without keys, only its data is in an envelope. With keys, the dedupe key is
// sealed along with the data, and so is the type if the ring hides types: the run then contains neither in plain text.
//   inside = flags(byte: 1 has a key, 2 has its type) [key(text)] [type(text)] data

import { ByteReader, ByteWriter } from '../../../core/bytes.ts'
import type { Digest } from '../../../core/coordinate.ts'
import type { EntryDraft, StoredEntry } from '../../../core/history/entry-run.ts'
import { Sealer } from './seal.ts'

const hasKey = 1
const hasType = 2
const noContext = new Uint8Array(0)

/** Binds a sealed entry to its place: the digest of all history before its run, and its index in the run. */
export function entryContext(before: Digest, index: number): Uint8Array {
  const context = new Uint8Array(before.length + 4)
  context.set(before)
  new DataView(context.buffer).setUint32(before.length, index)
  return context
}

/** `data` is encoded, and not sealed yet. Data with the lead byte of a bare envelope is used as it is, if that is allowed. */
export function sealEntry(
  sealer: Sealer,
  entry: Omit<EntryDraft, 'isHeadInside'>,
  before: Digest,
  index: number,
  aboveBytes?: number,
): EntryDraft {
  const { type, version, time, key, data } = entry
  if (sealer.isBare(data.length, aboveBytes)) {
    return entry.lead === Sealer.bare ? entry : { type, version, time, key, lead: Sealer.bare, data }
  }
  // Only encryption uses the context.
  if (sealer.keyId === null) {
    return { type, version, time, key, data: sealer.seal(data, noContext, aboveBytes) }
  }
  const context = entryContext(before, index)
  if (key === undefined && !sealer.hidesTypes) {
    return { type, version, time, key, data: sealer.seal(data, context, aboveBytes) }
  }
  const inside = new ByteWriter(data.length + 128)
  inside.byte((key === undefined ? 0 : hasKey) | (sealer.hidesTypes ? hasType : 0))
  if (key !== undefined) inside.text(key)
  if (sealer.hidesTypes) inside.text(type)
  inside.raw(data)
  const sealed = sealer.seal(inside.view(), context, aboveBytes)
  return { type: sealer.hidesTypes ? '' : type, version, time, key: undefined, data: sealed, isHeadInside: true }
}

export interface OpenedEntry {
  readonly type: string
  readonly key: string | undefined
  readonly plain: Uint8Array
}

export function openEntry(sealer: Sealer, entry: StoredEntry, before: Digest, index: number): OpenedEntry {
  const { type, key, data, isHeadInside } = entry
  // The context is computed only where it is used: this is the hot path of every recovery.
  const plain = sealer.isPlain(data) ? sealer.openPlain(data) : sealer.open(data, entryContext(before, index))
  if (!isHeadInside) return { type, key, plain }
  const reader = new ByteReader(plain)
  const flags = reader.byte()
  return {
    key: flags & hasKey ? reader.text() : undefined,
    type: flags & hasType ? reader.text() : type,
    plain: reader.raw(reader.remaining),
  }
}
