// A store made of stores: each timeline is stored as a whole on one of them, and the rest of the engine sees one store.
// docs/decisions/shards.md describes every operation that spans shards.

import type { TimelineId, WorkerId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type {
  Blobs,
  ClaimRequest,
  Commit,
  CursorRow,
  DueQuery,
  EntryRun,
  FeedFilter,
  FeedPage,
  FeedPosition,
  Head,
  Inbox,
  ManifestRecord,
  Outcome,
  PastLife,
  RequestBox,
  ShardSet,
  Store,
  TimelineQuery,
  Upkeep,
  WorkerRecord,
  WorkerRow,
} from '../../core/store/ports.ts'
import { knownShards, plainHead, storeTimeline } from '../../core/store/shards.ts'
import { pinnedOn } from './arrivals.ts'
import { ShardedBlobs } from './blobs.ts'
import { readFeed } from './feed.ts'
import { identityOf } from './identity.ts'
import { findTimelines, nextDue, workers } from './list.ts'
import { OpenShards, type ShardedStoreOptions } from './open-shards.ts'
import { requestsOf } from './requests.ts'
import type { ShardMap } from './shard-map.ts'
import { OpenShardSet } from './shard-set.ts'
import { ShardedUpkeep } from './upkeep.ts'

export class ShardedStore implements Store {
  readonly blobs: Blobs
  readonly upkeep: Upkeep
  readonly requests: RequestBox | null
  readonly shards: ShardSet
  readonly #set: OpenShards
  /** This process's worker, as of its last heartbeat. */
  #worker: WorkerRecord | null = null

  constructor(shardMap: ShardMap, options: ShardedStoreOptions = {}) {
    this.#set = new OpenShards(shardMap, options)
    const { clocks, relay, settings, growth } = this.#set
    shardMap.eachShard((shard) => {
      // A worker that could not send heartbeats there must not be retired first.
      shard.beforeBack(async (store) => {
        const worker = this.#worker
        if (worker) await clocks.measure(shard, () => store.beat(worker))
      })
      shard.onBack(() => {
        void relay.sweep().catch(() => undefined)
        void settings.copy()
      })
    })
    this.blobs = guarded(new ShardedBlobs(shardMap, growth), () => this.#set.check())
    this.upkeep = new ShardedUpkeep(this.#set)
    this.requests = requestsOf(this.#set)
    this.shards = new OpenShardSet(this.#set, (timelines) => this.head(timelines))
  }

  /** The lanes of one shard: each shard has batches of its own (ShardSet.placeOf). */
  get lanes(): number {
    return Math.max(...this.#set.shardMap.shards.map(({ store }) => store?.lanes ?? 1))
  }

  get countsCheckpoints(): boolean {
    return this.#set.shardMap.shards.every(({ store }) => store?.countsCheckpoints === true)
  }

  commit(commits: readonly Commit[]): Outcome[] | Promise<Outcome[]> {
    this.#set.check()
    if (!commits.some(({ guard }) => guard?.timeline === storeTimeline)) return this.#set.commits.commit(commits)
    return Promise.resolve(this.#set.commits.commit(commits)).finally(() => this.#set.settings.copy())
  }

  async read(timeline: TimelineId, after: number, bytesMax: number): Promise<EntryRun[]> {
    return await this.#set.at(timeline, (store) => store.read(timeline, after, bytesMax))
  }

  async head(timelines: readonly TimelineId[]): Promise<(Head | null)[]> {
    this.#set.check()
    if (timelines.length === 1 && timelines[0] === storeTimeline) return [await this.#set.settings.head()]
    return (await this.#set.shardMap.find(timelines)).map(({ head }) => head && plainHead(head))
  }

  async past(timelines: readonly TimelineId[]): Promise<PastLife[]> {
    this.#set.check()
    const shardMap = await this.#set.shardMap.find(timelines)
    return await Promise.all(
      timelines.map(async (id, i) => {
        const [past] = await this.#set.shardMap.shard(shardMap[i]!.shard).ask((store) => store.past([id]))
        return past!
      }),
    )
  }

  async identity(proposed?: string, replaces = false): Promise<string | null> {
    this.#set.check()
    return await identityOf(this.#set.shardMap.shards, proposed, replaces)
  }

  async inbox(timeline: TimelineId, limit: number): Promise<Inbox> {
    return await this.#set.at(timeline, (store) => store.inbox(timeline, limit))
  }

  async claim(request: ClaimRequest): Promise<Head[]> {
    this.#set.check()
    return await this.#set.claims.claim(request)
  }

  async nextDue(query: DueQuery): Promise<number | null> {
    this.#set.check()
    return await nextDue(this.#set.shardMap, query, (shard) => this.#set.clocks.ahead(shard))
  }

  async feed(after: FeedPosition, filter: FeedFilter, limit: number): Promise<FeedPage> {
    this.#set.check()
    await this.#set.growth.checkNowAndThen()
    return await readFeed(this.#set.shardMap, after, filter, limit)
  }

  async timelines(query: TimelineQuery): Promise<Head[]> {
    this.#set.check()
    if (query.owner === undefined) await this.#set.growth.checkNowAndThen()
    if (query.owner === undefined) return await findTimelines(this.#set.shardMap, query)
    // Requested by a worker for its own timelines (ShardSet.hasLostClaims).
    return await this.#set.claims.ofOwner(query)
  }

  async checkpoints(timeline: TimelineId): Promise<ManifestRecord[]> {
    const records = await this.#set.at(timeline, (store) => store.checkpoints(timeline))
    if (!this.#set.shardMap.isReadOnly || !this.#set.shardMap.hasGrown) return records
    const [found] = await this.#set.shardMap.find([timeline])
    const pinned = found!.head ? pinnedOn(found!.head) : []
    return records.map((record) => (pinned.includes(record.id) ? { ...record, isPinned: true } : record))
  }

  async cursors(): Promise<CursorRow[]> {
    this.#set.check()
    await this.#set.growth.checkNowAndThen()
    return await this.#set.holds.list()
  }

  async query(): Promise<never> {
    this.#set.check()
    const what = 'a query over several shards is not possible: query the database itself'
    throw new RepriseError('STORE_UNSUPPORTED', what)
  }

  async workers(): Promise<WorkerRow[]> {
    this.#set.check()
    const rows = await workers(this.#set.shardMap)
    return rows.map(({ info: { [knownShards]: _, ...info }, ...row }) => ({ ...row, info }))
  }

  /** On every reachable shard. Returns the earliest of their times (aheadMs): an age measured by it is valid everywhere. */
  async beat(worker: WorkerRecord): Promise<{ readonly ok: boolean; readonly now: number }> {
    this.#set.check()
    const known = { ...worker, info: { ...worker.info, [knownShards]: this.#set.shardMap.count } }
    this.#worker = known
    const before = this.#set.clocks.elapsed()
    const answers = await this.#set.everywhere((store, shard) =>
      this.#set.clocks.measure(shard, () => store.beat(known)),
    )
    const now = Math.min(...answers.map((answer) => answer.now))
    this.#set.clocks.answered(now, before)
    void this.#set.growth
      .checkNowAndThen()
      .then(() => this.#set.growth.settle())
      .catch(() => undefined)
    // Carries messages of dead processes, in the background.
    void this.#set.relay.sweep().catch(() => undefined)
    return { ok: answers.every(({ ok }) => ok), now }
  }

  async retire(ids: readonly WorkerId[]): Promise<void> {
    this.#set.check()
    if (this.#worker && ids.includes(this.#worker.id)) this.#worker = null
    await this.#set.everywhere((store) => store.retire(ids))
  }

  listen(wake: (mayBeDue?: boolean, mayHaveRequests?: boolean) => void): () => void {
    this.#set.check()
    const ends: (() => void)[] = []
    const waits = this.#set.shardMap.shards.flatMap((shard) => [
      shard.whenOpen((store) => ends.push(store.listen(wake))),
      shard.onBack(() => wake()),
    ])
    return () => {
      for (const end of [...waits, ...ends]) end()
    }
  }

  async sweepMark(raiseTo?: number): Promise<number> {
    this.#set.check()
    const { shards } = this.#set.shardMap
    // A chunk may be swept on any shard once all have the mark: so all must answer.
    if (raiseTo !== undefined) {
      await this.#set.growth.check()
      return Math.min(...(await Promise.all(shards.map((shard) => shard.ask((store) => store.sweepMark(raiseTo))))))
    }
    return Math.max(...(await this.#set.everywhere((store) => store.sweepMark())))
  }

  async freeze(): Promise<null> {
    this.#set.check()
    return null
  }

  async close(): Promise<void> {
    await this.#set.close()
  }
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
