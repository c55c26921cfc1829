// The commits that wait for one database, cut into batches: everything that is ready in the same moment goes in one transaction.
// Where the store takes several batches at once, what is ready is cut into some, so that it works on one while the next is made.
// A store that is made of several databases has one of these for each, so that none waits for another.

import type { TimelineId } from '../../core/coordinate.ts'
import type { Limits } from '../../core/limits.ts'
import type { Clock, Commit, Outcome } from '../../core/store/ports.ts'

/** Something with commits to make. `build` is called when there is room; it may answer null if the need has passed. */
export interface CommitSource {
  /** What it commits to: a store that is made of several databases takes it along with others of the same one. */
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

/** What becomes of a batch; the committer's part. */
export interface BatchKeeper {
  readonly clock: Clock
  readonly limits: Limits
  /** How many batches the database takes at once. */
  readonly lanes: () => number
  /** How many databases share the turns of the event loop. */
  readonly places: () => number
  readonly ask: (commits: readonly Commit[]) => Outcome[] | Promise<Outcome[]>
  readonly settle: (batch: readonly PreparedCommit[], outcomes: readonly Outcome[], started: number) => void
  /** The batch was asked for once, and failed as a whole. Does not reject. */
  readonly insist: (batch: readonly PreparedCommit[], error: unknown) => Promise<void>
  /** A commit that takes its own time. */
  readonly aside: (prepared: PreparedCommit) => void
  readonly idle: () => void
}

/** How long batches may follow each other before the event loop gets its turn. */
const turnMs = 4
const turnBatches = 64
/** A batch is not cut smaller than this: its transaction and its way to the store have to be worth it. */
const cutCommits = 64

export class Batches {
  readonly #keeper: BatchKeeper
  readonly #ready = new Set<CommitSource>()
  #isScheduled = false
  #turnEnds = 0
  #batchesInTurn = 0
  #underWay = 0
  /** Messages arrive in the order in which they were sent: one batch with messages is under way at a time. */
  #isSending = false
  /** Made ready, and waits for that. */
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

  /** Not an async function, nor what it calls until something goes wrong: each of those costs promises a batch. */
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
    const free = () => {
      this.#underWay -= 1
      if (isSending) this.#isSending = false
      this.#goOn()
      this.#keeper.idle()
    }
    const told = (outcomes: readonly Outcome[]) => {
      try {
        this.#keeper.settle(batch, outcomes, started)
      } finally {
        free()
      }
    }
    const answer = this.#keeper.ask(batch.map((prepared) => prepared.commit))
    if (!('then' in answer)) told(answer)
    else {
      answer.then(told, (error) => void this.#keeper.insist(batch, error).finally(free))
      this.#goOn()
    }
  }

  get #hasRoom(): boolean {
    return this.#underWay < this.#keeper.lanes()
  }

  get #hasWork(): boolean {
    return this.#held ? !this.#isSending : this.#ready.size > 0
  }

  /**
   * Callers that wait for one write to make the next do so right after it was settled. What they have made ready goes out
   * without a turn of the event loop, which would cost more than the engine's part of an append; but not for long, since
   * timers and connections wait meanwhile.
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
    clock.next(() => {
      this.#isScheduled = false
      if (this.#hasWork) this.#flush()
    })
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
        // The user's SQL takes its own time and its own transaction: nobody else waits for it here.
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
