// The writing side: one transaction at a time on one connection. A batch of commits becomes one log row and one fsync; each
// commit succeeds or fails by itself. After the fsync and before success is reported, the acknowledged mark moves. The cache
// is valid as long as no other process has added a row: every change that matters to others adds one (log-end.ts).

import { type Decision, decide } from '../../../core/commit/decide.ts'
import { Refused, riderFailed } from '../../../core/commit/refused.ts'
import { RepriseError } from '../../../core/errors.ts'
import { isChained } from '../../../core/history/entry-run.ts'
import { checkCommit } from '../../../core/store/argument-checks.ts'
import { mayMakeDue } from '../../../core/store/due.ts'
import type { Commit, Hash, Outcome } from '../../../core/store/ports.ts'
import { Mutex } from '../../../lib/waiting.ts'
import type { AckMark } from '../file/ack-mark.ts'
import type { Connection } from '../file/connection.ts'
import { damaged, isBusy, isConstraint, isNotTheEnd, toStoreError } from '../file/failure.ts'
import { retryBusy } from '../file/retry.ts'
import type { InPlace } from '../file/same-file.ts'
import { checkTexts } from '../file/text-checks.ts'
import { isAnchor, needsDigest } from '../log/log.ts'
import { checkVersion, insertAtEnd } from '../log/log-end.ts'
import { type FrameDraft, RowEncoder } from '../log/log-row.ts'
import { areHeadsDue } from '../log/unsettled.ts'
import { toHead } from '../rows/heads.ts'
import { send } from '../rows/mail.ts'
import { settleRequests } from '../rows/requests.ts'
import { sweep } from '../upkeep/sweep.ts'
import { lost, TransactionSql } from '../user-sql/transaction-sql.ts'
import { planAppends } from './append.ts'
import { apply } from './apply.ts'
import { SqliteCommitView } from './commit-view.ts'
import { Writing } from './writing.ts'

export interface WriterOptions {
  readonly connection: Connection
  readonly space: number
  readonly hash: Hash
  readonly ack: AckMark
  readonly inPlace: InPlace
  readonly file: string
  readonly busyMs: number
  readonly clock: () => number
  /** Called when a transaction that others may wait for is durable. */
  readonly onChange: (mayBeDue: boolean) => void
}

/** How a transaction ended: committed, or rolled back with the error. */
type Ended<Result> = { readonly value: Result } | { readonly error: unknown }

const sweptPerCommit = 256
const insertAnchor = 'INSERT OR REPLACE INTO reprise_anchor (tid, last, position) VALUES (?, ?, ?)'
/** No row has this position: nothing is known about the file. */
const unknown = -1

export class Writer {
  readonly #options: WriterOptions
  readonly #connection: Connection
  readonly #writing: Writing
  readonly #view: SqliteCommitView
  readonly #writeLock = new Mutex()
  readonly #rows = new RowEncoder()
  #lastPosition = unknown
  /** The number of rows since heads were last written. */
  #unsettledRows = 0
  #unsettledBytes = 0
  #anchors: { readonly tid: number; readonly last: number; readonly position: number }[] = []

  constructor(options: WriterOptions) {
    this.#options = options
    this.#connection = options.connection
    this.#writing = new Writing(options.connection, options.space, options.hash)
    this.#view = new SqliteCommitView(this.#writing)
  }

  commit(commits: readonly Commit[]): Outcome[] | Promise<Outcome[]> {
    const outcomes = this.#appendUnsettled(commits)
    if (outcomes) return outcomes
    for (const commit of commits) {
      checkCommit(commit)
      checkTexts(commit)
    }
    const hasUserSql = commits.some((commit) => commit.userSql)
    const canSweep = commits.some((commit) => commit.trim || commit.forget)
    const isErasing = commits.some((commit) => commit.forget === 'erase' || commit.forget === 'moved')
    const mayBeDue = commits.some(mayMakeDue)
    const attempt = (lost: ReadonlyMap<Commit, unknown>) =>
      this.transact(
        'commit to',
        (writing) => {
          writing.mayBeDue = mayBeDue
          const finish = (outcomes: Outcome[]) => {
            if (canSweep) sweep(writing, isErasing ? Number.MAX_SAFE_INTEGER : sweptPerCommit, isErasing)
            return outcomes
          }
          if (hasUserSql) return this.#applyWithSql(writing, commits, lost).then(finish)
          return finish(commits.map((commit) => this.#apply(writing, commit)))
        },
        isErasing,
      )
    return hasUserSql ? this.#despiteUserSql(commits, attempt) : attempt(new Map())
  }

  /**
   * If user SQL made SQLite roll back, its commit has failed, and the other commits of the batch are repeated. A deferred
   * constraint fails only at the end, without naming its commit: if several commits have user SQL, each is committed by itself.
   */
  async #despiteUserSql(
    commits: readonly Commit[],
    attempt: (lost: ReadonlyMap<Commit, unknown>) => Promise<Outcome[]>,
  ): Promise<Outcome[]> {
    const lost = new Map<Commit, unknown>()
    for (;;) {
      try {
        return await attempt(lost)
      } catch (error) {
        if (error instanceof TransactionLost) lost.set(error.commit, error.reason)
        else if (!(error instanceof ConstraintFailed)) throw error
        else {
          const [suspect, ...more] = commits.filter((commit) => commit.userSql && !lost.has(commit))
          if (more.length > 0) return await this.#oneByOne(commits)
          lost.set(suspect!, error.cause)
        }
      }
    }
  }

  async #oneByOne(commits: readonly Commit[]): Promise<Outcome[]> {
    const outcomes: Outcome[] = []
    for (const commit of commits) outcomes.push(...(await this.commit([commit])))
    return outcomes
  }

  /** Null: use the regular path. The statement checks the end of the log: if another process has written, it has moved. */
  #appendUnsettled(commits: readonly Commit[]): Outcome[] | null {
    const isDue = areHeadsDue(this.#unsettledRows, this.#unsettledBytes, this.#writing.timelines.behindCount)
    if (isDue || this.#lastPosition === unknown || !this.#writeLock.isFree) return null
    const position = this.#lastPosition + 1
    const now = this.#options.clock()
    const plan = planAppends(this.#writing, commits, position, now)
    if (!plan) return null
    const body = this.#encode(position, plan.frames, Math.floor(now))
    try {
      this.#connection.run(insertAtEnd, position, body)
    } catch (error) {
      if (isBusy(error)) return null
      this.#forget()
      if (isNotTheEnd(error)) return null
      throw toStoreError(error, 'commit to', this.#options.file)
    }
    this.#writing.timelines.advance(plan.timelines, plan.heads)
    this.#writing.unsettled.advance(position)
    this.#noteAnchors(plan.frames, position)
    this.#unsettledRows += 1
    this.#unsettledBytes += body.length
    this.#acknowledge(position, body, false)
    return plan.outcomes
  }

  /**
   * One write transaction; at its end, the changes that `work` collected in `writing` are written. Nothing is kept if it
   * throws. `isErasing`: deleted data is overwritten, also in pages that are freed.
   */
  transact<Result>(
    doing: string,
    work: (writing: Writing) => Result | Promise<Result>,
    isErasing = false,
  ): Promise<Result> {
    return this.#writeLock.run(async () => {
      const { busyMs, file } = this.#options
      let ended: Ended<Result>
      try {
        this.#connection.overwriteDeleted(isErasing)
        ended = await retryBusy(busyMs, () => {
          this.#connection.run('BEGIN IMMEDIATE')
          return this.#afterBegin(work)
        })
      } catch (error) {
        throw toStoreError(error, doing, file, { isUntouched: true })
      }
      if ('error' in ended) throw toStoreError(ended.error, doing, file)
      return ended.value
    })
  }

  /**
   * Synchronous if the work is: the application may write with a connection of its own in the same thread, and would wait for
   * this lock without an end if it were held across an await.
   */
  #afterBegin<Result>(work: (writing: Writing) => Result | Promise<Result>): Ended<Result> | Promise<Ended<Result>> {
    const writing = this.#writing
    const finish = (value: Result): Ended<Result> => {
      this.#finish(writing)
      return { value }
    }
    const abandon = (error: unknown): Ended<Result> => {
      this.#abandon(writing)
      return { error }
    }
    try {
      this.#begin(writing)
      const result = work(writing)
      return result instanceof Promise ? result.then(finish).catch(abandon) : finish(result)
    } catch (error) {
      return abandon(error)
    }
  }

  /** The connection, between two transactions. */
  alone<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result> {
    return this.#writeLock.run(async () => {
      try {
        return await work(this.#connection)
      } catch (error) {
        throw toStoreError(error, 'scrub', this.#options.file)
      }
    })
  }

  /** Changes when another connection has written. */
  dataVersion(): number {
    return this.#connection.dataVersion()
  }

  /** Resolves when no transaction is in progress. */
  async idle(): Promise<void> {
    await this.#writeLock.run(async () => {})
  }

  #begin(writing: Writing): void {
    checkVersion(this.#connection)
    const last = writing.log.lastPosition()
    if (last < this.#lastPosition) {
      throw damaged(`the log ended at ${this.#lastPosition}, but now ends at ${last}`, {
        last,
        before: this.#lastPosition,
      })
    }
    if (last !== this.#lastPosition) {
      this.#forget()
      this.#lastPosition = last
    }
    writing.workers.begin()
    writing.position = last + 1
    writing.now = this.#options.clock()
    writing.frames = []
    writing.mayBeDue = true
    writing.hasOtherChanges = false
    writing.hasAside = false
  }

  #finish(writing: Writing): void {
    if (!writing.hasChanges) {
      this.#connection.run(writing.hasAside ? 'COMMIT' : 'ROLLBACK')
      // A duplicate is an acknowledgement as well.
      this.#options.inPlace.check()
      return
    }
    const { position, frames, unsettled, mayBeDue } = writing
    this.#noteAnchors(frames, position)
    this.#writeAnchors()
    writing.timelines.flush()
    // Write the row last: a settled row states that all heads are written.
    const body = this.#encode(position, frames, null)
    this.#connection.run(insertAtEnd, position, body)
    this.#end()
    unsettled.pass(position)
    this.#anchors = []
    this.#unsettledRows = 0
    this.#unsettledBytes = 0
    this.#acknowledge(position, body, mayBeDue)
  }

  #end(): void {
    try {
      this.#connection.run('COMMIT')
    } catch (error) {
      throw isConstraint(error) ? new ConstraintFailed(error) : error
    }
  }

  /** The row is durable. If the mark cannot be written, a retry with the same operation id reports the success. */
  #acknowledge(position: number, body: Uint8Array, mayBeDue: boolean): void {
    const { ack, inPlace, file, onChange } = this.#options
    this.#lastPosition = position
    inPlace.check()
    try {
      ack.write(position, body)
    } catch (error) {
      throw new RepriseError('STORE_IO', 'the acknowledged mark cannot be written', { file: `${file}-ack` }, error)
    }
    onChange(mayBeDue)
  }

  #encode(position: number, frames: readonly FrameDraft[], unsettledAt: number | null): Uint8Array {
    return this.#rows.encode(position, frames, unsettledAt, frames.length > 1 ? spellsOut : this.#mustSpellOut)
  }

  #noteAnchors(frames: readonly FrameDraft[], position: number): void {
    for (const { tid, run } of frames) {
      const { first, count, bytes } = run
      if (isAnchor(tid, first, count, bytes.length)) this.#anchors.push({ tid, last: first + count - 1, position })
    }
  }

  /** Writes the anchors of this transaction, of rows that this process has not settled, and of rows left by other processes. */
  #writeAnchors(): void {
    for (const { tid, last, position } of this.#anchors) this.#connection.run(insertAnchor, tid, last, position)
    for (const [tid, runs] of this.#writing.unsettled.pending()) {
      for (const { position, frame } of runs) {
        const { first, last, bytes } = frame
        if (!isAnchor(tid, first, last - first + 1, bytes.length)) continue
        this.#connection.run(insertAnchor, tid, last, position)
      }
    }
  }

  /** The digest is omitted only from a row on its own, and only if a read computes the same one. */
  readonly #mustSpellOut = ({ run, before, previous }: FrameDraft): boolean => {
    if (previous === 0 || needsDigest(run)) return true
    return !isChained(this.#options.hash, before, run)
  }

  #abandon(writing: Writing): void {
    this.#forget()
    writing.frames = []
    this.#connection.rollback()
  }

  #forget(): void {
    this.#writing.timelines.clear()
    this.#writing.unsettled.forget()
    this.#anchors = []
    this.#lastPosition = unknown
  }

  #apply(writing: Writing, commit: Commit): Outcome {
    try {
      const { outcome, changes } = decide(this.#view, commit)
      if (changes) applyChanges(writing, changes)
      return outcome
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      return this.#refusal(writing, commit, error)
    }
  }

  async #applyWithSql(
    writing: Writing,
    commits: readonly Commit[],
    failed: ReadonlyMap<Commit, unknown>,
  ): Promise<Outcome[]> {
    const outcomes: Outcome[] = []
    for (const commit of commits) {
      if (failed.has(commit)) outcomes.push(this.#refusal(writing, commit, riderFailed(failed.get(commit))))
      else if (commit.userSql) outcomes.push(await this.#applyOneWithSql(writing, commit, commit.userSql))
      else outcomes.push(this.#apply(writing, commit))
    }
    return outcomes
  }

  /** The user's SQL runs before the decision is applied: if it throws, only its own SQL must be undone. */
  async #applyOneWithSql(writing: Writing, commit: Commit, userSql: NonNullable<Commit['userSql']>): Promise<Outcome> {
    const transactionSql = new TransactionSql(this.#connection)
    try {
      const { outcome, changes } = decide(this.#view, commit)
      if (!changes) return outcome
      const sqlResult = await this.#userSql(userSql, transactionSql)
      applyChanges(writing, changes)
      return { ...outcome, sqlResult }
    } catch (error) {
      // A full disk is not a fault of the user's SQL: the batch failed, and may be retried.
      if (transactionSql.diskFailure !== null) throw transactionSql.diskFailure
      if (transactionSql.isLost) throw new TransactionLost(commit)
      if (!(error instanceof Refused)) throw error
      return this.#refusal(writing, commit, error)
    } finally {
      transactionSql.end()
    }
  }

  async #userSql(userSql: NonNullable<Commit['userSql']>, transactionSql: TransactionSql): Promise<unknown> {
    this.#connection.run('SAVEPOINT reprise')
    try {
      const sqlResult = await callOrRefuse(userSql, transactionSql)
      this.#connection.run('RELEASE reprise')
      return sqlResult
    } catch (error) {
      if (!transactionSql.isLost && error instanceof Refused) {
        this.#connection.run('ROLLBACK TO reprise')
        this.#connection.run('RELEASE reprise')
      }
      throw error
    }
  }

  #refusal(writing: Writing, { guard }: Commit, { code, reason, cause }: Refused): Outcome {
    const head = guard && toHead(writing.timelines.find(guard.timeline), writing.workers, writing.now)
    return { ok: false, code, reason, head, ...(cause === undefined ? {} : { cause }) }
  }
}

function spellsOut(): boolean {
  return true
}

async function callOrRefuse(userSql: NonNullable<Commit['userSql']>, transactionSql: TransactionSql): Promise<unknown> {
  try {
    const sqlResult = await userSql(transactionSql)
    if (transactionSql.isLost) throw lost()
    transactionSql.checkLeftovers()
    return sqlResult
  } catch (cause) {
    throw riderFailed(cause)
  }
}

/** Nothing of the batch was written, because of this commit. */
class TransactionLost extends RepriseError {
  readonly commit: Commit
  readonly reason: RepriseError

  constructor(commit: Commit) {
    super('SQL_REFUSED', 'the SQL inside the commit made SQLite roll back')
    this.commit = commit
    this.reason = lost()
  }
}

/** A deferred constraint of the user's tables failed at COMMIT: nothing of the batch was written. */
class ConstraintFailed extends RepriseError {
  constructor(cause: unknown) {
    super('RIDER_FAILED', 'a deferred constraint failed', {}, cause)
  }
}

function applyChanges(writing: Writing, changes: NonNullable<Decision['changes']>): void {
  if ('timeline' in changes) apply(writing, changes)
  else {
    settleRequests(writing, changes.settled)
    writing.hasAside ||= changes.settled.length > 0
    send(writing, changes.sent)
  }
}
