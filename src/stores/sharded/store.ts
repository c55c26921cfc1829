// A store made of stores: each timeline is stored as a whole on one of them, and the rest of the engine sees one store.
// docs/decisions/shards.md describes every operation that spans shards.

import type { MessageId, TimelineId, WorkerId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type {
  Blobs,
  Change,
  ClaimRequest,
  Commit,
  CursorRow,
  EntryRun,
  FeedFilter,
  FeedPage,
  FeedPosition,
  Head,
  Inbox,
  Inspection,
  LegibleRun,
  LossRecord,
  ManifestRecord,
  Outcome,
  PastLife,
  Rewritable,
  Rewritten,
  RunChange,
  Scrubbing,
  Store,
  StoreFacts,
  StoreFault,
  TimelineQuery,
  WorkerRecord,
  WorkerRow,
} from '../../core/store/ports.ts'
import {
  type Grown,
  type GrowRequest,
  isOfShards,
  knownShards,
  plainHead,
  type ShardRow,
  storeTimeline,
} from '../../core/store/shards.ts'
import { pinnedOn } from './arrivals.ts'
import { inTurn, ShardedBlobs } from './blobs.ts'
import { Claims } from './claim.ts'
import { Clocks } from './clocks.ts'
import { Commits } from './commits.ts'
import { readFeed } from './feed.ts'
import { Growth, type ShardSource } from './growth.ts'
import { Holds } from './holds.ts'
import { highestPasts, identityOf } from './identity.ts'
import { inspectShards } from './inspect.ts'
import { changeInside } from './letter.ts'
import { findTimelines, names, workers } from './list.ts'
import { byShard, type Places } from './places.ts'
import { Relay } from './relay.ts'
import { Settings } from './settings.ts'
import { isUnreachable, type Shard, systemTimers, type Timers } from './shard.ts'

export interface ShardedStoreOptions {
  readonly readOnly?: boolean
  readonly openAnother?: (url: string) => ShardSource
  readonly timers?: Timers
}

export class ShardedStore implements Store {
  readonly blobs: Blobs
  readonly #places: Places
  readonly #relay: Relay
  readonly #holds: Holds
  readonly #commits: Commits
  readonly #claims: Claims
  readonly #growth: Growth
  readonly #settings: Settings
  readonly #clocks: Clocks
  /** This process's worker, as of its last heartbeat. */
  #worker: WorkerRecord | null = null
  #isClosed = false

  constructor(places: Places, { readOnly = false, openAnother, timers }: ShardedStoreOptions = {}) {
    this.#clocks = new Clocks(timers ?? systemTimers)
    this.#places = places
    this.#relay = new Relay(places)
    this.#holds = new Holds(places)
    this.#commits = new Commits(places, this.#holds, this.#relay)
    this.#claims = new Claims(places, this.#relay)
    this.#growth = new Growth(places, this.#holds, this.#relay, openAnother ?? null)
    this.#settings = new Settings(places, readOnly)
    places.eachShard((shard) => {
      // A worker that could not send heartbeats there must not be retired first.
      shard.beforeBack(async (store) => {
        const worker = this.#worker
        if (worker) await this.#clocks.measure(shard, () => store.beat(worker))
      })
      shard.onBack(() => {
        void this.#relay.sweep().catch(() => undefined)
        void this.#settings.copy()
      })
    })
    this.blobs = guarded(new ShardedBlobs(places, this.#growth), () => this.#check())
  }

  /** The lanes of one shard: each shard has batches of its own (placeOf). */
  get lanes(): number {
    return Math.max(...this.#places.shards.map(({ store }) => store?.lanes ?? 1))
  }

  get countsCheckpoints(): boolean {
    return this.#places.shards.every(({ store }) => store?.countsCheckpoints === true)
  }

  placeOf(timeline: TimelineId): number {
    return this.#places.guess(timeline)
  }

  aheadMs(timeline: TimelineId): number {
    return this.#clocks.ahead(this.#places.shards[this.#places.guess(timeline)])
  }

  get guardsMail(): boolean {
    return this.#places.shards.every(({ store }) => store?.guardsMail === true)
  }

  commit(commits: readonly Commit[]): Outcome[] | Promise<Outcome[]> {
    this.#check()
    if (!commits.some(({ guard }) => guard?.timeline === storeTimeline)) return this.#commits.commit(commits)
    return Promise.resolve(this.#commits.commit(commits)).finally(() => this.#settings.copy())
  }

  async read(timeline: TimelineId, after: number, bytesMax: number): Promise<EntryRun[]> {
    return await this.#at(timeline, (store) => store.read(timeline, after, bytesMax))
  }

  async head(timelines: readonly TimelineId[]): Promise<(Head | null)[]> {
    this.#check()
    if (timelines.length === 1 && timelines[0] === storeTimeline) return [await this.#settings.head()]
    return (await this.#places.find(timelines)).map(({ head }) => head && plainHead(head))
  }

  async past(timelines: readonly TimelineId[]): Promise<PastLife[]> {
    this.#check()
    const places = await this.#places.find(timelines)
    return await Promise.all(
      timelines.map(async (id, i) => {
        const [past] = await this.#places.shard(places[i]!.shard).ask((store) => store.past([id]))
        return past!
      }),
    )
  }

  async pasts(after: string | null, limit: number): Promise<PastLife[]> {
    const found = (await this.#everywhere((store) => store.pasts(after, limit))).flat()
    return highestPasts(found).slice(0, limit)
  }

  async namespaces(): Promise<readonly string[]> {
    return await this.#places.shards[0]!.ask((store) => store.namespaces())
  }

  async identity(proposed?: string, replaces = false): Promise<string | null> {
    this.#check()
    return await identityOf(this.#places.shards, proposed, replaces)
  }

  async recall(pasts: readonly PastLife[]): Promise<void> {
    await this.#everywhere((store) => store.recall(pasts))
  }

  async headsInReach(timelines: readonly TimelineId[]): Promise<(Head | null | undefined)[]> {
    this.#check()
    const groups = [...byShard([...timelines.keys()], (i) => this.#places.guess(timelines[i]!))]
    const found = new Array<Head | null | undefined>(timelines.length)
    const answers = await Promise.allSettled(
      groups.map(async ([, some]) => {
        const heads = await this.#places.find(
          some.map((i) => timelines[i]!),
          'askNow',
        )
        for (const [n, i] of some.entries()) found[i] = heads[n]!.head && plainHead(heads[n]!.head!)
      }),
    )
    const failures = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []))
    const fatal = failures.length === groups.length ? failures[0] : failures.find((error) => !isUnreachable(error))
    if (fatal) throw fatal
    return found
  }

  /** Two equal reads, with empty outboxes: then all of it held at one moment. */
  async moment(timelines: readonly TimelineId[]): Promise<(Head | null)[] | null> {
    this.#check()
    const [first, second] = [await this.#look(timelines), await this.#look(timelines)]
    if (!first || !second || first.some((head, i) => !isUnmoved(head, second[i]!))) return null
    return second
  }

  /** Null: mail is in transit. */
  async #look(timelines: readonly TimelineId[]): Promise<(Head | null)[] | null> {
    const heads = await this.head(timelines)
    return (await this.#relay.isIdle()) ? heads : null
  }

  async inbox(timeline: TimelineId, limit: number): Promise<Inbox> {
    return await this.#at(timeline, (store) => store.inbox(timeline, limit))
  }

  async consumed(timeline: TimelineId, after: MessageId | null, limit: number): Promise<MessageId[]> {
    return await this.#at(timeline, async (store) => (await store.consumed?.(timeline, after, limit)) ?? [])
  }

  async claim(request: ClaimRequest): Promise<Head[]> {
    this.#check()
    return await this.#claims.claim(request)
  }

  hasLostClaims(): boolean {
    return this.#claims.hasLost
  }

  async feed(after: FeedPosition, filter: FeedFilter, limit: number): Promise<FeedPage> {
    this.#check()
    await this.#growth.checkNowAndThen()
    return await readFeed(this.#places, after, filter, limit)
  }

  async timelines(query: TimelineQuery): Promise<Head[]> {
    this.#check()
    if (query.owner === undefined) await this.#growth.checkNowAndThen()
    if (query.owner === undefined) return await findTimelines(this.#places, query)
    // Requested by a worker for its own timelines (hasLostClaims).
    return await this.#claims.ofOwner(query)
  }

  async checkpoints(timeline: TimelineId): Promise<ManifestRecord[]> {
    const records = await this.#at(timeline, (store) => store.checkpoints(timeline))
    if (!this.#places.isReadOnly || !this.#places.hasGrown) return records
    const [found] = await this.#places.find([timeline])
    const pinned = found!.head ? pinnedOn(found!.head) : []
    return records.map((record) => (pinned.includes(record.id) ? { ...record, isPinned: true } : record))
  }

  async cursors(): Promise<CursorRow[]> {
    this.#check()
    await this.#growth.checkNowAndThen()
    return await this.#holds.list()
  }

  async query(): Promise<never> {
    this.#check()
    const what = 'a query cannot say on which of several shards its tables are: ask the database itself'
    throw new RepriseError('STORE_UNSUPPORTED', what)
  }

  async workers(): Promise<WorkerRow[]> {
    this.#check()
    const rows = await workers(this.#places)
    return rows.map(({ info: { [knownShards]: _, ...info }, ...row }) => ({ ...row, info }))
  }

  /** On every reachable shard. Returns the earliest of their times (aheadMs): an age measured by it is valid everywhere. */
  async beat(worker: WorkerRecord): Promise<{ readonly ok: boolean; readonly now: number }> {
    this.#check()
    const told = { ...worker, info: { ...worker.info, [knownShards]: this.#places.count } }
    this.#worker = told
    const before = this.#clocks.elapsed()
    const answers = await this.#everywhere((store, shard) => this.#clocks.measure(shard, () => store.beat(told)))
    const now = Math.min(...answers.map((answer) => answer.now))
    this.#clocks.answered(now, before)
    void this.#growth
      .checkNowAndThen()
      .then(() => this.#growth.settle())
      .catch(() => undefined)
    // Carries messages of dead processes, in the background.
    void this.#relay.sweep().catch(() => undefined)
    return { ok: answers.every(({ ok }) => ok), now }
  }

  async retire(ids: readonly WorkerId[]): Promise<void> {
    this.#check()
    if (this.#worker && ids.includes(this.#worker.id)) this.#worker = null
    await this.#everywhere((store) => store.retire(ids))
  }

  listen(wake: (mayBeDue?: boolean) => void): () => void {
    this.#check()
    const ends: (() => void)[] = []
    const waits = this.#places.shards.flatMap((shard) => [
      shard.whenOpen((store) => ends.push(store.listen(wake))),
      shard.onBack(() => wake()),
    ])
    return () => {
      for (const end of [...waits, ...ends]) end()
    }
  }

  async sweepMark(raiseTo?: number): Promise<number> {
    this.#check()
    const { shards } = this.#places
    // A chunk may be swept on any shard once all have the mark: so all must answer.
    if (raiseTo !== undefined) {
      await this.#growth.check()
      return Math.min(...(await Promise.all(shards.map((shard) => shard.ask((store) => store.sweepMark(raiseTo))))))
    }
    return Math.max(...(await this.#everywhere((store) => store.sweepMark())))
  }

  /** A shard that is a file may have been repaired on its own. */
  async losses(givenUp?: string): Promise<LossRecord[]> {
    this.#check()
    return (await this.#everywhere(async (store) => (await store.losses?.(givenUp)) ?? [])).flat()
  }

  async rewrite(kind: Rewritable, change: Change, after: string | null, limit: number): Promise<Rewritten> {
    this.#check()
    const inside = kind === 'messages' ? changeInside(change) : change
    return await inTurn(this.#places, after, limit, async (shard, rest, some) => {
      return await shard.ask((store) => store.rewrite(kind, inside, rest, some))
    })
  }

  async replace(timeline: TimelineId, runs: readonly RunChange[]): Promise<Pick<Rewritten, 'changed' | 'left'>> {
    return await this.#at(timeline, (store) => store.replace(timeline, runs))
  }

  async mendCatalog(timeline: TimelineId, lines: readonly ManifestRecord[]): Promise<{ readonly missing: number }> {
    return await this.#at(timeline, (store) => store.mendCatalog(timeline, lines))
  }

  async inspect(inspection: Inspection = {}): Promise<StoreFault[]> {
    this.#check()
    return await inspectShards(this.#places.shards, inspection)
  }

  async names(): Promise<readonly TimelineId[]> {
    this.#check()
    return await names(this.#places)
  }

  async legible(timeline: TimelineId, after: number): Promise<readonly LegibleRun[]> {
    return await this.#at(timeline, async (store) => {
      if (store.legible) return await store.legible(timeline, after)
      const runs = await store.read(timeline, after, Number.MAX_SAFE_INTEGER)
      return runs.slice(0, 1).map((run) => ({ ...run, isSound: true }))
    })
  }

  async facts(): Promise<StoreFacts> {
    this.#check()
    const all = await this.#everywhere((store) => store.facts())
    const sizes = all.map(({ sizeBytes }) => sizeBytes)
    const away = this.#places.shards.filter((shard) => shard.isAway)
    const kept = [...new Set(all.flatMap(({ keepsErased = [] }) => keepsErased))]
    const damage = all.flatMap((facts) => facts.damage ?? [])
    return {
      kind: `sharded ${[...new Set(all.map(({ kind }) => kind))].join(' and ')}`,
      location: this.#places.shards.map(({ name }) => name).join(', '),
      schemaVersion: Math.min(...all.map(({ schemaVersion }) => schemaVersion)),
      durability: {
        ...all[0]!.durability,
        shards: String(this.#places.count),
        ...(away.length > 0 && { 'shards away': away.map(({ reason }) => reason!.message).join('; ') }),
      },
      isReadOnly: all.some(({ isReadOnly }) => isReadOnly),
      sizeBytes: sizes.some((size) => size === null) ? null : sizes.reduce<number>((sum, size) => sum + size!, 0),
      ...(kept.length > 0 && { keepsErased: kept }),
      ...(damage.length > 0 && { damage }),
      clocks: this.#clocks.list(),
    }
  }

  /** The ids of mail are kept while the same mail may still be in transit from another shard. */
  async tidy(before: number): Promise<{ readonly messages: number; readonly workers: number }> {
    this.#check()
    await this.#growth.check()
    await this.#relay.sweep().catch(() => undefined)
    const isComplete = this.#places.shards.every((shard) => !shard.isAway)
    const waiting = isComplete ? await this.#relay.waitingSince() : 0
    if (isComplete) await this.#holds.tidy(before)
    const done = await this.#everywhere((store) => store.tidy(Math.min(before, waiting ?? before)))
    return {
      messages: done.reduce((sum, { messages }) => sum + messages, 0),
      workers: Math.max(...done.map((each) => each.workers)),
    }
  }

  async scrub(how?: Scrubbing): Promise<readonly string[]> {
    this.#check()
    const lists = await Promise.all(this.#places.shards.map((shard) => shard.ask((store) => store.scrub(how))))
    return lists.flat()
  }

  async shards(): Promise<ShardRow[]> {
    this.#check()
    return await this.#growth.list()
  }

  async grow(request: GrowRequest): Promise<Grown> {
    this.#check()
    return await this.#growth.grow(request)
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#relay.close()
    await Promise.all(this.#places.shards.map((shard) => shard.close()))
  }

  async #at<T>(timeline: TimelineId, call: (store: Store) => T | Promise<T>): Promise<T> {
    this.#check()
    if (isOfShards(timeline)) throw new RepriseError('INVALID_ID', 'ids below $shards belong to the shards themselves')
    const shard = this.#places.shards[await this.#places.locate(timeline)]!
    return await shard.ask(call)
  }

  /** Calls the reachable shards, or all if none is. An unreachable shard is an error only if no other shard answered. */
  async #everywhere<T>(call: (store: Store, shard: Shard) => T | Promise<T>): Promise<T[]> {
    const { shards } = this.#places
    const there = shards.filter((shard) => !shard.isAway)
    const asked: readonly Shard[] = there.length > 0 ? there : shards
    const answers = await Promise.allSettled(asked.map((shard) => shard.askBriefly((store) => call(store, shard))))
    const given = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
    for (const answer of answers) {
      if (answer.status === 'rejected' && (given.length === 0 || !isUnreachable(answer.reason))) throw answer.reason
    }
    return given
  }

  #check(): void {
    if (this.#isClosed) throw new RepriseError('CLOSED', 'the sharded store is closed')
  }
}

function isUnmoved(a: Head | null, b: Head | null): boolean {
  if (!a || !b) return a === b
  return a.operation === b.operation && a.epoch === b.epoch && a.seq === b.seq && a.mail === b.mail
}

/** Chunks of a closed store are refused like everything else of it. */
function guarded<Own extends Blobs>(blobs: Own, check: () => void): Blobs {
  return new Proxy(blobs, {
    get(target, name) {
      const value = Reflect.get(target, name, target) as unknown
      if (typeof value !== 'function') return value
      if (name === 'of') return (timeline: TimelineId) => guarded(target.of!(timeline), check)
      return async (...given: readonly unknown[]) => {
        check()
        return await (value as (...given: readonly unknown[]) => unknown).call(target, ...given)
      }
    },
  })
}
