// Group commit: everything ready at the same moment goes in one transaction and one fsync (batches.ts); each commit
// succeeds or fails by its own guard. A source (an open timeline) has at most one commit in flight, which keeps its
// order. When the store's answer is lost, the same operations are sent again: the outcome is never guessed, and no
// commit applied twice.

import { assert } from '../../core/assert.ts'
import { equalBytes, type TimelineId } from '../../core/coordinate.ts'
import { isPassingStoreFailure, isReprise, RepriseError } from '../../core/errors.ts'
import type { Limits } from '../../core/limits.ts'
import { growingPause } from '../../core/retry/pause.ts'
import { checkAttributes } from '../../core/store/argument-checks.ts'
import type { Clock, Commit, EntryRun, Head, Outcome, Random, Store } from '../../core/store/ports.ts'
import { onAbort, sleep } from '../../lib/waiting.ts'
import type { Events } from '../base/events.ts'
import { UserCode } from '../base/user-code.ts'
import { Batches, type BatchKeeper, type CommitSource, type PreparedCommit } from './batches.ts'

export interface CommitterOptions {
  readonly store: Store
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
  readonly limits: Limits
  /** How long a batch without an answer is retried before its callers get OUTCOME_UNKNOWN. */
  readonly patienceMs: number
  /** Called with each commit that the store has acknowledged. */
  readonly onDurable?: (commit: Commit) => void
}

const firstPauseMs = 20
const longestPauseMs = 2000
export class Committer {
  readonly #options: CommitterOptions
  readonly #keeper: BatchKeeper
  /** By the number of the database; a store with a single database uses the first. */
  readonly #batches: Batches[] = []
  #aside = 0
  #entered = 0
  readonly #waiting = new Set<() => void>()
  #idle: (() => void)[] = []

  /** The user's code inside transactions. */
  readonly userCode: UserCode

  constructor(options: CommitterOptions) {
    this.#options = options
    this.userCode = new UserCode(options.clock, options.limits.userCodeMs)
    const { store, clock, limits } = options
    this.#keeper = {
      clock,
      limits,
      lanes: () => store.lanes ?? 1,
      places: () => this.#batches.length,
      ask: (commits) => this.#askOnce(commits),
      settle: (batch, outcomes, started) => this.#settle(batch, outcomes, started),
      insist: (batch, error) => this.#commitBatch(batch, { error }),
      aside: (prepared) => {
        void this.#commitAside({
          commit: this.userCode.bound(prepared.commit),
          bytes: prepared.bytes,
          settle: (outcome) => prepared.settle(outcome),
          fail: (error) => prepared.fail(error),
        })
      },
      idle: () => this.#reportIdle(),
    }
  }

  /** Announces that the source has something to commit. `build` is called once per call of `ready`. */
  ready(source: CommitSource): void {
    const place = source.timeline === undefined ? 0 : (this.#options.store.shards?.placeOf(source.timeline) ?? 0)
    while (this.#batches.length <= place) this.#batches.push(new Batches(this.#keeper))
    this.#batches[place]!.ready(source)
  }

  /**
   * Backpressure: resolves when there is room for one more waiting write. The caller frees its place with `leave` when
   * its write is settled. Nothing is dropped; callers wait.
   */
  async enter(signal?: AbortSignal): Promise<void> {
    if (this.tryEnter()) return
    await new Promise<void>((resolve, reject) => {
      const waiter = () => {
        forget?.()
        resolve()
      }
      const abort = () => {
        this.#waiting.delete(waiter)
        reject(new RepriseError('ABORTED', 'aborted while waiting for room in the commit queue', {}, signal?.reason))
      }
      if (signal?.aborted) return abort()
      const forget = signal && onAbort(signal, abort)
      this.#waiting.add(waiter)
    })
  }

  /** The same without waiting: false if there is no room. */
  tryEnter(): boolean {
    if (this.#entered >= this.#options.limits.queuedCommits) return false
    this.#entered += 1
    return true
  }

  leave(): void {
    const [next] = this.#waiting
    if (!next) {
      this.#entered -= 1
      return
    }
    // The slot passes to the next caller, so that the count stays the same and no other caller overtakes.
    this.#waiting.delete(next)
    next()
  }

  /** Commits once, without an open timeline. */
  submit(commit: Commit): Promise<Outcome> {
    const refusal = this.userCode.refusal()
    if (refusal) return Promise.reject(refusal)
    try {
      checkMade(commit, this.#options.limits)
    } catch (error) {
      return Promise.reject(error)
    }
    return new Promise((resolve, reject) => {
      const prepared: PreparedCommit = { commit, bytes: sizeOf(commit), settle: resolve, fail: reject }
      this.ready({ timeline: commit.guard?.timeline ?? commit.send?.[0]?.to, build: () => prepared })
    })
  }

  /** Resolves when no commit is waiting or in flight. */
  drain(): Promise<void> {
    if (this.#isIdle) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  get #isIdle(): boolean {
    return this.#aside === 0 && this.#batches.every(({ isIdle }) => isIdle)
  }

  async #commitAside(prepared: PreparedCommit, failed?: { readonly error: unknown }): Promise<void> {
    this.#aside += 1
    await this.#commitBatch([prepared], failed)
    this.#aside -= 1
    this.#reportIdle()
  }

  #reportIdle(): void {
    if (!this.#isIdle) return
    for (const resolve of this.#idle.splice(0)) resolve()
  }

  /** `failed`: the batch was sent once already. */
  async #commitBatch(batch: readonly PreparedCommit[], failed?: { readonly error: unknown }): Promise<void> {
    const started = this.#options.clock.elapsed()
    let outcomes: readonly (Outcome | RepriseError)[]
    try {
      outcomes = await this.#ask(
        batch.map((prepared) => prepared.commit),
        failed,
      )
    } catch (error) {
      if (batch.length > 1 && isReprise(error, 'STORE_DAMAGED', 'HISTORY_DAMAGED')) {
        // One damaged timeline must not stop the others: each commit is retried alone, under the same operation id.
        for (const prepared of batch) await this.#commitBatch([prepared])
        return
      }
      for (const prepared of batch) prepared.fail(error)
      return
    }
    this.#settle(batch, outcomes, started)
  }

  #settle(batch: readonly PreparedCommit[], outcomes: readonly (Outcome | RepriseError)[], started: number): void {
    if (this.#options.events.has('committed')) {
      this.#report(batch, outcomes, this.#options.clock.elapsed() - started)
    }
    for (let i = 0; i < batch.length; i++) {
      const outcome = outcomes[i]
      assert(outcome, 'the store answers each commit')
      if (outcome instanceof RepriseError) batch[i]!.fail(outcome)
      // A part of the store did not answer: this commit is retried alone, and no other waits for it.
      else if (isAway(outcome)) void this.#commitAside(batch[i]!, { error: outcome.cause })
      else {
        if (outcome.ok) this.#options.onDurable?.(batch[i]!.commit)
        batch[i]!.settle(outcome)
      }
    }
  }

  #askOnce(commits: readonly Commit[]): Outcome[] | Promise<Outcome[]> {
    try {
      return this.#options.store.commit(commits)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * Repeats a read while the store does not answer, for as long as a commit is repeated: work with occasional reads must not
   * end before its commits would. `isOver`: the answer is no longer needed.
   * @example const [head] = await committer.patiently(() => store.head([id]), () => isStopped)
   */
  async patiently<T>(read: () => Promise<T>, isOver: () => boolean): Promise<T> {
    let until: number | null = null
    for (let attempt = 1; ; attempt++) {
      try {
        return await read()
      } catch (error) {
        const { clock, events, patienceMs } = this.#options
        until ??= clock.elapsed() + patienceMs
        if (!isPassingStoreFailure(error) || isOver() || clock.elapsed() >= until) throw error
        events.emit('store-retry', { error, attempt })
        await this.#pause(attempt)
      }
    }
  }

  async #pause(attempt: number): Promise<void> {
    const { clock, random } = this.#options
    const pauseMs = growingPause(attempt, firstPauseMs, longestPauseMs) * (0.5 + random.number())
    await sleep(clock, pauseMs)
  }

  async #ask(
    commits: readonly Commit[],
    failed: { readonly error: unknown } | undefined,
  ): Promise<(Outcome | RepriseError)[]> {
    const { clock, events, patienceMs } = this.#options
    // Counted from the first lost answer: a commit with user SQL may have taken long before it.
    let until: number | null = null
    let isUntouched = true
    for (let attempt = 1; ; attempt++) {
      try {
        if (failed && attempt === 1) throw failed.error
        const outcomes = await this.#askOnce(commits)
        return attempt === 1
          ? outcomes
          : await Promise.all(outcomes.map((outcome, i) => this.#reconsider(commits[i]!, outcome)))
      } catch (error) {
        if (!mayHaveHappened(error)) throw error
        // The store was not reached for writing, so the outcome is known: nothing was written.
        isUntouched &&= isReprise(error, 'STORE_BUSY') && error.data.isUntouched === true
        until ??= clock.elapsed() + patienceMs
        if (clock.elapsed() >= until) {
          if (isUntouched) throw error
          throw new RepriseError('OUTCOME_UNKNOWN', 'the store did not answer a commit', { attempts: attempt }, error)
        }
        events.emit('store-retry', { error, attempt })
        await this.#pause(attempt)
      }
    }
  }

  /**
   * After a lost answer, a refusal may only mean that another process wrote since. If history contains the run under
   * its own digest, which no other process could have written, the commit was applied, here or on a branch archived
   * since. If that history was trimmed meanwhile, the outcome stays unknown.
   */
  async #reconsider(commit: Commit, outcome: Outcome): Promise<Outcome | RepriseError> {
    const { guard, run } = commit
    if (outcome.ok || !guard) return outcome
    if (outcome.code === 'EXISTS' && commit.publish && !commit.take && !commit.branch) {
      // Checkpoint ids are unique, so this one was published by the attempt without an answer.
      return { ok: true, epoch: guard.epoch, seq: guard.seq ?? outcome.head?.seq ?? 0, isDuplicate: true }
    }
    if (!run) return outcome
    const found = await this.#find(guard.timeline, run)
    if (found === 'nowhere') return outcome
    if (found === 'trimmed') {
      return new RepriseError(
        'OUTCOME_UNKNOWN',
        'the answer was lost, and the history that would show the outcome was trimmed since',
        {
          timeline: guard.timeline,
          seq: run.first,
        },
      )
    }
    const epoch = guard.epoch + (commit.take || commit.branch ? 1 : 0)
    return { ok: true, epoch, seq: run.first + run.count - 1, isDuplicate: true }
  }

  async #find(timeline: TimelineId, run: EntryRun): Promise<'here' | 'nowhere' | 'trimmed'> {
    const { store } = this.#options
    let isTrimmed = false
    for (let id: TimelineId | undefined = timeline; id !== undefined; ) {
      const [[found], [head]]: [EntryRun[], (Head | null)[]] = await Promise.all([
        store.read(id, run.first - 1, 1),
        store.head([id]),
      ])
      if (found && found.first === run.first && equalBytes(found.digest, run.digest)) return 'here'
      isTrimmed ||= !head || head.floor >= run.first
      id = head?.base?.timeline
    }
    return isTrimmed ? 'trimmed' : 'nowhere'
  }

  #report(batch: readonly PreparedCommit[], outcomes: readonly (Outcome | RepriseError)[], ms: number): void {
    let entries = 0
    let bytes = 0
    batch.forEach((prepared, i) => {
      const outcome = outcomes[i]!
      if (outcome instanceof RepriseError || !outcome.ok) return
      entries += prepared.commit.run?.count ?? 0
      bytes += prepared.bytes
    })
    this.#options.events.emit('committed', { commits: batch.length, entries, bytes, ms })
  }
}

function isAway(outcome: Outcome): outcome is Extract<Outcome, { ok: false }> {
  return !outcome.ok && outcome.code === 'SHARD_AWAY'
}

/** Errors after which the work may or may not have been done: retried with the same operation ids. */
function mayHaveHappened(error: unknown): boolean {
  return isReprise(error, 'STORE_UNREACHABLE', 'STORE_IO', 'STORE_BUSY', 'TIMEOUT')
}

export function sizeOf(commit: Commit): number {
  let bytes = 64 + (commit.run?.bytes.length ?? 0)
  for (const message of commit.send ?? []) bytes += message.data.length + 64
  for (const manifest of commit.publish ?? []) bytes += manifest.body.length + 200
  return bytes
}

/** Refuses ids and attributes beyond the limits, so that every stored one can be looked up. */
export function checkMade(commit: Pick<Commit, 'guard' | 'take' | 'branch' | 'attributes'>, limits: Limits): void {
  if (commit.attributes) checkAttributes(commit.attributes, limits)
  const id = commit.branch?.archive ?? (commit.take?.create ? commit.guard?.timeline : undefined)
  if (id === undefined || id.length <= limits.idLength) return
  throw new RepriseError('LIMIT_EXCEEDED', `an id of ${id.length} characters is longer than ${limits.idLength}`, {
    limit: 'idLength',
    max: limits.idLength,
    id: id.slice(0, 80),
  })
}
