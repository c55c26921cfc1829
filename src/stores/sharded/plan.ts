// Plans a commit before it is sent to a shard: the shard, the messages that leave it through an outbox, and the writes
// to other shards that must come first. A commit that concerns one shard only is passed on unchanged.

import { lifeOver } from '../../core/commit/mail.ts'
import type { TimelineId } from '../../core/coordinate.ts'
import type { Commit, FeedPosition, Head, Outcome, OutgoingMessage } from '../../core/store/ports.ts'
import {
  cursorKey,
  cursorNames,
  goesBack,
  joinPositions,
  numberIn,
  plainHead,
  shardOfRequest,
  splitPosition,
} from '../../core/store/shards.ts'
import { notAPosition } from '../refusals.ts'
import { carryOver } from './carry-over.ts'
import { cursorTaken, type Holds } from './cursors.ts'
import { arrivingFork, isParentSame, moving, parentAtRest } from './move-checks.ts'
import { toOutbox } from './outbox-message.ts'
import { byReceiver, namesLife } from './receivers.ts'
import { Remnants } from './remnants.ts'
import type { ShardMap } from './shard-map.ts'

export interface Plan {
  readonly shard: number
  readonly commit: Commit
  /** Shards that receive messages of it. */
  readonly sendsTo: readonly number[]
  /** Set if another timeline owns a cursor that the commit sets: the commit will be refused. */
  readonly cursorOwner?: string
  /** Called once it is applied. */
  readonly after?: () => Promise<void>
  /** Called once it is applied, with its epoch. False: it must not stay; it was removed again, and is retried. */
  readonly confirm?: ((epoch: number) => Promise<boolean>) | undefined
  /** Called once it is refused: removes the writes to other shards. */
  readonly undo?: () => Promise<void>
}

/** Null: something must be read or written on another shard first. */
export function planAtOnce(shardMap: ShardMap, commit: Commit): Plan | null {
  if (namesLife(commit.send)) return null
  return planLocally(shardMap, commit)
}

function planLocally(shardMap: ShardMap, commit: Commit): Plan | null {
  const { guard, send } = commit
  if (reachesOut(commit) || (shardMap.hasGrown && commit.trim)) return null
  const settled = shardOfSettled(commit)
  if (guard === null) return addressed(shardMap, commit, settled ?? shardMap.guess(send![0]!.to))
  const shard =
    guard.epoch === 0 && !isMadeElsewhere(shardMap, commit)
      ? shardMap.guess(guard.timeline)
      : shardMap.seen(guard.timeline)
  if (shard === undefined || (settled !== undefined && settled !== shard)) return null
  return addressed(shardMap, commit, shard)
}

/** The shard of the request that it carries out. */
function shardOfSettled({ settles }: Commit): number | undefined {
  return settles?.[0] === undefined ? undefined : shardOfRequest(settles[0])
}

/** A new family goes to a shard that was added later: its signpost is put first. */
function isMadeElsewhere(shardMap: ShardMap, { guard, take }: Commit): boolean {
  if (!shardMap.hasGrown || !take?.create) return false
  return shardMap.placement(guard!.timeline) !== shardMap.home(guard!.timeline)
}

/** It may concern other shards besides the receivers of its messages. */
export function reachesOut({ take, branch, cursors, forget }: Commit): boolean {
  return Boolean(cursors || forget || branch || take?.create?.base)
}

/** May return a refusal without a request to the shard. */
export async function plan(
  shardMap: ShardMap,
  holds: Holds,
  requested: Commit,
): Promise<Plan | { readonly refusal: Outcome }> {
  let commit = requested
  if (namesLife(requested.send)) {
    const { reachable, lost } = await byReceiver(shardMap, requested.send!)
    if (lost.length > 0 && requested.guard === null) {
      return { refusal: { ok: false, code: 'NOT_FOUND', reason: lifeOver(lost[0]!), head: null } }
    }
    commit = { ...requested, send: reachable }
  }
  const quick = planLocally(shardMap, commit)
  if (quick) return quick
  const { timeline } = commit.guard!
  const [found] = await shardMap.find([timeline], 'askNow')
  const { head } = found!
  let { shard } = found!
  const isDecided = head !== null && (head.operation === commit.operation || head.epoch !== commit.guard!.epoch)
  const base = commit.take?.create?.base
  let confirm: Plan['confirm']
  if (base && !head) {
    const [parent] = await shardMap.find([base.timeline], 'askNow')
    if (parent!.head && shardMap.hasGrown) {
      const epoch = await parentAtRest(shardMap, parent!.shard, parent!.head)
      if (epoch === null) return { refusal: moving(base.timeline) }
      confirm = (made) => isParentSame(shardMap, parent!.shard, base.timeline, epoch, { timeline, epoch: made })
    }
    if (parent!.head) shard = await shardMap.point(timeline, parent!.shard)
  }
  if (!base && !head && isMadeElsewhere(shardMap, commit) && shard === shardMap.home(timeline)) {
    shard = await shardMap.point(timeline, shardMap.placement(timeline))
    await shardMap.bringPast(timeline, shard)
  }
  const remnants = new Remnants(shardMap)
  if (commit.branch && head && !isDecided) {
    const refusal = await placeArchive(shardMap, commit.branch.archive, shard, head)
    if (refusal) return { refusal }
    const follower = shard >= shardMap.first ? await arrivingFork(shardMap, shard, timeline) : null
    if (follower) {
      const reason = `the fork ${follower} of ${timeline} has not moved yet: wait for reprise shards add`
      return { refusal: { ok: false, code: 'PINNED', reason, head: plainHead(head) } }
    }
    if (shard >= shardMap.first) await remnants.share(timeline, commit.branch.archive, shard)
  }
  const settled = shardOfSettled(commit)
  if (settled !== undefined && settled !== shard) {
    const { settles, ...rest } = commit
    const alone = addressed(shardMap, rest, shard)
    const carried = await carryOver(shardMap, shard, alone.commit, settles![0]!, head)
    return 'refusal' in carried ? carried : { ...alone, ...carried }
  }
  const planned = addressed(shardMap, commit, shard)
  if (commit.forget) return await planForget(shardMap, holds, planned, head)
  const { trim } = commit
  if (trim && head && !commit.cursors) {
    const left = await remnants.of(timeline, shard)
    return left ? { ...planned, after: () => remnants.trim(left, trim) } : planned
  }
  if (confirm) return { ...withLocalCursors(shardMap, planned), confirm }
  if (!commit.cursors || !head || isDecided) return withLocalCursors(shardMap, planned)
  return await planCursors(shardMap, holds, planned, head)
}

async function planForget(shardMap: ShardMap, holds: Holds, planned: Plan, head: Head | null): Promise<Plan> {
  const { shard, commit } = planned
  const { timeline } = commit.guard!
  const remnants = new Remnants(shardMap)
  if (shard >= shardMap.first) await arrivingFork(shardMap, shard, timeline)
  const names = head ? cursorNames(head.attributes) : []
  const isErased = commit.forget === 'erase'
  const left = await remnants.of(timeline, shard, head === null)
  // A process forgot it earlier and then died.
  if (left && !head) await remnants.forgotten(timeline, left, isErased)
  const after = async () => {
    shardMap.forget(timeline)
    if (left) await remnants.forgotten(timeline, left, isErased)
    for (const name of names) await holds.follow(name, timeline, shard, null)
  }
  return { ...planned, after }
}

function addressed(shardMap: ShardMap, requested: Commit, shard: number): Plan {
  const { settles } = requested
  const commit = settles ? { ...requested, settles: settles.map(numberIn) } : requested
  const { send } = commit
  if (!send?.some(({ to }) => shardMap.guess(to) !== shard)) return { shard, commit, sendsTo: [] }
  const sendsTo = new Set<number>()
  const posted = send.map((message): OutgoingMessage => {
    const target = shardMap.guess(message.to)
    if (target === shard) return message
    sendsTo.add(target)
    return toOutbox(message, target)
  })
  return { shard, commit: { ...commit, send: posted }, sendsTo: [...sendsTo] }
}

/** An archive stays with its family, whatever its id. */
async function placeArchive(
  shardMap: ShardMap,
  archive: TimelineId,
  shard: number,
  head: Head,
): Promise<Outcome | null> {
  const at = await shardMap.point(archive, shard)
  if (at === shard) return null
  return { ok: false, code: 'EXISTS', reason: `there is a timeline ${archive} already`, head: plainHead(head) }
}

/** It will be refused, or was applied before: only the part for its own shard matters. */
function withLocalCursors(shardMap: ShardMap, planned: Plan): Plan {
  const { cursors } = planned.commit
  if (!cursors) return planned
  const local = Object.entries(cursors).map(([name, position]) => {
    return [name, position == null ? position : partsOf(shardMap, position)[planned.shard]!]
  })
  return { ...planned, commit: { ...planned.commit, cursors: Object.fromEntries(local) } }
}

async function planCursors(
  shardMap: ShardMap,
  holds: Holds,
  planned: Plan,
  head: Head,
): Promise<Plan | { readonly refusal: Outcome }> {
  const { shard, commit } = planned
  const owner = head.timeline
  const cursors: Record<string, FeedPosition | null> = {}
  const whole: Record<string, string | null> = {}
  const moves: [name: string, parts: FeedPosition[] | null][] = []
  const put: string[] = []
  for (const [name, position] of Object.entries(commit.cursors ?? {})) {
    if (position === undefined) continue
    const before = head.attributes[cursorKey(name)]
    if (position === null) {
      cursors[name] = null
      whole[cursorKey(name)] = null
      if (before !== undefined) moves.push([name, null])
      continue
    }
    const parts = partsOf(shardMap, position)
    if (typeof before === 'string') {
      const from = partsOf(shardMap, before)
      // Its own shard refuses it, unless it refuses something else first.
      if (parts[shard]! < from[shard]!) return withLocalCursors(shardMap, planned)
      if (goesBack(from, parts)) {
        const reason = `cursor ${name} is at ${before} and does not move back to ${position}`
        return { refusal: { ok: false, code: 'CONFLICT', reason, head: plainHead(head) } }
      }
    } else {
      const taken = await holds.put(name, owner, shard, parts)
      if (taken !== null) {
        if (await holds.isOfAnother(name, owner, shard))
          return { ...withLocalCursors(shardMap, planned), cursorOwner: taken }
        return { refusal: cursorTaken(name, taken, head) }
      }
      put.push(name)
    }
    cursors[name] = parts[shard]!
    whole[cursorKey(name)] = joinPositions(parts)
    moves.push([name, parts])
  }
  return {
    ...planned,
    commit: { ...commit, cursors, attributes: { ...commit.attributes, ...whole } },
    after: async () => {
      for (const [name, parts] of moves) await holds.follow(name, owner, shard, parts)
    },
    ...(put.length > 0 && {
      undo: async () => {
        for (const name of put) await holds.follow(name, owner, shard, null)
      },
    }),
  }
}

function partsOf(shardMap: ShardMap, position: FeedPosition): FeedPosition[] {
  const parts = splitPosition(position, shardMap.count)
  if (!parts) throw notAPosition(position)
  return parts
}
