// Contention between processes that write one timeline. The writer owns it, so most attempts of a crowd would fail. A
// loser waits instead: until no process works on it, until the current owner rests, or until the owner has had its
// turn; then the owner may be displaced. A turn without a write makes every later turn longer, however slow the store
// or the process is, so some process always makes progress. Safety does not depend on this: the epoch and the sequence
// in every commit keep out stale writes.

import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/store/ports.ts'
import { sleep } from '../../lib/waiting.ts'
import type { Kernel } from '../storage/kernel.ts'

/** A turn lasts at least this long, and until the owner has written this many entries. */
const leastTurnMs = 40
const turnEntries = 32
/** A turn with fewer entries, on a slow store, ends after this many times its minimum. */
const turnsAtMost = 10
/**
 * An owner that has not moved the head between two reads is idle. The first two reads are this many commit times apart,
 * because a slow commit is not idleness, within the two bounds below. The pause grows from read to read.
 */
const pollCommits = 3
const leastPollMs = 4
const longestPollMs = 90
/** The longest turn. */
const longestTurnMs = 10_000

/** Nothing was written because another process wrote first, or the outcome is unknown. Either way: read, and decide again. */
const lost = ['FENCED', 'CONFLICT', 'OWNED', 'WORKER_RETIRED', 'NOT_FOUND', 'CLOSED', 'OUTCOME_UNKNOWN'] as const

export function isLost(error: unknown): error is RepriseError {
  return isReprise(error, ...lost)
}

/** The result of waiting: the timeline is free; its owner's turn is over and it may be displaced; or it is no longer wanted. */
export type TurnOutcome = { readonly head: Head | null; readonly is: 'free' | 'over' | 'unwanted' }

/** One writer's effort to write: the number of its losses, the heads it read, and its deadline. */
export class Contest {
  readonly #kernel: Kernel
  readonly #timeline: TimelineId
  readonly #waitMs: number
  readonly #until: number
  #losses = 0
  #turnMs = leastTurnMs
  #pollMs = leastPollMs
  #seen: { readonly epoch: number; readonly first: number; readonly seq: number; readonly since: number } | null = null

  constructor(kernel: Kernel, timeline: TimelineId, waitMs: number) {
    this.#kernel = kernel
    this.#timeline = timeline
    this.#waitMs = waitMs
    this.#until = kernel.clock.elapsed() + waitMs
  }

  get losses(): number {
    return this.#losses
  }

  /** Records a lost write that took this long. */
  async lost(error: RepriseError, commitMs: number): Promise<void> {
    this.#losses += 1
    this.#pollMs = Math.min(Math.max(this.#pollMs, pollCommits * commitMs), longestPollMs)
    if (error.code === 'WORKER_RETIRED') await this.#kernel.worker.renewNow()
  }

  /** Waits for a turn. `isWanted` is called with each read. Throws CONTENDED when the time of the contest is over. */
  async turn(look: () => Promise<Head | null>, isWanted: () => boolean = () => true): Promise<TurnOutcome> {
    const { clock, random } = this.#kernel
    for (;;) {
      const head = await look()
      if (!head || this.#isFree(head) || this.#isResting(head)) return { head, is: 'free' }
      if (!isWanted()) return { head, is: 'unwanted' }
      if (clock.elapsed() >= this.#until) throw this.contended()
      if (this.#isOver()) return { head, is: 'over' }
      const pauseMs = this.#pollMs * (0.75 + random.number() / 2)
      this.#pollMs = Math.min(2 * this.#pollMs, longestPollMs)
      await sleep(clock, pauseMs)
    }
  }

  get isOver(): boolean {
    return this.#kernel.clock.elapsed() >= this.#until
  }

  contended(): RepriseError {
    const data = { timeline: this.#timeline, waitMs: this.#waitMs, losses: this.#losses }
    const what = `${this.#timeline}: other processes kept writing for ${this.#waitMs} ms, and this one could not write`
    return new RepriseError('CONTENDED', what, data)
  }

  /** No process works on it. */
  #isFree({ owner, isOwnerAlive, updatedAt }: Head): boolean {
    const { worker } = this.#kernel
    return (
      owner === null || !isOwnerAlive || owner === worker.id || worker.now(this.#timeline) - updatedAt > 2 * leastTurnMs
    )
  }

  /** True if the owner wrote nothing between two reads. Also records the head, and the moment at which a new turn begins. */
  #isResting({ epoch, seq }: Head): boolean {
    const seen = this.#seen
    if (seen && seen.epoch === epoch && seen.seq === seq) return true
    const { clock, random } = this.#kernel
    const isNewTurn = seen?.epoch !== epoch
    if (isNewTurn && seen) {
      // A turn without a write was too short.
      const wasWasted = seen.seq === seq
      this.#turnMs = wasWasted ? Math.min(2 * this.#turnMs, longestTurnMs) : leastTurnMs * (1 + random.number() / 2)
    }
    this.#seen = isNewTurn ? { epoch, seq, first: seq, since: clock.elapsed() } : { ...seen, seq }
    return false
  }

  /** The current owner has had its turn. */
  #isOver(): boolean {
    const seen = this.#seen!
    const ms = this.#kernel.clock.elapsed() - seen.since
    return ms >= this.#turnMs && (seen.seq - seen.first >= turnEntries || ms >= turnsAtMost * this.#turnMs)
  }
}
