// Plans the entry of a put: the differences of a checkpoint from its parent. LangGraph names the changed channels
// (newVersions); any other channel keeps the parent's value if the versions agree, and is omitted without a parent.

import type { ChannelVersions, Checkpoint, CheckpointMetadata } from '@langchain/langgraph-checkpoint'
import { equalBytes } from '../../core/coordinate.ts'
import type { NewEntry } from '../../engine/writing/timeline.ts'
import type { Written } from '../../engine/writing/writer.ts'
import { type CheckpointRecord, differ, packId, packTime, parentOf, type ThreadState, valueId } from './fold.ts'
import { bytesOf, type LeafDraft, type Leaves, type Packed, settleRefs } from './leaves.ts'
import type { ListItems, Lists } from './lists.ts'
import { numberNames } from './names.ts'
import type { Portable } from './portable.ts'
import type { CheckpointData, Difference, NewValue, Version } from './thread-entries.ts'

export interface Put {
  readonly state: ThreadState
  readonly ns: string
  readonly parent: string | null
  readonly checkpoint: Checkpoint
  readonly metadata: CheckpointMetadata
  readonly newVersions: ChannelVersions
  /** By channel, if the user has a custom serializer. */
  readonly serialized: ReadonlyMap<string, readonly [string, Uint8Array]> | null
}

interface Draft {
  readonly values: NewValue[]
  readonly leaves: LeafDraft
  readonly set: (string | number)[]
  readonly present: Set<string>
  /** Lists to remember once the place of the entry is known. */
  readonly held: {
    readonly index: number | string
    readonly list: ListItems
    readonly refs: readonly number[]
    readonly live: readonly unknown[]
  }[]
}

export function prepareCheckpoint(
  put: Put,
  portable: Portable,
  lists: Lists,
  leaves: Leaves,
): { readonly entry: NewEntry; done(written: Written): void } {
  const { state, ns, parent, checkpoint } = put
  const before = parentOf(state, ns, parent)
  const hasParent = parent !== null
  const draft: Draft = { values: [], leaves: leaves.draft(state.leaves), set: [], present: new Set(), held: [] }
  for (const [channel, value] of Object.entries(checkpoint.channel_values)) {
    if (isCarried(put, before, channel)) draft.present.add(channel)
    else if (Object.hasOwn(put.newVersions, channel) || hasParent)
      store(put, before, channel, value, draft, portable, lists)
  }
  const gone = Object.keys(before.channels).filter((channel) => !draft.present.has(channel))
  const extra = extraOf(checkpoint, portable, draft)
  const data: CheckpointData = [
    ns,
    packId(checkpoint.id),
    parent === null ? null : packId(parent),
    checkpoint.v,
    packTime(checkpoint.ts),
    differ<Version>(before.versions, checkpoint.channel_versions, Object.is),
    differ(before.seen, checkpoint.versions_seen ?? {}, isSameSeen),
    differMetadata(before, put.metadata, portable, draft),
    [draft.set, gone],
    draft.values,
    draft.leaves.brought,
    extra,
  ]
  return {
    entry: { type: 'checkpoint', data: numberNames(data) },
    done(written) {
      leaves.written(draft.leaves, written.first)
      for (const { index, list, refs, live } of draft.held) {
        const id = typeof index === 'string' ? index : valueId(written.first, index)
        const added = settleRefs(written.first, refs)
        lists.hold(id, added.length > 0 ? { items: list.items, leaves: [...list.leaves, ...added] } : list, live)
      }
    },
  }
}

/** LangGraph reports the channel as unchanged, and the parent has it. */
function isCarried(put: Put, before: CheckpointRecord, channel: string): boolean {
  return (
    !Object.hasOwn(put.newVersions, channel) &&
    Object.hasOwn(before.channels, channel) &&
    Object.is(before.versions[channel], put.checkpoint.channel_versions[channel])
  )
}

function store(
  put: Put,
  before: CheckpointRecord,
  channel: string,
  value: unknown,
  draft: Draft,
  portable: Portable,
  lists: Lists,
): void {
  const { state, serialized } = put
  draft.present.add(channel)
  const baseId = Object.hasOwn(before.channels, channel) ? before.channels[channel] : undefined
  const foreign = serialized?.get(channel)
  if (foreign) {
    add(draft, channel, [0, foreign[1], foreign[0]])
    return
  }
  if (Array.isArray(value)) {
    const prepared = lists.prepare(state, baseId, value, draft.leaves)
    const { same, list, refs } = prepared
    draft.held.push({ index: same ?? draft.values.length, list, refs, live: value })
    if (prepared.same === null) add(draft, channel, prepared.value)
    return
  }
  const encoded = portable.encode(value)
  const base = baseId === undefined ? undefined : state.values.get(baseId)
  const isSame = base && 'packed' in base && base.serde === undefined && equalBytes(bytesOf(base.packed), encoded.bytes)
  if (!isSame) add(draft, channel, [0, draft.leaves.pack(encoded)])
}

function add(draft: Draft, channel: string, value: NewValue): void {
  draft.set.push(channel, draft.values.length)
  draft.values.push(value)
}

function differMetadata(
  before: CheckpointRecord,
  metadata: CheckpointMetadata,
  portable: Portable,
  draft: Draft,
): Difference<Packed> {
  const encoded = new Map(Object.entries(metadata).map(([key, value]) => [key, portable.encode(value)]))
  const fields = Object.fromEntries([...encoded].map(([key, { bytes }]): [string, Packed] => [key, bytes]))
  const [set, gone] = differ(before.metadata, fields, (a, b) => equalBytes(bytesOf(a), bytesOf(b)))
  // Leaves are added only now: those of an unchanged field are not stored again.
  const packed = set.map((item, i) => (i % 2 === 0 ? item : draft.leaves.pack(encoded.get(set[i - 1] as string)!)))
  return [packed, gone]
}

const ownFields = ['v', 'id', 'ts', 'channel_values', 'channel_versions', 'versions_seen']

/** Keeps fields of later or earlier formats unchanged. */
function extraOf(checkpoint: Checkpoint, portable: Portable, draft: Draft): Packed | null {
  const others = Object.entries(checkpoint).filter(([key]) => !ownFields.includes(key))
  if (others.length === 0) return null
  return draft.leaves.pack(portable.encode(others))
}

function isSameSeen(a: Readonly<Record<string, Version>>, b: Readonly<Record<string, Version>>): boolean {
  const [set, gone] = differ(a, b, Object.is)
  return set.length === 0 && gone.length === 0
}
