// The place of a timeline in a sharded store: pure arithmetic on ids, heads and positions. The map is small on purpose: the
// number of shards, and its version. A family (a timeline and its archives) is placed by the hash of its id; a timeline that
// is elsewhere (a fork beside its parent, an archive of another name) has a signpost at the place that its id determines.

import type { ManifestId, TimelineId, WorkerId } from '../coordinate.ts'
import { isWithin, liveIdOf } from '../history/scope.ts'
import type { Attribute } from './attribute.ts'
import type { FeedPosition, Head } from './records.ts'

/** The shards' own timelines are below it, hidden from users. */
const ownScope = '$shards/'

export const mapTimeline = `${ownScope}map` as TimelineId
/** The engine's settings for the whole store, and their copies on the other shards. */
export const storeTimeline = 'reprise/store' as TimelineId
export const settingsTimeline = `${ownScope}store` as TimelineId
export const holdsTimeline = `${ownScope}holds` as TimelineId

/** The outbox of a shard for another one. @example outboxFor(2) // '$shards/out/2' */
export function outboxFor(shard: number): TimelineId {
  return `${ownScope}out/${shard}` as TimelineId
}

/** Notes on a timeline that came from another shard: which of its runs the feed showed there. */
export function arrivalOf(id: string): TimelineId {
  return `${ownScope}in/${id}` as TimelineId
}

/** The notes on all arrivals. */
export const arrivalsScope = `${ownScope}in/`

/** Owned by the process that moves families. */
export const moverTimeline = `${ownScope}mover` as TimelineId
/** A run in this timeline marks the position of a shard's feed at a moment. */
export const momentTimeline = `${ownScope}moment` as TimelineId

/** Marks of requests of other shards that a commit on this one carried out (carry-over.ts). */
export const marksTimeline = `${ownScope}done` as TimelineId

export function isOfShards(id: string): boolean {
  return isWithin(ownScope, id)
}

/** The queue of signposts: mail to a signpost must be forwarded. */
export const signpostQueue = '$shards'
export const signpostStatus = '$moved'
const ownAttributes = '$shards.'
export const targetKey = `${ownAttributes}to`
export const setKey = `${ownAttributes}set`
export const indexKey = `${ownAttributes}index`
export const countKey = `${ownAttributes}count`
export const versionKey = `${ownAttributes}version`
export const copiedEpochKey = `${ownAttributes}epoch`
export const wholeKey = `${ownAttributes}whole`
/** On the first shard: the database that gets the next number. */
export const joiningKey = `${ownAttributes}joining`
export const firstKey = `${ownAttributes}first`
/** Status of a copy whose original is valid until the signpost names the same move. */
export const arrivingStatus = '$arriving'
export const moveKey = `${ownAttributes}move`
/** The scheduling of an arriving timeline. */
export const schedulingKey = `${ownAttributes}standing`
/** Creation time of the timeline, before it moved here. */
export const madeKey = `${ownAttributes}made`
export const fromKey = `${ownAttributes}from`
export const remnantKey = `${ownAttributes}remnant`
export const hidesKey = `${ownAttributes}hides`
export const behindKey = `${ownAttributes}behind`
export const seqKey = `${ownAttributes}seq`
export const digestKey = `${ownAttributes}digest`
/** The owner is moving the timeline: it must not be forked meanwhile. */
export const movingKey = `${ownAttributes}moving`

/** A shard's knowledge of its set. */
export interface Membership {
  readonly set: string
  readonly index: number
  readonly count: number
  readonly version: number
  /**
   * The initial number of shards. They permanently decide where an id is looked up; later shards receive timelines by signposts.
   */
  readonly first: number
  /** Every shard of the set has had its number: a database without one is not new, but replaces another. */
  readonly isWhole: boolean
}

/** In the info of a worker: the number of shards it was started with. */
export const knownShards = 'shards'

/** A shard, for people. */
export interface ShardRow {
  readonly shard: number
  /** Without credentials. */
  readonly location: string
  readonly isAway: boolean
  /** The shard was added, and not every process knows it yet. */
  readonly isJoining: boolean
  /** Version of the shard's map; null while it is unavailable. */
  readonly version: number | null
  readonly timelines: number | null
}

export interface GrowRequest {
  /** The address of another shard. Default: resume an interrupted move. */
  readonly url?: string | undefined
  readonly worker: WorkerId
  /** How long to wait for families in use before they are taken over. */
  readonly waitMs: number
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: ((progress: GrowProgress) => void) | undefined
}

export interface GrowProgress {
  readonly stage: 'waiting' | 'moving'
  /** Families moved so far. */
  readonly moved: number
  readonly stays: number
  /** Processes that were started without the new shard. */
  readonly waitsFor: readonly { readonly id: string; readonly name: string; readonly host: string }[]
}

export interface Grown {
  readonly shards: number
  /** Families that this call moved. */
  readonly moved: number
  /** Families that stay where they were, and why. */
  readonly stays: readonly { readonly timeline: string; readonly reason: string }[]
}

/** The membership in the head of a shard's map. */
export function membershipIn({ attributes }: Pick<Head, 'attributes'>): Membership {
  const set = String(attributes[setKey])
  const [index, count, version] = [indexKey, countKey, versionKey].map((key) => Number(attributes[key]))
  const first = Number(attributes[firstKey] ?? count)
  return { set, index: index!, count: count!, version: version!, first, isWhole: attributes[wholeKey] === true }
}

/** More shards than a set may have: part of the numbers of requests. */
const shardNumbers = 64

/** The number of a request in the set, from its number in the table of a shard. */
export function numberOn(shard: number, number: number): number {
  return number * shardNumbers + shard
}

export function shardOfRequest(number: number): number {
  return number % shardNumbers
}

/** The number of a request in the table of its shard. */
export function numberIn(number: number): number {
  return Math.floor(number / shardNumbers)
}

/** The attribute of a cursor's full position, on its owner; each shard has a part of it. */
export function cursorKey(name: string): string {
  return `${ownAttributes}cursor ${name}`
}

/** The attribute that names the owner of a hold (the cursor of a timeline on another shard). */
export function holdKey(name: string): string {
  return `${ownAttributes}hold ${name}`
}

/** The names of the cursors whose full position is in these attributes. */
export function cursorNames(attributes: Readonly<Record<string, Attribute>>): string[] {
  const start = cursorKey('')
  return Object.keys(attributes).flatMap((key) => (key.startsWith(start) ? [key.slice(start.length)] : []))
}

/** The target shard of a signpost; null: the head is a timeline. */
export function targetOf(head: Pick<Head, 'status' | 'attributes'>): number | null {
  const target = head.attributes[targetKey]
  return head.status === signpostStatus && typeof target === 'number' ? target : null
}

/** Not a timeline for users: a signpost, an arriving copy, or one of the shards' own timelines. */
export function isHidden(head: Pick<Head, 'timeline' | 'status' | 'attributes'>): boolean {
  return isOfShards(head.timeline) || isArriving(head) || targetOf(head) !== null
}

export function isArriving(head: Pick<Head, 'status' | 'attributes'>): boolean {
  return head.status === arrivingStatus && head.attributes[moveKey] !== undefined
}

/** The fields that an arriving timeline gets once it is valid, as they were on the shard that it left. */
export interface Scheduling extends Pick<Head, 'status' | 'queue' | 'wakeup' | 'operation'> {
  /** Its pinned checkpoints. */
  readonly pinned: readonly ManifestId[]
}

/** The head as its owner wrote it, without the shards' notes. */
export function plainHead(head: Head): Head {
  const keys = Object.keys(head.attributes)
  if (!keys.some((key) => key.startsWith(ownAttributes))) return head
  const attributes = Object.fromEntries(
    keys.flatMap((key) => (key.startsWith(ownAttributes) ? [] : [[key, head.attributes[key]!]])),
  )
  const made = head.attributes[madeKey]
  return { ...head, attributes, ...(typeof made === 'number' && { createdAt: made }) }
}

/**
 * The shard of an id among `count`: the one with the highest share of the hash, so that a new shard takes families from all
 * others and no family moves between the others. The store's own timelines are on the first shard, except the numerous
 * answers to HTTP requests.
 * @example shardOf('workflow/checkout/order-42', 4)
 */
export function shardOf(id: string, count: number): number {
  if (count === 1 || (isWithin('reprise/', id) && !isWithin('reprise/requests/', id))) return 0
  const hash = hashOf(liveIdOf(id))
  let best = 0
  let highest = -1
  for (let shard = 0; shard < count; shard++) {
    const share = mix(hash ^ mix(shard + 1))
    if (share > highest) {
      highest = share
      best = shard
    }
  }
  return best
}

/** The shards in the order in which they are tried for this hash. */
export function ranked(hash: number, count: number): number[] {
  const shares = Array.from({ length: count }, (_, shard) => mix(hash ^ mix(shard + 1)))
  return shares.map((_, shard) => shard).sort((a, b) => shares[b]! - shares[a]! || a - b)
}

/** FNV-1a over UTF-16 units. Stored data depends on it, so it must never change. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    hash = Math.imul(hash ^ (unit & 0xff), 0x01000193)
    hash = Math.imul(hash ^ (unit >>> 8), 0x01000193)
  }
  return hash >>> 0
}

function mix(value: number): number {
  let mixed = value | 0
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

/**
 * A position in the feed of several shards: one position per shard, separated by commas, without trailing ones at the start of
 * the feed. A comma sorts before every character of a position, so advancing in any shard makes the text greater.
 */
export function joinPositions(parts: readonly FeedPosition[]): FeedPosition {
  return parts.join(',').replace(/,+$/, '')
}

/** Null: the position has more parts than there are shards. */
export function splitPosition(position: FeedPosition, count: number): FeedPosition[] | null {
  const parts = position === '' ? [] : position.split(',')
  if (parts.length > count) return null
  while (parts.length < count) parts.push('')
  return parts
}

/** Whether `to` is before `from` in any shard. */
export function goesBack(from: readonly FeedPosition[], to: readonly FeedPosition[]): boolean {
  return to.some((part, i) => part < (from[i] ?? ''))
}

/** Whether `position` is before `other` in any shard. Works for one store and for several. */
export function isBehind(position: FeedPosition, other: FeedPosition): boolean {
  const parts = other.split(',')
  return goesBack(parts, splitPosition(position, Math.max(parts.length, position.split(',').length))!)
}
