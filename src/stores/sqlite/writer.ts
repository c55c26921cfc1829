// The writing side: one transaction at a time on one connection. A batch of commits becomes one log row and one fsync;
// each commit stands or falls by itself. After the fsync and before anybody is told, the acknowledged mark moves.

import { equalBytes } from '../../core/coordinate.ts'
import type { Commit, Hash, Outcome } from '../../core/ports.ts'
import { chainDigest } from '../../core/run.ts'
import { checkCommit } from '../../core/shapes.ts'
import type { AckMark } from './ack-mark.ts'
import { isAppend, tryAppend } from './append.ts'
import type { Connection } from './connection.ts'
import { toStoreError } from './failure.ts'
import { toHead } from './heads.ts'
import { isAnchor, needsDigest } from './log.ts'
import { encodeRow, type FrameDraft } from './log-row.ts'
import { Refused } from './refused.ts'
import { retryBusy } from './retry.ts'
import { Rider } from './rider.ts'
import { sweep } from './sweep.ts'
import { transition } from './transition.ts'
import { Turn } from './turn.ts'
import { Writing } from './writing.ts'

export interface WriterOptions {
  readonly connection: Connection
  readonly space: number
  readonly hash: Hash
  readonly ack: AckMark
  readonly file: string
  readonly busyMs: number
  readonly clock: () => number
  /** Called when a transaction that others may wait for is durable. */
  readonly onChange: () => void
}

const sweptPerCommit = 256

export class Writer {
  readonly #options: WriterOptions
  readonly #connection: Connection
  readonly #writing: Writing
  readonly #turn = new Turn()
  #dataVersion = -1
  #lastPosition = 0

  constructor(options: WriterOptions) {
    this.#options = options
    this.#connection = options.connection
    this.#writing = new Writing(options.connection, options.space, options.hash)
  }

  async commit(commits: readonly Commit[]): Promise<Outcome[]> {
    const areAppends = commits.map(isAppend)
    const others = commits.filter((_, i) => !areAppends[i])
    for (const commit of others) checkCommit(commit)
    const hasRider = others.some((commit) => commit.ride)
    const canSweep = others.some((commit) => commit.trim || commit.forget)
    return this.transact('commit to', (writing) => {
      const finish = (outcomes: Outcome[]) => {
        if (canSweep) sweep(writing, sweptPerCommit)
        return outcomes
      }
      if (hasRider) return this.#applyRiding(writing, commits).then(finish)
      return finish(
        commits.map((commit, i) => (areAppends[i] && tryAppend(writing, commit)) || this.#apply(writing, commit)),
      )
    })
  }

  /** One write transaction; what `work` leaves in `writing` is written at its end. Nothing is kept if it throws. */
  transact<Result>(doing: string, work: (writing: Writing) => Result | Promise<Result>): Promise<Result> {
    return this.#turn.run(async () => {
      const { busyMs, file } = this.#options
      const writing = this.#writing
      try {
        await retryBusy(busyMs, () => this.#connection.run('BEGIN IMMEDIATE'))
      } catch (error) {
        throw toStoreError(error, doing, file)
      }
      try {
        this.#begin(writing)
        const result = work(writing)
        const value = result instanceof Promise ? await result : result
        this.#finish(writing)
        return value
      } catch (error) {
        this.#abandon(writing)
        throw toStoreError(error, doing, file)
      }
    })
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    await this.#turn.run(async () => {})
  }

  /** What is kept in memory is true as long as no other connection has written. */
  #begin(writing: Writing): void {
    const dataVersion = this.#connection.dataVersion()
    if (dataVersion !== this.#dataVersion) {
      writing.timelines.clear()
      this.#lastPosition = writing.log.lastPosition()
      this.#dataVersion = dataVersion
    }
    writing.position = this.#lastPosition + 1
    writing.now = this.#options.clock()
    writing.frames = []
    writing.hasOtherChanges = false
    writing.hasAside = false
  }

  #finish(writing: Writing): void {
    if (!writing.hasChanges) {
      this.#connection.run(writing.hasAside ? 'COMMIT' : 'ROLLBACK')
      return
    }
    const { position, frames } = writing
    const body = encodeRow(position, frames, (draft) => this.#mustSpellOut(draft, frames.length))
    this.#connection.run('INSERT INTO reprise_log (position, body) VALUES (?, ?)', position, body)
    for (const draft of frames) {
      if (!isAnchor(draft)) continue
      const last = draft.run.first + draft.run.count - 1
      const sql = 'INSERT INTO reprise_anchor (tid, last, position) VALUES (?, ?, ?)'
      this.#connection.run(sql, draft.tid, last, position)
    }
    writing.timelines.flush()
    this.#connection.run('COMMIT')
    this.#lastPosition = position
    this.#options.ack.write(position, body)
    this.#options.onChange()
  }

  /** A digest is left out only of a row on its own, and only if it is what reading will compute. */
  #mustSpellOut({ run, before, previous }: FrameDraft, count: number): boolean {
    if (count > 1 || previous === 0 || needsDigest(run)) return true
    return !equalBytes(chainDigest(this.#options.hash, before, run.bytes), run.digest)
  }

  #abandon(writing: Writing): void {
    writing.timelines.clear()
    this.#dataVersion = -1
    this.#connection.rollback()
  }

  #apply(writing: Writing, commit: Commit): Outcome {
    const release = this.#savepoint(writing, commit)
    try {
      const outcome = transition(writing, commit)
      release(true)
      return outcome
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      release(false)
      return this.#refusal(writing, commit, error)
    }
  }

  async #applyRiding(writing: Writing, commits: readonly Commit[]): Promise<Outcome[]> {
    const outcomes: Outcome[] = []
    for (const commit of commits) {
      outcomes.push(
        commit.ride ? await this.#applyOneRiding(writing, commit, commit.ride) : this.#apply(writing, commit),
      )
    }
    return outcomes
  }

  async #applyOneRiding(writing: Writing, commit: Commit, ride: NonNullable<Commit['ride']>): Promise<Outcome> {
    const release = this.#savepoint(writing, commit)
    const rider = new Rider(this.#connection)
    try {
      const outcome = transition(writing, commit)
      if (outcome.wasApplied) {
        release(true)
        return outcome
      }
      const ridden = await rideOrRefuse(ride, rider)
      release(true)
      return { ...outcome, ridden }
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      release(false)
      return this.#refusal(writing, commit, error)
    } finally {
      rider.end()
    }
  }

  /** Where a commit can be taken back to. Steps that only change timelines and frames need no savepoint in the file. */
  #savepoint(writing: Writing, commit: Commit): (isKept: boolean) => void {
    const needsSavepoint = !isPlain(commit)
    const { hasOtherChanges } = writing
    const frameCount = writing.frames.length
    writing.timelines.mark()
    if (needsSavepoint) this.#connection.run('SAVEPOINT reprise')
    return (isKept) => {
      if (!isKept) {
        writing.timelines.undo()
        writing.frames.length = frameCount
        writing.hasOtherChanges = hasOtherChanges
        if (needsSavepoint) this.#connection.run('ROLLBACK TO reprise')
      }
      if (needsSavepoint) this.#connection.run('RELEASE reprise')
    }
  }

  #refusal(writing: Writing, { guard }: Commit, { code, reason, cause }: Refused): Outcome {
    const head = guard && toHead(writing.timelines.find(guard.timeline), writing.workers, writing.now)
    return { ok: false, code, reason, head, ...(cause === undefined ? {} : { cause }) }
  }
}

async function rideOrRefuse(ride: NonNullable<Commit['ride']>, rider: Rider): Promise<unknown> {
  try {
    return await ride(rider)
  } catch (cause) {
    throw new Refused('RIDER_FAILED', 'the rider of the commit threw', cause)
  }
}

const rowWriters = [
  'branch',
  'publish',
  'marks',
  'drop',
  'trim',
  'consume',
  'send',
  'cursors',
  'forget',
  'ride',
] as const

function isPlain(commit: Commit): boolean {
  return !commit.take?.create && rowWriters.every((field) => commit[field] === undefined)
}
