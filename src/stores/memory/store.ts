// The memory store: the reference implementation of the Store port. Every call works synchronously; the promise is only
// its interface. Nothing survives the process, and facts() reports that.

import { decide } from '../../core/commit/decide.ts'
import { Refused, riderFailed } from '../../core/commit/refused.ts'
import type { TimelineId, WorkerId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkCommit } from '../../core/store/argument-checks.ts'
import { mayMakeDue } from '../../core/store/due.ts'
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
  Hash,
  Head,
  Inbox,
  ManifestRecord,
  Outcome,
  PastLife,
  Sql,
  Store,
  TimelineQuery,
  Upkeep,
  WorkerRecord,
  WorkerRow,
} from '../../core/store/ports.ts'
import { refuseWrites } from '../../core/store/read-only.ts'
import { compareText } from '../../core/store/text-order.ts'
import { apply, copyRecord, send } from './apply.ts'
import { memoryBlobs } from './blobs.ts'
import { claim, nextDue } from './claim.ts'
import { commitView } from './commit-view.ts'
import { pastOf } from './past.ts'
import { MemoryUpkeep } from './store-upkeep.ts'
import { beat, compactFeed, retire } from './upkeep.ts'
import { findTimelines, readFeed, readRuns, toHead, toWorkerRow } from './view.ts'
import { createWorld, type MemoryWorld, type Space, snapshot, spaceOf } from './world.ts'

export interface MemoryOptions {
  readonly namespace: string
  readonly hash: Hash
  /** The "database" clock, in milliseconds since 1970. */
  readonly clock?: () => number
  /** The world to share between several stores. Default: a separate world. */
  readonly world?: MemoryWorld
  readonly readOnly?: boolean
}

/** @example const store = openMemory({ namespace: 'shop', hash }) */
export function openMemory(options: MemoryOptions): Store {
  const store = new MemoryStore(options)
  return options.readOnly ? refuseWrites(store) : store
}

class MemoryStore implements Store {
  readonly lanes = 1
  readonly countsCheckpoints = false
  readonly shards = null
  readonly requests = null
  readonly blobs: Blobs
  readonly upkeep: Upkeep
  readonly #namespace: string
  readonly #hash: Hash
  readonly #clock: () => number
  readonly #world: MemoryWorld
  readonly #listeners = new Set<{ readonly space: Space; readonly wake: (mayBeDue: boolean) => void }>()
  #isClosed = false

  constructor({ namespace, hash, clock = Date.now, world = createWorld() }: MemoryOptions) {
    this.#namespace = namespace
    this.#hash = hash
    this.#clock = clock
    this.#world = world
    const space = () => this.#space()
    this.blobs = memoryBlobs(space, clock)
    this.upkeep = new MemoryUpkeep({ namespace, hash, world, space })
  }

  async commit(commits: readonly Commit[]): Promise<Outcome[]> {
    const space = this.#space()
    for (const commit of commits) checkCommit(commit)
    const hasUserSql = commits.some((commit) => commit.userSql)
    const outcomes = await this.#world.writeLock.run(() =>
      hasUserSql
        ? this.#commitWithSql(space, commits)
        : commits.map((one) => commitOne(space, this.#hash, one, this.#clock())),
    )
    if (commits.some((commit) => commit.trim || commit.forget)) compactFeed(space)
    if (outcomes.some((outcome) => outcome.ok && !outcome.isDuplicate)) {
      this.#wake(space, commits.some(mayMakeDue))
    }
    return outcomes
  }

  async #commitWithSql(space: Space, commits: readonly Commit[]): Promise<Outcome[]> {
    const outcomes: Outcome[] = []
    for (const commit of commits) outcomes.push(await this.#commitOne(space, commit))
    return outcomes
  }

  /** The user's SQL runs between a trial and the real step, so that no other reader sees changes that may be undone. */
  async #commitOne(space: Space, commit: Commit): Promise<Outcome> {
    if (!commit.userSql) return commitOne(space, this.#hash, commit, this.#clock())
    const trial = commitOne(space, this.#hash, commit, this.#clock(), true)
    if (!trial.ok || trial.isDuplicate) return trial
    try {
      const sqlResult = await commit.userSql(noSql)
      const outcome = commitOne(space, this.#hash, commit, this.#clock())
      return outcome.ok ? { ...outcome, sqlResult } : outcome
    } catch (cause) {
      return refusal(space, commit, riderFailed(cause), this.#clock())
    }
  }

  async read(timeline: TimelineId, after: number, bytesMax: number): Promise<EntryRun[]> {
    const row = this.#space().timelines.get(timeline)
    return row ? readRuns(row, after, bytesMax) : []
  }

  async head(timelines: readonly TimelineId[]): Promise<(Head | null)[]> {
    const space = this.#space()
    return timelines.map((id) => {
      const row = space.timelines.get(id)
      return row ? toHead(space, row, this.#clock()) : null
    })
  }

  async past(timelines: readonly TimelineId[]): Promise<PastLife[]> {
    const space = this.#space()
    return timelines.map((id) => pastOf(space, this.#hash, id))
  }

  async identity(proposed?: string, replaces = false): Promise<string | null> {
    const space = this.#space()
    return this.#world.writeLock.run(() => {
      if (proposed !== undefined && (replaces || space.identity === null)) space.identity = proposed
      return space.identity
    })
  }

  async inbox(timeline: TimelineId, limit: number): Promise<Inbox> {
    const unread = (this.#space().unread.get(timeline) ?? []).slice(0, Math.max(0, limit))
    const messages = unread.map(({ consumedAt: _, ...message }) => ({ ...message, data: new Uint8Array(message.data) }))
    return { messages, now: this.#clock() }
  }

  async claim(request: ClaimRequest): Promise<Head[]> {
    const space = this.#space()
    return this.#world.writeLock.run(() => claim(space, request, this.#clock()))
  }

  async nextDue(query: DueQuery): Promise<number | null> {
    return nextDue(this.#space(), query, this.#clock())
  }

  async feed(after: FeedPosition, filter: FeedFilter, limit: number): Promise<FeedPage> {
    return readFeed(this.#space(), after, filter, limit)
  }

  async timelines(query: TimelineQuery): Promise<Head[]> {
    return findTimelines(this.#space(), query, this.#clock())
  }

  query(): Promise<never> {
    return refuseSql()
  }

  async checkpoints(timeline: TimelineId): Promise<ManifestRecord[]> {
    const catalog = this.#space().timelines.get(timeline)?.catalog ?? []
    // The sort is stable: of equal sequences, the one published last comes first.
    return [...catalog]
      .reverse()
      .sort((a, b) => b.seq - a.seq)
      .map(copyRecord)
  }

  async cursors(): Promise<CursorRow[]> {
    return [...this.#space().cursors.values()].sort((a, b) => compareText(a.name, b.name)).map((row) => ({ ...row }))
  }

  async workers(): Promise<WorkerRow[]> {
    const rows = [...this.#space().workers.values()].map((worker) => toWorkerRow(worker, this.#clock()))
    return rows.sort((a, b) => compareText(a.id, b.id))
  }

  async beat(worker: WorkerRecord): Promise<{ readonly ok: boolean; readonly now: number }> {
    const now = this.#clock()
    return { ok: beat(this.#space(), worker, now), now }
  }

  async retire(workers: readonly WorkerId[]): Promise<void> {
    const space = this.#space()
    await this.#world.writeLock.run(() => retire(space, workers, this.#clock()))
    this.#wake(space, true)
  }

  listen(wake: (mayBeDue?: boolean) => void): () => void {
    const listener = { space: this.#space(), wake }
    this.#world.listeners.add(listener)
    this.#listeners.add(listener)
    return () => {
      this.#world.listeners.delete(listener)
      this.#listeners.delete(listener)
    }
  }

  async sweepMark(raiseTo = 0): Promise<number> {
    const space = this.#space()
    return this.#world.writeLock.run(() => {
      space.sweepMark = Math.max(space.sweepMark, raiseTo)
      return space.sweepMark
    })
  }

  async freeze(): Promise<Store> {
    this.#space()
    const world = snapshot(this.#world)
    return openMemory({ namespace: this.#namespace, hash: this.#hash, clock: this.#clock, world, readOnly: true })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const listener of this.#listeners) this.#world.listeners.delete(listener)
    this.#listeners.clear()
  }

  /** Looked up in each call, so that a closed store refuses it. */
  #space(): Space {
    if (this.#isClosed) throw new RepriseError('CLOSED', 'the memory store is closed')
    return spaceOf(this.#world, this.#namespace)
  }

  #wake(space: Space, mayBeDue: boolean): void {
    for (const listener of this.#world.listeners) {
      if (listener.space !== space) continue
      queueMicrotask(() => {
        if (this.#world.listeners.has(listener)) listener.wake(mayBeDue)
      })
    }
  }
}

const noSql: Sql = { dialect: 'memory', run: refuseSql, all: refuseSql, get: refuseSql, rows: refuseSql }

async function refuseSql(): Promise<never> {
  throw new RepriseError('STORE_UNSUPPORTED', 'the memory store has no SQL; open a sqlite: or postgres: store')
}

// One commit, as a step of the world: decided, then applied as a whole.

/** A trial returns the outcome and applies nothing: the user's SQL runs between the two. */
function commitOne(space: Space, hash: Hash, commit: Commit, now: number, isTrial = false): Outcome {
  try {
    const { outcome, changes } = decide(commitView(space, hash, now), commit)
    if (isTrial || !changes) return outcome
    if ('timeline' in changes) apply(space, hash, changes, now)
    else send(space, changes.sent, now)
    return outcome
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    return refusal(space, commit, error, now)
  }
}

function refusal(space: Space, { guard }: Commit, { code, reason, cause }: Refused, now: number): Outcome {
  const row = guard && space.timelines.get(guard.timeline)
  const head = row ? toHead(space, row, now) : null
  return { ok: false, code, reason, head, ...(cause === undefined ? {} : { cause }) }
}
