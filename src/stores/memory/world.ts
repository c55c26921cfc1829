// The data of the memory store, independent of any handle: several stores ("processes") and several namespaces share
// one world, and a simulated power loss returns to a snapshot of it. Rows are immutable; their bytes are copies of the
// arguments, so that a simulator can flip bits in them (cells).

import type { HeadFacts } from '../../core/commit/view.ts'
import type { ManifestId, MessageId, TimelineId, WorkerId } from '../../core/coordinate.ts'
import type {
  Attribute,
  CursorRow,
  EntryRun,
  ManifestRecord,
  Message,
  PastLife,
  WorkerRecord,
} from '../../core/store/ports.ts'
import { Mutex } from '../../lib/waiting.ts'
import { Log, SharedMap } from './copy-on-write.ts'

export interface TimelineRow extends HeadFacts {
  /** Its identity in the feed: it survives a renaming. */
  readonly serial: number
  readonly id: TimelineId
  readonly queue: string | null
  readonly priority: number
  readonly status: string
  readonly wakeup: number | null
  readonly attributes: Readonly<Record<string, Attribute>>
  readonly createdAt: number
  readonly runs: Log<RunRow>
  /** In the order of publishing. */
  readonly catalog: readonly ManifestRecord[]
}

export interface RunRow extends EntryRun {
  /** Its place in the feed. */
  readonly number: number
}

export interface MessageRow extends Message {
  readonly consumedAt: number | null
}

export interface WorkerState extends WorkerRecord {
  readonly startedAt: number
  readonly beatAt: number
  readonly progressAt: number
  readonly retiredAt: number | null
}

export interface ChunkState {
  readonly digest: Uint8Array
  readonly bytes: Uint8Array
  readonly touchedAt: number
}

export interface FeedRow {
  readonly serial: number
  readonly run: RunRow
}

/** One namespace. */
export interface Space {
  readonly timelines: SharedMap<TimelineId, TimelineRow>
  /** From serial to the timeline's current id. */
  readonly serials: SharedMap<number, TimelineId>
  /** The ids in all catalogs. */
  readonly manifests: SharedMap<ManifestId, TimelineId>
  readonly messages: SharedMap<string, MessageRow>
  readonly unread: SharedMap<TimelineId, readonly MessageRow[]>
  readonly cursors: SharedMap<string, CursorRow>
  readonly workers: SharedMap<WorkerId, WorkerState>
  /** By name; '' is the start for ids without a past. */
  readonly pasts: SharedMap<string, PastLife>
  /** By digest in hexadecimal. */
  readonly chunks: SharedMap<string, ChunkState>
  feed: Log<FeedRow>
  nextFeedNumber: number
  nextSerial: number
  sweepMark: number
  identity: string | null
}

export interface MemoryWorld {
  readonly spaces: Map<string, Space>
  /** Not data: the listeners, and the write lock. A snapshot starts without them. */
  readonly listeners: Set<{ readonly space: Space; readonly wake: (mayBeDue: boolean) => void }>
  readonly writeLock: Mutex
}

/** @example const world = createWorld(); openMemory({ namespace: 'shop', hash, world }) */
export function createWorld(): MemoryWorld {
  return { spaces: new Map(), listeners: new Set(), writeLock: new Mutex() }
}

/** The current world; later changes of either are invisible to the other. Costs a few objects per namespace. */
export function snapshot(world: MemoryWorld): MemoryWorld {
  const copy = createWorld()
  for (const [namespace, space] of world.spaces) {
    copy.spaces.set(namespace, {
      timelines: space.timelines.share(),
      serials: space.serials.share(),
      manifests: space.manifests.share(),
      messages: space.messages.share(),
      unread: space.unread.share(),
      cursors: space.cursors.share(),
      workers: space.workers.share(),
      pasts: space.pasts.share(),
      chunks: space.chunks.share(),
      feed: space.feed,
      nextFeedNumber: space.nextFeedNumber,
      nextSerial: space.nextSerial,
      sweepMark: space.sweepMark,
      identity: space.identity,
    })
  }
  return copy
}

export function spaceOf(world: MemoryWorld, namespace: string): Space {
  const found = world.spaces.get(namespace)
  if (found) return found
  const space: Space = {
    timelines: new SharedMap(),
    serials: new SharedMap(),
    manifests: new SharedMap(),
    messages: new SharedMap(),
    unread: new SharedMap(),
    cursors: new SharedMap(),
    workers: new SharedMap(),
    pasts: new SharedMap(),
    chunks: new SharedMap(),
    feed: new Log(),
    nextFeedNumber: 1,
    nextSerial: 1,
    sweepMark: 0,
    identity: null,
  }
  world.spaces.set(namespace, space)
  return space
}

export function messageKey(to: TimelineId, id: MessageId): string {
  return `${to.length}:${to}${id}`
}

/** A place with stored bytes: flipping bits in `bytes` damages the medium, including snapshots that share it. */
export interface Cell {
  readonly namespace: string
  readonly kind: 'run' | 'manifest' | 'message' | 'chunk'
  readonly where: string
  readonly bytes: Uint8Array
}

export function cells(world: MemoryWorld): Cell[] {
  const found: Cell[] = []
  for (const [namespace, space] of world.spaces) {
    for (const row of space.timelines.values()) {
      for (const run of row.runs)
        found.push({ namespace, kind: 'run', where: `${row.id}@${run.first}`, bytes: run.bytes })
      for (const { id, body } of row.catalog) {
        found.push({ namespace, kind: 'manifest', where: `${row.id} ${id}`, bytes: body })
      }
    }
    for (const messages of space.unread.values()) {
      for (const { to, id, data } of messages)
        found.push({ namespace, kind: 'message', where: `${to} ${id}`, bytes: data })
    }
    for (const [where, { bytes }] of space.chunks.entries()) found.push({ namespace, kind: 'chunk', where, bytes })
  }
  return found
}
