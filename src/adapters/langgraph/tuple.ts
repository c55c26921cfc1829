// Converts records to LangGraph's tuples: channel values, metadata and pending writes, made afresh for each reader. Pending
// sends of checkpoints before format 4 are moved into their channel, as the official savers do.

import {
  type ChannelVersions,
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  maxChannelVersion,
  type SerializerProtocol,
  TASKS,
} from '@langchain/langgraph-checkpoint'
import { type CheckpointRecord, checkpointKey, type ThreadState, unpackTime, type WriteRecord } from './fold.ts'
import { bytesOf, type Packed, placesOf } from './leaves.ts'
import type { ListItems, Lists } from './lists.ts'
import type { Portable } from './portable.ts'
import { define } from './portable.ts'
import { type LeafReader, revive } from './revive.ts'
import type { Found } from './select.ts'
import type { Thread } from './thread.ts'

/** The stored parts of a tuple, read from the state at once, before anything is awaited. */
export interface Taken {
  readonly found: Found
  readonly channels: readonly (readonly [string, TakenValue])[]
  readonly writes: readonly WriteRecord[]
  readonly sends: readonly WriteRecord[]
  readonly leaf: LeafReader
}

interface Whole {
  readonly packed: Packed
  readonly serde?: string
}

type TakenValue = Whole | { readonly list: ListItems; readonly valueId: string }

export class TupleMaker {
  readonly #portable: Portable
  readonly #serde: SerializerProtocol | null
  readonly #nextVersion: (current: number | undefined) => number

  constructor(
    portable: Portable,
    serde: SerializerProtocol | null,
    nextVersion: (current: number | undefined) => number,
  ) {
    this.#portable = portable
    this.#serde = serde
    this.#nextVersion = nextVersion
  }

  /** With `lists`, the values of lists are remembered as those that the graph holds from now on. */
  async make(threadId: string, taken: Taken, lists: Lists | null): Promise<CheckpointTuple> {
    const { ns, id, record } = taken.found
    const channel_values: Record<string, unknown> = {}
    for (const [channel, value] of taken.channels) {
      define(channel_values, channel, await this.#value(value, taken.leaf, lists))
    }
    const channel_versions: ChannelVersions = { ...record.versions }
    if (record.v < 4 && record.parent !== null) {
      channel_values[TASKS] = await Promise.all(taken.sends.map((write) => this.#whole(write, taken.leaf)))
      const versions = Object.values(channel_versions)
      channel_versions[TASKS] = versions.length > 0 ? maxChannelVersion(...versions) : this.#nextVersion(undefined)
    }
    const seen = Object.entries(record.seen).map(([node, versions]) => [node, { ...versions }])
    const checkpoint = {
      v: record.v,
      id,
      ts: unpackTime(record.ts),
      channel_values,
      channel_versions,
      versions_seen: Object.fromEntries(seen),
      ...(record.extra &&
        Object.fromEntries((await this.#revive(bytesOf(record.extra), taken.leaf)) as [string, unknown][])),
    } as Checkpoint
    const at = (checkpointId: string) => ({
      configurable: { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: checkpointId },
    })
    return {
      config: at(id),
      checkpoint,
      metadata: await this.#metadata(record, taken.leaf),
      pendingWrites: await Promise.all(taken.writes.map((write) => this.#pending(write, taken.leaf))),
      ...(record.parent !== null && { parentConfig: at(record.parent) }),
    }
  }

  async #value(value: TakenValue, leaf: LeafReader, lists: Lists | null): Promise<unknown> {
    if ('packed' in value) return await this.#whole(value, leaf)
    const { list, valueId } = value
    const live = (await revive(
      list.items.map((bytes) => this.#portable.decodeShared(bytes)),
      leaf,
    )) as unknown[]
    lists?.hold(valueId, list, live)
    return live
  }

  async #whole(value: Whole, leaf: LeafReader): Promise<unknown> {
    const bytes = bytesOf(value.packed)
    if (value.serde === undefined) return await this.#revive(bytes, leaf)
    // Written with the user's own serializer; only the same kind of serializer can read it.
    if (!this.#serde)
      throw new Error(`this value was written with another serializer (${value.serde}): pass it as serde`)
    return await this.#serde.loadsTyped(value.serde, bytes)
  }

  async #revive(bytes: Uint8Array, leaf: LeafReader): Promise<unknown> {
    return await revive(this.#portable.decode(bytes), leaf)
  }

  async #pending(write: WriteRecord, leaf: LeafReader): Promise<CheckpointPendingWrite> {
    return [write.task, write.channel, await this.#whole(write, leaf)]
  }

  async #metadata(record: CheckpointRecord, leaf: LeafReader): Promise<CheckpointMetadata> {
    const metadata: Record<string, unknown> = {}
    for (const [key, packed] of Object.entries(record.metadata)) {
      define(metadata, key, await this.#revive(bytesOf(packed), leaf))
    }
    return metadata as CheckpointMetadata
  }
}

export function takeTuples(
  thread: Thread,
  state: ThreadState,
  places: readonly Found[],
  portable: Portable,
): readonly Taken[] {
  const found = places.map((each) => take(thread, state, each))
  // Leaves never change: leaves in this map stay valid, even if a prune removes them from the state meanwhile.
  const leaves = thread.leaves.read(state.leaves, [...new Set(found.flatMap(leavesOf))])
  const leaf: LeafReader = {
    get: (digest) => leaves.get(digest),
    decodeShared: (bytes) => portable.decodeShared(bytes),
  }
  return found.map((each) => ({ ...each, leaf }))
}

type TakenRecords = Omit<Taken, 'leaf'>

function take(thread: Thread, state: ThreadState, found: Found): TakenRecords {
  const { ns, id, record } = found
  const writesOf = (of: string) => [...state.writes.values({ prefix: `${checkpointKey(ns, of)}\0` })]
  const channels = Object.entries(record.channels).map(([channel, valueId]): [string, TakenValue] => {
    const stored = state.values.get(valueId)!
    return [channel, 'packed' in stored ? stored : { list: thread.lists.items(state, valueId), valueId }]
  })
  const sends = record.v < 4 && record.parent !== null ? writesOf(record.parent) : []
  return { found, channels, writes: writesOf(id), sends: sends.filter((write) => write.channel === TASKS) }
}

function leavesOf({ found, channels, writes, sends }: TakenRecords): readonly number[] {
  const { metadata, extra } = found.record
  return [
    ...Object.values(metadata).flatMap(placesOf),
    ...(extra ? placesOf(extra) : []),
    ...channels.flatMap(([, value]) => ('packed' in value ? placesOf(value.packed) : value.list.leaves)),
    ...[...writes, ...sends].flatMap(({ packed }) => placesOf(packed)),
  ]
}
