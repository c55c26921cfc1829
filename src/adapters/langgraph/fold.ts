// One thread of a graph as a timeline: how its entries fold into checkpoints, pending writes, values and leaves. An
// entry holds only a checkpoint's changes against its parent; the folded record is complete, so reading never walks a
// chain of parents. A list that grew is stored as the items added to the previous list. All keys ascend with time: readers of
// the newest checkpoints need only the last pages, and the others are not read (engine/model/definition.ts).
// thread-entries.ts defines the entries.

import { type Keyed, keyed } from '../../core/keyed-state/keyed.ts'
import type { Entry } from '../../engine/history/history.ts'
import type { Fold } from '../../engine/model/definition.ts'
import { type LeafRecord, type NewLeaves, type Packed, placeKey, placeOf, settlePacked, settleRefs } from './leaves.ts'
import { type NamedCheckpoint, spellNames, unpackChannel } from './names.ts'
import { define } from './portable.ts'
import type { CheckpointData, Difference, NewValue, PrunedData, Version, WritesData } from './thread-entries.ts'

/** A stored value: complete, or a list that extends another. */
export type StoredValue =
  | { readonly packed: Packed; readonly serde?: string }
  | {
      readonly base: string | null
      readonly keep: number
      readonly items: readonly Uint8Array[]
      readonly depth: number
      /** Places of the leaves that these items refer to. */
      readonly leaves: readonly number[]
    }

export interface CheckpointRecord {
  readonly parent: string | null
  readonly v: number
  /** In packed form. */
  readonly ts: string | number
  readonly versions: Readonly<Record<string, Version>>
  readonly seen: Readonly<Record<string, Readonly<Record<string, Version>>>>
  /** Each value is encoded separately: a filter compares bytes. */
  readonly metadata: Readonly<Record<string, Packed>>
  /** Channel to value id. */
  readonly channels: Readonly<Record<string, string>>
  readonly extra: Packed | null
}

export interface WriteRecord {
  readonly task: string
  readonly channel: string
  readonly packed: Packed
  readonly serde?: string
}

export interface ThreadState {
  /** Keyed by namespace and id. */
  readonly checkpoints: Keyed<CheckpointRecord>
  /** Keyed by namespace, id, task and index. */
  readonly writes: Keyed<WriteRecord>
  /** Keyed by the place of the entry that added it. */
  readonly values: Keyed<StoredValue>
  /** Keyed by place: the entry that added it, and its number there. */
  readonly leaves: Keyed<LeafRecord>
}

/** The same for every saver of this version, so that they can share an open thread. */
export const threadFold: Fold<ThreadState> = {
  version: 'langgraph 2',
  isOurs: true,
  // Version 1 identified leaves by digest. It was never published and has no upcaster: it is refused, not misread.
  upcasters: { checkpoint: { version: 2 }, writes: { version: 2 }, pruned: { version: 2 } },
  initial: () => ({ checkpoints: keyed(), writes: keyed(), values: keyed(), leaves: keyed() }),
  apply(state, entry) {
    if (entry.type === 'checkpoint')
      applyCheckpoint(state, entry, spellNames(entry.data as CheckpointData | NamedCheckpoint))
    else if (entry.type === 'writes') applyWrites(state, entry, entry.data as WritesData)
    else if (entry.type === 'pruned') applyPruned(state, entry.data as PrunedData)
  },
  checkpoint: { every: 512, first: 1024 },
  paged: { pageBytes: 16 * 1024, touches },
  compressAboveBytes: 512,
  retain: { checkpoints: 2, history: 'needed' },
}

export function checkpointKey(ns: string, id: string): string {
  return `${ns}\0${id}`
}

/** Special writes (errors, interrupts) have negative indexes and come first. */
export function writeKey(ns: string, id: string, task: string, index: number): string {
  return `${checkpointKey(ns, id)}\0${task}\0${String(index + 1000).padStart(10, '0')}`
}

/** A value is named after the entry that added it. */
export function valueId(seq: number, index: number): string {
  return `${seq.toString(36).padStart(9, '0')}.${index}`
}

/** @example differ({ a: 1, b: 2 }, { a: 1, c: 3 }, Object.is) // [['c', 3], ['b']] */
export function differ<V>(
  before: Readonly<Record<string, V>>,
  after: Readonly<Record<string, V>>,
  isSame: (a: V, b: V) => boolean,
): Difference<V> {
  const set: (string | V)[] = []
  for (const [key, value] of Object.entries(after)) {
    if (!Object.hasOwn(before, key) || !isSame(before[key] as V, value)) set.push(key, value)
  }
  return [set, Object.keys(before).filter((key) => !Object.hasOwn(after, key))]
}

/** Shares unchanged fields with the parent's record. */
function patch<V>(before: Readonly<Record<string, V>>, [set, gone]: Difference<V>): Readonly<Record<string, V>> {
  if (set.length === 0 && gone.length === 0) return before
  const made: Record<string, V> = {}
  for (const key of Object.keys(before)) if (!gone.includes(key)) define(made, key, before[key])
  for (let i = 0; i < set.length; i += 2) define(made, set[i] as string, set[i + 1])
  return made
}

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** A UUID in canonical form takes 16 bytes; any other id stays text. */
export function packId(id: string): string | Uint8Array {
  return uuidForm.test(id) ? new Uint8Array(Buffer.from(id.replaceAll('-', ''), 'hex')) : id
}

const hexOf = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** Written for speed: a thread of 200 turns has a thousand ids, and the first read decodes each. */
export function unpackId(id: string | Uint8Array): string {
  if (typeof id === 'string') return id
  let text = ''
  for (let i = 0; i < id.length; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) text += '-'
    text += hexOf[id[i]!]
  }
  return text
}

/** An ISO time in canonical form is stored as a number. */
export function packTime(ts: string): string | number {
  const ms = Date.parse(ts)
  return Number.isFinite(ms) && new Date(ms).toISOString() === ts ? ms : ts
}

export function unpackTime(ts: string | number): string {
  return typeof ts === 'number' ? new Date(ts).toISOString() : ts
}

const nothing: CheckpointRecord = {
  parent: null,
  v: 4,
  ts: '',
  versions: {},
  seen: {},
  metadata: {},
  channels: {},
  extra: null,
}

/** The record against which a checkpoint's differences are computed. */
export function parentOf(state: ThreadState, ns: string, parent: string | null): CheckpointRecord {
  return (parent === null ? undefined : state.checkpoints.get(checkpointKey(ns, parent))) ?? nothing
}

function applyCheckpoint(state: ThreadState, entry: Entry, data: CheckpointData): void {
  const [ns, packedId, packedParent, v, ts, versions, seen, metadata, channels, values, leaves, extra] = data
  const { seq } = entry
  keepLeaves(state, seq, leaves)
  const ids = values.map((value, i) => {
    const id = valueId(seq, i)
    state.values.set(id, storedOf(seq, value))
    return id
  })
  const parent = packedParent === null ? null : unpackId(packedParent)
  const before = parentOf(state, ns, parent)
  const [set, gone] = channels
  const named = set.map((item) => (typeof item === 'number' ? ids[item]! : item))
  const [fields, fieldsGone] = metadata
  const settled = fields.map((item) => (typeof item === 'string' ? item : settlePacked(seq, item)))
  state.checkpoints.set(checkpointKey(ns, unpackId(packedId)), {
    parent,
    v,
    ts,
    versions: patch(before.versions, versions),
    seen: patch(before.seen, seen),
    metadata: patch(before.metadata, [settled, fieldsGone]),
    channels: patch(before.channels, [named, gone]),
    extra: extra === null ? null : settlePacked(seq, extra),
  })
}

function keepLeaves(state: ThreadState, seq: number, leaves: NewLeaves): void {
  for (const [n, leaf] of leaves.entries()) state.leaves.set(placeKey(placeOf(seq, n)), leaf)
}

function storedOf(seq: number, value: NewValue): StoredValue {
  if (value[0] === 0) {
    const packed = settlePacked(seq, value[1])
    return value[2] === undefined ? { packed } : { packed, serde: value[2] }
  }
  const [, base, keep, items, depth, refs] = value
  return { base, keep, items, depth, leaves: settleRefs(seq, refs) }
}

function applyWrites(state: ThreadState, { seq }: Entry, data: WritesData): void {
  const [ns, id, packedTask, writes, leaves] = data
  keepLeaves(state, seq, leaves)
  const task = unpackId(packedTask)
  for (const [index, packedChannel, unsettled, serde] of writes) {
    const packed = settlePacked(seq, unsettled)
    const channel = unpackChannel(packedChannel)
    const key = writeKey(ns, unpackId(id), task, index)
    // The first write of a task is kept; special writes are replaced.
    if (index >= 0 && state.writes.has(key)) continue
    state.writes.set(key, serde === undefined ? { task, channel, packed } : { task, channel, packed, serde })
  }
}

function applyPruned(state: ThreadState, [checkpoints, writes, values, leaves]: PrunedData): void {
  for (const key of checkpoints) state.checkpoints.delete(key)
  for (const key of writes) state.writes.delete(key)
  for (const id of values) state.values.delete(id)
  for (const place of leaves) state.leaves.delete(placeKey(place))
}

function* touches({ type, seq, data }: Entry): Generator<readonly [part: keyof ThreadState, key: string]> {
  if (type === 'pruned') {
    const [checkpoints, writes, values, leaves] = data as PrunedData
    for (const key of checkpoints) yield ['checkpoints', key]
    for (const key of writes) yield ['writes', key]
    for (const id of values) yield ['values', id]
    for (const place of leaves) yield ['leaves', placeKey(place)]
    return
  }
  // New values and leaves are added at the current end.
  yield ['values', valueId(seq, 0)]
  yield ['leaves', placeKey(placeOf(seq, 0))]
  if (type === 'checkpoint') {
    const [ns, id, parent] = data as CheckpointData | NamedCheckpoint
    yield ['checkpoints', checkpointKey(ns, unpackId(id))]
    if (parent !== null) yield ['checkpoints', checkpointKey(ns, unpackId(parent))]
  } else if (type === 'writes') {
    const [ns, id, task, writes] = data as WritesData
    for (const [index] of writes) yield ['writes', writeKey(ns, unpackId(id), unpackId(task), index)]
  }
}
