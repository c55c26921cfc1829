// The commits that wait for one database, cut into batches: everything ready at the same moment goes in one
// transaction. If the store accepts several batches at once, the ready commits are split, so that it works on one while
// the next is built. A store of several databases has one instance for each, so that none waits for another.

import type { TimelineId } from '../../core/coordinate.ts'
import type { Limits } from '../../core/limits.ts'
import type { Clock, Commit, Outcome } from '../../core/store/ports.ts'

/** Something with commits to make. `build` is called when there is room; it returns null if the need has passed. */
export interface CommitSource {
  /** The timeline of the commits: a store of several databases batches it with others of the same database. */
  readonly timeline?: TimelineId | undefined
  build(): PreparedCommit | null
}

export interface PreparedCommit {
  readonly commit: Commit
  readonly bytes: number
  settle(outcome: Outcome): void
  /** The outcome is unknown, or the store refused the batch as a whole. */
  fail(error: unknown): void
}

/** The committer's part: sends batches and handles their outcomes. */
export interface BatchKeeper {
  readonly clock: Clock
  readonly limits: Limits
  /** How many batches the database accepts at once. */
  readonly lanes: () => number
  /** How many databases share the time of the event loop. */
  readonly places: () => number
  readonly ask: (commits: readonly Commit[]) => Outcome[] | Promise<Outcome[]>
  readonly settle: (batch: readonly PreparedCommit[], outcomes: readonly Outcome[], started: number) => void
  /** The batch was sent once and failed as a whole: retries it. Does not reject. */
  readonly insist: (batch: readonly PreparedCommit[], error: unknown) => Promise<void>
  /** Runs a commit outside of the batches, because it may take long. */
  readonly aside: (prepared: PreparedCommit) => void
  readonly idle: () => void
}

/** How long batches may follow each other before the event loop runs other work. */
const turnMs = 4
const turnBatches = 64
/** A batch is not split below this size: it must be worth its transaction and round trip. */
const cutCommits = 64

export class Batches {
  readonly #keeper: BatchKeeper
  readonly #ready = new Set<CommitSource>()
  #isScheduled = false
  #turnEnds = 0
  #batchesInTurn = 0
  #underWay = 0
  /** Messages arrive in the order in which they were sent, so only one batch with messages is in flight at a time. */
  #isSending = false
  /** A built commit that waits for the batch with messages. */
  #held: PreparedCommit | null = null

  constructor(keeper: BatchKeeper) {
    this.#keeper = keeper
  }

  ready(source: CommitSource): void {
    this.#ready.add(source)
    this.#schedule()
  }

  get isIdle(): boolean {
    return this.#underWay === 0 && this.#ready.size === 0 && this.#held === null
  }

  #schedule(): void {
    if (this.#isScheduled || !this.#hasRoom || !this.#hasWork) return
    const { clock, places } = this.#keeper
    this.#isScheduled = true
    clock.soon(() => {
      this.#isScheduled = false
      this.#turnEnds = clock.elapsed() + turnMs / places()
      this.#batchesInTurn = 0
      this.#flush()
    })
  }

  /** Neither this function nor its callees are async unless something fails: each async function costs promises per batch. */
  #flush(): void {
    if (!this.#hasRoom) return
    const batch = this.#takeBatch()
    if (batch.length === 0) {
      this.#goOn()
      this.#keeper.idle()
      return
    }
    this.#underWay += 1
    const isSending = batch.some(({ commit }) => sends(commit))
    this.#isSending ||= isSending
    const started = this.#keeper.clock.elapsed()
    const answer = this.#keeper.ask(batch.map((prepared) => prepared.commit))
    // No closures for a store that answers at once.
    if (!('then' in answer)) {
      this.#deliver(batch, answer, started, isSending)
      return
    }
    answer.then(
      (outcomes) => this.#deliver(batch, outcomes, started, isSending),
      (error) => void this.#keeper.insist(batch, error).finally(() => this.#free(isSending)),
    )
    this.#goOn()
  }

  #deliver(batch: readonly PreparedCommit[], outcomes: readonly Outcome[], started: number, isSending: boolean): void {
    try {
      this.#keeper.settle(batch, outcomes, started)
    } finally {
      this.#free(isSending)
    }
  }

  #free(isSending: boolean): void {
    this.#underWay -= 1
    if (isSending) this.#isSending = false
    this.#goOn()
    this.#keeper.idle()
  }

  get #hasRoom(): boolean {
    return this.#underWay < this.#keeper.lanes()
  }

  get #hasWork(): boolean {
    return this.#held ? !this.#isSending : this.#ready.size > 0
  }

  /**
   * Callers that await one write before the next make the next one right after the first is settled. It is sent without
   * waiting for the event loop, which would cost more than the engine's part of an append; but only for a short time,
   * because timers and connections wait meanwhile.
   */
  #goOn(): void {
    if (this.#isScheduled || !this.#hasRoom) return
    const { clock } = this.#keeper
    this.#batchesInTurn += 1
    if (this.#batchesInTurn >= turnBatches || clock.elapsed() >= this.#turnEnds) {
      this.#schedule()
      return
    }
    this.#isScheduled = true
    clock.next(this.#flushNext)
  }

  readonly #flushNext = (): void => {
    this.#isScheduled = false
    if (this.#hasWork) this.#flush()
  }

  #takeBatch(): PreparedCommit[] {
    const { batchCommits, batchBytes } = this.#keeper.limits
    const lanes = this.#keeper.lanes()
    const cut = lanes === 1 ? batchCommits : Math.max(cutCommits, Math.ceil(this.#ready.size / (lanes + 1)))
    const batch: PreparedCommit[] = []
    let bytes = 0
    if (this.#held && !this.#isSending) {
      batch.push(this.#held)
      bytes += this.#held.bytes
      this.#held = null
    }
    for (const source of this.#ready) {
      if (this.#held || batch.length >= Math.min(cut, batchCommits) || bytes >= batchBytes) break
      this.#ready.delete(source)
      const prepared = source.build()
      if (!prepared) continue
      if (prepared.commit.userSql) {
        // The user's SQL may take long and has its own transaction: other commits do not wait for it.
        this.#keeper.aside(prepared)
        continue
      }
      if (this.#isSending && sends(prepared.commit)) {
        this.#held = prepared
        break
      }
      batch.push(prepared)
      bytes += prepared.bytes
    }
    return batch
  }
}

function sends({ send }: Commit): boolean {
  return send !== undefined && send.length > 0
}
