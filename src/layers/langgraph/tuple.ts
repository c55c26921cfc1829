// From records to the tuples that LangGraph asks for: channel values, metadata and pending writes, made afresh for each
// reader. Pending sends of checkpoints before format 4 are moved into their channel, as the official savers do.

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
import { type CheckpointRecord, checkpointKey, type ThreadState, type WriteRecord } from './fold.ts'
import type { Lists } from './lists.ts'
import type { Portable } from './portable.ts'
import { define } from './portable.ts'
import { type LeafReader, revive } from './revive.ts'
import type { Found } from './select.ts'
import type { Thread } from './thread.ts'

/** What is stored of a tuple: taken from the state in one go, before anything is awaited. */
export interface Taken {
  readonly found: Found
  readonly channels: readonly (readonly [string, TakenValue])[]
  readonly writes: readonly WriteRecord[]
  readonly sends: readonly WriteRecord[]
  readonly leaf: LeafReader
}

type TakenValue =
  | { readonly bytes: Uint8Array; readonly serde?: string }
  | { readonly items: readonly Uint8Array[]; readonly valueId: string }

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

  /** With `lists`, the values of lists are remembered as those that a graph holds from now on. */
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
      ts: record.ts,
      channel_values,
      channel_versions,
      versions_seen: Object.fromEntries(seen),
      ...(record.extra && Object.fromEntries((await this.#revive(record.extra, taken.leaf)) as [string, unknown][])),
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
    if ('bytes' in value) return await this.#whole(value, leaf)
    const { items, valueId } = value
    const list = (await revive(
      items.map((bytes) => this.#portable.decodeShared(bytes)),
      leaf,
    )) as unknown[]
    lists?.hold(valueId, items, list)
    return list
  }

  async #whole(value: { readonly bytes: Uint8Array; readonly serde?: string }, leaf: LeafReader): Promise<unknown> {
    if (value.serde === undefined) return await this.#revive(value.bytes, leaf)
    // Written with a serializer of the user's own; without one of the same kind it cannot be read.
    if (!this.#serde)
      throw new Error(`this value was written with another serializer (${value.serde}): pass it as serde`)
    return await this.#serde.loadsTyped(value.serde, value.bytes)
  }

  async #revive(bytes: Uint8Array, leaf: LeafReader): Promise<unknown> {
    return await revive(this.#portable.decode(bytes), leaf)
  }

  async #pending(write: WriteRecord, leaf: LeafReader): Promise<CheckpointPendingWrite> {
    return [write.task, write.channel, await this.#whole(write, leaf)]
  }

  async #metadata(record: CheckpointRecord, leaf: LeafReader): Promise<CheckpointMetadata> {
    const metadata: Record<string, unknown> = {}
    for (const [key, bytes] of Object.entries(record.metadata)) define(metadata, key, await this.#revive(bytes, leaf))
    return metadata as CheckpointMetadata
  }
}

export function takeTuples(
  thread: Thread,
  state: ThreadState,
  places: readonly Found[],
  portable: Portable,
): readonly Taken[] {
  // The state's map is live: what is in it goes by a prune, which the copy guards against.
  const leaves = state.leaves.snapshot()
  const leaf: LeafReader = {
    get: (digest) => leaves.get(digest),
    decodeShared: (bytes) => portable.decodeShared(bytes),
  }
  return places.map((found) => take(thread, state, found, leaf))
}

function take(thread: Thread, state: ThreadState, found: Found, leaf: LeafReader): Taken {
  const { ns, id, record } = found
  const writesOf = (of: string) => [...state.writes.values({ prefix: `${checkpointKey(ns, of)}\0` })]
  const channels = Object.entries(record.channels).map(([channel, valueId]): [string, TakenValue] => {
    const stored = state.values.get(valueId)!
    return [channel, 'bytes' in stored ? stored : { items: thread.lists.items(state, valueId), valueId }]
  })
  const sends = record.v < 4 && record.parent !== null ? writesOf(record.parent) : []
  return { found, channels, writes: writesOf(id), sends: sends.filter((write) => write.channel === TASKS), leaf }
}
