// What a put writes: the differences of a checkpoint from its parent. Which channels changed is LangGraph's word
// (newVersions); a channel it does not name is the parent's if the versions agree, and is left out if there is no parent.

import type { ChannelVersions, Checkpoint, CheckpointMetadata } from '@langchain/langgraph-checkpoint'
import { equalBytes } from '../../core/coordinate.ts'
import type { NewEntry } from '../../engine/timeline.ts'
import type { Written } from '../../engine/writer.ts'
import {
  type CheckpointData,
  type CheckpointRecord,
  differ,
  type NewValue,
  packId,
  packTime,
  parentOf,
  type ThreadState,
  type Version,
  valueId,
} from './fold.ts'
import type { Lists } from './lists.ts'
import { numberNames } from './names.ts'
import type { LeafValue, Portable } from './portable.ts'

export interface Put {
  readonly state: ThreadState
  readonly ns: string
  readonly parent: string | null
  readonly checkpoint: Checkpoint
  readonly metadata: CheckpointMetadata
  readonly newVersions: ChannelVersions
  /** By channel, if the user has a serializer of their own. */
  readonly serialized: ReadonlyMap<string, readonly [string, Uint8Array]> | null
}

interface Draft {
  readonly values: NewValue[]
  readonly leaves: Map<string, LeafValue>
  readonly set: (string | number)[]
  readonly present: Set<string>
  /** To be told once the place of the entry is known. */
  readonly held: {
    readonly index: number | string
    readonly items: readonly Uint8Array[]
    readonly live: readonly unknown[]
  }[]
}

export function prepareCheckpoint(
  put: Put,
  portable: Portable,
  lists: Lists,
): { readonly entry: NewEntry; done(written: Written): void } {
  const { state, ns, parent, checkpoint } = put
  const before = parentOf(state, ns, parent)
  const hasParent = parent !== null
  const draft: Draft = { values: [], leaves: new Map(), set: [], present: new Set(), held: [] }
  for (const [channel, value] of Object.entries(checkpoint.channel_values)) {
    if (isCarried(put, before, channel)) draft.present.add(channel)
    else if (Object.hasOwn(put.newVersions, channel) || hasParent)
      store(put, before, channel, value, draft, portable, lists)
  }
  const gone = Object.keys(before.channels).filter((channel) => !draft.present.has(channel))
  const extra = extraOf(checkpoint, portable, draft, state)
  const metadata = encodeFields(put.metadata, portable, state, draft.leaves)
  const data: CheckpointData = [
    ns,
    packId(checkpoint.id),
    parent === null ? null : packId(parent),
    checkpoint.v,
    packTime(checkpoint.ts),
    differ<Version>(before.versions, checkpoint.channel_versions, Object.is),
    differ(before.seen, checkpoint.versions_seen ?? {}, isSameSeen),
    differ(before.metadata, metadata, equalBytes),
    [draft.set, gone],
    draft.values,
    [...draft.leaves],
    extra,
  ]
  return {
    entry: { type: 'checkpoint', data: numberNames(data) },
    done(written) {
      for (const { index, items, live } of draft.held) {
        lists.hold(typeof index === 'string' ? index : valueId(written.first, index), items, live)
      }
    },
  }
}

/** Unchanged by LangGraph's own word, and the parent has it. */
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
    const list = lists.prepare(state, baseId, value)
    draft.held.push({ index: list.same ?? draft.values.length, items: list.items, live: value })
    for (const [digest, leaf] of list.leaves) draft.leaves.set(digest, leaf)
    if (list.same === null) add(draft, channel, list.value)
    return
  }
  const { bytes, leaves } = portable.encode(value)
  const base = baseId === undefined ? undefined : state.values.get(baseId)
  if (base && 'bytes' in base && base.serde === undefined && equalBytes(base.bytes, bytes)) return
  for (const [digest, leaf] of leaves) if (!state.leaves.has(digest)) draft.leaves.set(digest, leaf)
  add(draft, channel, [0, bytes])
}

function add(draft: Draft, channel: string, value: NewValue): void {
  draft.set.push(channel, draft.values.length)
  draft.values.push(value)
}

function encodeFields(
  fields: object,
  portable: Portable,
  state: ThreadState,
  into: Map<string, LeafValue>,
): Record<string, Uint8Array> {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => {
      const { bytes, leaves } = portable.encode(value)
      for (const [digest, leaf] of leaves) if (!state.leaves.has(digest)) into.set(digest, leaf)
      return [key, bytes]
    }),
  )
}

const ownFields = ['v', 'id', 'ts', 'channel_values', 'channel_versions', 'versions_seen']

/** Fields of a later or earlier format are kept as they are. */
function extraOf(checkpoint: Checkpoint, portable: Portable, draft: Draft, state: ThreadState): Uint8Array | null {
  const others = Object.entries(checkpoint).filter(([key]) => !ownFields.includes(key))
  if (others.length === 0) return null
  const { bytes, leaves } = portable.encode(others)
  for (const [digest, leaf] of leaves) if (!state.leaves.has(digest)) draft.leaves.set(digest, leaf)
  return bytes
}

function isSameSeen(a: Readonly<Record<string, Version>>, b: Readonly<Record<string, Version>>): boolean {
  const [set, gone] = differ(a, b, Object.is)
  return set.length === 0 && gone.length === 0
}
