// Where a timeline lives when a store is made of several: pure arithmetic on ids, heads and positions. The map is small on
// purpose: how many shards there are, and its version. A family (a timeline and its archives) is placed by the hash of its
// id; what lives elsewhere (a fork beside its parent, an archive of another name) has a signpost at the place that its id says.

import type { ManifestId, TimelineId, WorkerId } from '../coordinate.ts'
import { isWithin, liveIdOf } from '../history/scope.ts'
import type { Attribute } from './attribute.ts'
import type { FeedPosition, Head } from './records.ts'

/** What the shards keep about themselves lies below it, and nobody sees it. */
const ownScope = '$shards/'

export const mapTimeline = `${ownScope}map` as TimelineId
/** What holds for the whole store, as the engine notes it, and the copy of it that other shards have. */
export const storeTimeline = 'reprise/store' as TimelineId
export const settingsTimeline = `${ownScope}store` as TimelineId
export const holdsTimeline = `${ownScope}holds` as TimelineId

/** The outbox of a shard for another one. @example outboxFor(2) // '$shards/out/2' */
export function outboxFor(shard: number): TimelineId {
  return `${ownScope}out/${shard}` as TimelineId
}

/** Notes on a timeline that came from another shard: which of its runs were shown there. */
export function arrivalOf(id: string): TimelineId {
  return `${ownScope}in/${id}` as TimelineId
}

/** The notes on all that came. */
export const arrivalsScope = `${ownScope}in/`

/** Whoever moves families has it. */
export const moverTimeline = `${ownScope}mover` as TimelineId
/** A run of it says where the feed of a shard was at a moment. */
export const momentTimeline = `${ownScope}moment` as TimelineId

export function isOfShards(id: string): boolean {
  return isWithin(ownScope, id)
}

/** The queue of signposts: who has mail there must send it on. */
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
/** On the first shard: who gets the next number. */
export const joiningKey = `${ownAttributes}joining`
export const firstKey = `${ownAttributes}first`
/** A copy of a timeline that lives elsewhere until its signpost names the same move. */
export const arrivingStatus = '$arriving'
export const moveKey = `${ownAttributes}move`
/** What it waits for, where it arrives (Standing). */
export const standingKey = `${ownAttributes}standing`
/** When it was made, before it came here. */
export const madeKey = `${ownAttributes}made`
export const fromKey = `${ownAttributes}from`
export const remnantKey = `${ownAttributes}remnant`
export const hidesKey = `${ownAttributes}hides`
export const behindKey = `${ownAttributes}behind`
export const seqKey = `${ownAttributes}seq`
export const digestKey = `${ownAttributes}digest`
/** It is being moved by its owner: nobody forks it now. */
export const movingKey = `${ownAttributes}moving`

/** What a shard knows of its set. */
export interface Membership {
  readonly set: string
  readonly index: number
  readonly count: number
  readonly version: number
  /** How many there were at first. Those decide where an id is looked for, for good; later ones get theirs by signposts. */
  readonly first: number
  /** Every shard of the set has had its number: one without is not new, but in the place of another. */
  readonly isWhole: boolean
}

/** In the info of a worker: how many shards it was given. */
export const knownShards = 'shards'

/** A shard, to people. */
export interface ShardRow {
  readonly shard: number
  /** Without credentials. */
  readonly location: string
  readonly isAway: boolean
  /** It was added, and not every process knows it yet. */
  readonly isJoining: boolean
  /** Of the map that it has; null while it is away. */
  readonly version: number | null
  readonly timelines: number | null
}

export interface GrowRequest {
  /** The address of a further shard; left out: what was begun goes on. */
  readonly url?: string | undefined
  readonly worker: WorkerId
  /** How long families that somebody has in use are waited for before they are taken. */
  readonly waitMs: number
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: ((progress: GrowProgress) => void) | undefined
}

export interface GrowProgress {
  readonly stage: 'waiting' | 'moving'
  /** Families so far. */
  readonly moved: number
  readonly stays: number
  /** Processes that were not given the new shard. */
  readonly waitsFor: readonly { readonly id: string; readonly name: string; readonly host: string }[]
}

export interface Grown {
  readonly shards: number
  /** Families that this call moved. */
  readonly moved: number
  /** Families that go on where they were, and why. */
  readonly stays: readonly { readonly timeline: string; readonly reason: string }[]
}

/** As the head of its map has it. */
export function membershipIn({ attributes }: Pick<Head, 'attributes'>): Membership {
  const set = String(attributes[setKey])
  const [index, count, version] = [indexKey, countKey, versionKey].map((key) => Number(attributes[key]))
  const first = Number(attributes[firstKey] ?? count)
  return { set, index: index!, count: count!, version: version!, first, isWhole: attributes[wholeKey] === true }
}

/** The whole position of a cursor, kept with its owner; the shards have a part of it each. */
export function cursorKey(name: string): string {
  return `${ownAttributes}cursor ${name}`
}

/** Whose a hold is (the cursor of a timeline on another shard). */
export function holdKey(name: string): string {
  return `${ownAttributes}hold ${name}`
}

/** The names of the cursors whose whole position these attributes have. */
export function cursorNames(attributes: Readonly<Record<string, Attribute>>): string[] {
  const start = cursorKey('')
  return Object.keys(attributes).flatMap((key) => (key.startsWith(start) ? [key.slice(start.length)] : []))
}

/** To which shard a signpost points; null: it is a timeline. */
export function targetOf(head: Pick<Head, 'status' | 'attributes'>): number | null {
  const target = head.attributes[targetKey]
  return head.status === signpostStatus && typeof target === 'number' ? target : null
}

/** Not a timeline to anybody: a signpost, a copy that is on its way, or what the shards keep about themselves. */
export function isHidden(head: Pick<Head, 'timeline' | 'status' | 'attributes'>): boolean {
  return isOfShards(head.timeline) || isArriving(head) || targetOf(head) !== null
}

export function isArriving(head: Pick<Head, 'status' | 'attributes'>): boolean {
  return head.status === arrivingStatus && head.attributes[moveKey] !== undefined
}

/** What a timeline that arrives waits for, as the shard that it left had it. */
export interface Standing extends Pick<Head, 'status' | 'queue' | 'wakeup' | 'operation'> {
  /** Its checkpoints that are pinned. */
  readonly pinned: readonly ManifestId[]
}

/** As its owner wrote it: without what the shards note. */
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
 * The shard of an id, of so many: the one whose share of the hash is highest, so that another shard takes families from all of
 * them and none change places among themselves. What belongs to the store itself is on the first, but not the answers to
 * requests over HTTP, of which there are many.
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

/** The shards in the order in which they are asked for something with this hash. */
export function ranked(hash: number, count: number): number[] {
  const shares = Array.from({ length: count }, (_, shard) => mix(hash ^ mix(shard + 1)))
  return shares.map((_, shard) => shard).sort((a, b) => shares[b]! - shares[a]! || a - b)
}

/** FNV-1a over UTF-16 units. Stored data rests on it: it never changes. */
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
 * A position in the feed of several shards: one of each, with commas, those at the end left out that are at the start. A comma
 * comes before every character of a position, so that a reader who moves on in any of them has a text that is greater.
 */
export function joinPositions(parts: readonly FeedPosition[]): FeedPosition {
  return parts.join(',').replace(/,+$/, '')
}

/** Null: it has more parts than there are shards. */
export function splitPosition(position: FeedPosition, count: number): FeedPosition[] | null {
  const parts = position === '' ? [] : position.split(',')
  if (parts.length > count) return null
  while (parts.length < count) parts.push('')
  return parts
}

/** Whether it would go back in any shard. */
export function goesBack(from: readonly FeedPosition[], to: readonly FeedPosition[]): boolean {
  return to.some((part, i) => part < (from[i] ?? ''))
}

/** Whether one reader of a feed has yet to read what another has passed, in any shard. Of one store or of several. */
export function isBehind(position: FeedPosition, other: FeedPosition): boolean {
  const parts = other.split(',')
  return goesBack(parts, splitPosition(position, Math.max(parts.length, position.split(',').length))!)
}
