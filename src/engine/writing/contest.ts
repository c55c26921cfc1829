// How processes that write one timeline get along. Whoever writes owns it, so most attempts of a crowd would be in
// vain. Who has lost waits instead: until nobody is at work, until the present owner rests, or until it has had its
// turn; then it may be displaced. A turn in which nothing was written makes every turn after it longer, however slow
// the store or the process is, so somebody always gets through. None of this is needed for safety: what keeps a stale
// write out is the epoch and the sequence that every commit names.

import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Kernel } from '../storage/kernel.ts'

/** How long an owner at work is left alone at least, and how many entries it may write; where the store is slow, longer… */
const leastTurnMs = 40
const turnEntries = 32
/** …up to so many times. */
const turnsAtMost = 10
/**
 * Who has not moved the head between two looks rests. The first two are so many times as far apart as a commit takes, for a
 * slow one is no rest; but not nearer than this, nor farther. From look to look the pause grows.
 */
const lookCommits = 3
const leastLookMs = 4
const longestLookMs = 90
/** A turn never becomes longer than this. */
const longestTurnMs = 10_000

/** Nothing was written, for another process wrote first; or nobody knows. Either way: look, and decide again. */
const lost = ['FENCED', 'CONFLICT', 'OWNED', 'WORKER_RETIRED', 'NOT_FOUND', 'CLOSED', 'OUTCOME_UNKNOWN'] as const

export function isLost(error: unknown): error is RepriseError {
  return isReprise(error, ...lost)
}

/** Whose turn it is: ours, as nobody is at work; ours, if we take it from its owner; or nobody wants it any more. */
export type TurnOutcome = { readonly head: Head | null; readonly is: 'free' | 'over' | 'unwanted' }

/** One writer's effort to get something written: how often it lost, what it saw, and until when it goes on. */
export class Contest {
  readonly #kernel: Kernel
  readonly #timeline: TimelineId
  readonly #waitMs: number
  readonly #until: number
  #losses = 0
  #turnMs = leastTurnMs
  #lookMs = leastLookMs
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

  /** A write was lost, after it had been under way for so long. */
  async lost(error: RepriseError, commitMs: number): Promise<void> {
    this.#losses += 1
    this.#lookMs = Math.min(Math.max(this.#lookMs, lookCommits * commitMs), longestLookMs)
    if (error.code === 'WORKER_RETIRED') await this.#kernel.worker.renewNow()
  }

  /** Waits for a turn. `isWanted` is asked at every look. CONTENDED if the time of the contest is over. */
  async turn(look: () => Promise<Head | null>, isWanted: () => boolean = () => true): Promise<TurnOutcome> {
    const { clock, random } = this.#kernel
    for (;;) {
      const head = await look()
      if (!head || this.#isFree(head) || this.#isResting(head)) return { head, is: 'free' }
      if (!isWanted()) return { head, is: 'unwanted' }
      if (clock.elapsed() >= this.#until) throw this.contended()
      if (this.#isOver()) return { head, is: 'over' }
      const pauseMs = this.#lookMs * (0.75 + random.number() / 2)
      this.#lookMs = Math.min(2 * this.#lookMs, longestLookMs)
      await new Promise<void>((resolve) => clock.after(pauseMs, resolve, true))
    }
  }

  get isOver(): boolean {
    return this.#kernel.clock.elapsed() >= this.#until
  }

  contended(): RepriseError {
    const data = { timeline: this.#timeline, waitMs: this.#waitMs, losses: this.#losses }
    const what = `${this.#timeline}: other processes wrote first for ${this.#waitMs} ms; this one had no turn`
    return new RepriseError('CONTENDED', what, data)
  }

  /** Nobody is at work on it. */
  #isFree({ owner, isOwnerAlive, updatedAt }: Head): boolean {
    const { worker } = this.#kernel
    return (
      owner === null || !isOwnerAlive || owner === worker.id || worker.now(this.#timeline) - updatedAt > 2 * leastTurnMs
    )
  }

  /** Its owner has done nothing between two looks. Notes what was seen, and where one turn ends and the next begins. */
  #isResting({ epoch, seq }: Head): boolean {
    const seen = this.#seen
    if (seen && seen.epoch === epoch && seen.seq === seq) return true
    const { clock, random } = this.#kernel
    const isNewTurn = seen?.epoch !== epoch
    if (isNewTurn && seen) {
      // A turn in which nothing was written was too short.
      const wasWasted = seen.seq === seq
      this.#turnMs = wasWasted ? Math.min(2 * this.#turnMs, longestTurnMs) : leastTurnMs * (1 + random.number() / 2)
    }
    this.#seen = isNewTurn ? { epoch, seq, first: seq, since: clock.elapsed() } : { ...seen, seq }
    return false
  }

  /** The present owner has had its turn. */
  #isOver(): boolean {
    const seen = this.#seen!
    const ms = this.#kernel.clock.elapsed() - seen.since
    return ms >= this.#turnMs && (seen.seq - seen.first >= turnEntries || ms >= turnsAtMost * this.#turnMs)
  }
}
