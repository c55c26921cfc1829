// A timeline that several processes write in turns, none of them the owner for long: replicas of one service. Reading
// takes nothing. A write decides on the state at a coordinate and commits its decision, which applies only if history
// is still at that coordinate; the writer then owns the timeline, and writes without reading first until another
// process writes. If many processes write concurrently, they take turns (contest.ts).

import { equalBytes, type TimelineId } from '../../core/coordinate.ts'
import { isReprise, noTimeline, RepriseError } from '../../core/errors.ts'
import { lastSeq, originDigest } from '../../core/history/entry-run.ts'
import { isHeadLost } from '../../core/history/lost-head.ts'
import type { Head, PastLife } from '../../core/store/ports.ts'
import { warnOnReject } from '../../lib/warn-on-reject.ts'
import { refusalError } from '../base/refusal-error.ts'
import { policyToStore } from '../checkpoint/stored-policy.ts'
import { isSameBranch } from '../history/erasures.ts'
import { type Entry, entriesOf, lineageOf, readHistory } from '../history/history.ts'
import { type Recovered, recover } from '../history/recover.ts'
import { retryWithFreshHead } from '../history/retry-with-fresh-head.ts'
import { guards, TimelineState } from '../history/state.ts'
import type { Fold } from '../model/definition.ts'
import { Contest, isLost } from '../ownership/contest.ts'
import { leaseHolder, refuseLeased } from '../ownership/lease-mark.ts'
import { madeAgain } from '../ownership/lost-head.ts'
import { type Kernel, releaseLeft, submit } from '../storage/kernel.ts'
import { refuseNotHere } from '../storage/moved-mark.ts'
import { refuseHeld } from '../storage/restore-hold.ts'
import type { OpenTimelines } from './open-timelines.ts'
import type { OpenTimeline } from './timeline.ts'

export class TurnTimeline<State> {
  readonly id: TimelineId
  readonly #kernel: Kernel
  readonly #openTimelines: OpenTimelines
  readonly #fold: Fold<State>
  readonly #mustExist: boolean
  #open: OpenTimeline<State>
  #head: Head | null
  /** The life and epoch from which a missing timeline is created. */
  #before: Loaded<State>['before']
  #wasOwner = false
  #readyAt = 0
  /** Following the entries of other processes failed halfway. */
  #isTorn = false
  readonly #watchers = new Set<(entries: readonly Entry[]) => void>()

  private constructor(
    kernel: Kernel,
    openTimelines: OpenTimelines,
    fold: Fold<State>,
    start: { readonly id: TimelineId } & Loaded<State>,
    mustExist: boolean,
  ) {
    this.id = start.id
    this.#kernel = kernel
    this.#openTimelines = openTimelines
    this.#fold = fold
    this.#mustExist = mustExist
    this.#head = start.head
    this.#before = start.before
    this.#open = this.#make(start.recovered)
  }

  /** Reads the timeline; creates and takes nothing. */
  static async open<State>(
    kernel: Kernel,
    openTimelines: OpenTimelines,
    id: TimelineId,
    fold: Fold<State>,
    mustExist = false,
    evenInvalid = false,
  ): Promise<TurnTimeline<State>> {
    const loaded = await load(kernel, id, fold, mustExist, !evenInvalid)
    return new TurnTimeline(kernel, openTimelines, fold, { id, ...loaded }, mustExist)
  }

  /** State, coordinate and keys as far as they were read. To write, call `ready` first, with no await in between. */
  get open(): OpenTimeline<State> {
    return this.#open
  }

  /** The head as last read, with its status and other attributes. Null: the timeline did not exist, or is new. */
  get head(): Head | null {
    return this.#head
  }

  /** False: there was no such timeline when it was last read. */
  get exists(): boolean {
    return this.#head !== null || this.#open.epoch > this.#before.epoch
  }

  /** Reads the entries of other processes. Called between two writes. */
  async refresh(): Promise<void> {
    const head = await this.#look()
    const { open } = this
    if (open.isOwner && !open.closing && head?.epoch === open.epoch && equalBytes(head.digest, open.digest)) return
    await this.#follow(head)
  }

  /** True if nothing has moved since it was read. */
  async isCurrent(): Promise<boolean> {
    const head = await this.#look()
    const { open } = this
    if (open.broken || open.closing) return false
    if (!head) return open.seq === 0 && open.epoch === this.#before.epoch
    return head.epoch === open.epoch && head.seq === open.seq && equalBytes(head.digest, open.digest)
  }

  /** Prepares the next write: as the owner, or with an attempt to take it. False: something has to be awaited first. */
  tryReady(): boolean {
    const { worker, hash } = this.#kernel
    if (this.#open.broken || this.#open.closing) return false
    this.#wasOwner = this.#open.isOwner
    this.#readyAt = this.#kernel.clock.elapsed()
    if (this.#wasOwner) return true
    if (worker.registered === null) return false
    const create = this.exists ? {} : { create: { digest: originDigest(hash, this.id) } }
    const take = { worker: worker.registered, from: 'anyone', ...create } as const
    this.#open.attempt(take, policyToStore(this.#kernel, this.id, this.#head))
    return true
  }

  async ready(): Promise<void> {
    if (!this.#open.isOwner && leaseHolder(this.#kernel, this.#head) !== null) {
      const head = await this.#look()
      await refuseLeased(this.#kernel, head)
      await this.#follow(head)
    }
    while (!this.tryReady()) {
      if (this.#open.broken || this.#open.closing) await this.refresh()
      else await this.#kernel.worker.register()
    }
  }

  contest(waitMs: number): Contest {
    return new Contest(this.#kernel, this.id, waitMs)
  }

  /**
   * After a lost write: resolves when the caller should decide again, on the then current state. `isWanted` is called
   * with each read. Throws CONTENDED when the time of the contest is over.
   */
  async lose(contest: Contest, error: RepriseError, isWanted: () => boolean): Promise<void> {
    await contest.lost(error, this.#kernel.clock.elapsed() - this.#readyAt)
    // A displaced owner has had its turn. A process whose state was merely outdated may retry at once.
    const look = async () => {
      const head = await this.#look()
      await refuseLeased(this.#kernel, head)
      return head
    }
    if (contest.losses === 1 && !this.#wasOwner) return await this.#follow(await look())
    for (;;) {
      const { head, is } = await contest.turn(look, isWanted)
      if (is === 'free') return await this.#follow(head)
      if (is === 'unwanted' || (await this.#takeTurn(head))) return
    }
  }

  /** Claimed for this process by the dispatcher. */
  async adopt(head: Head): Promise<void> {
    await this.#follow(head, head.epoch)
  }

  /** Takes ownership without writing entries; creates the timeline if it is missing. */
  async own(waitMs: number, isWanted: () => boolean): Promise<OpenTimeline<State>> {
    const contest = this.contest(waitMs)
    while (!this.#open.isOwner || this.#open.closing) {
      if (await this.#takeTurn(await this.#look())) break
      await this.lose(contest, new RepriseError('FENCED', `${this.id} moved`), isWanted)
      if (!isWanted()) throw new RepriseError('ABORTED', `${this.id}: aborted`, { timeline: this.id })
    }
    return this.#open
  }

  /** Called with entries written or read; with none after a complete reload. */
  watch(call: (entries: readonly Entry[]) => void): () => void {
    this.#watchers.add(call)
    return () => this.#watchers.delete(call)
  }

  async close(): Promise<void> {
    if (this.#open.closing) return
    const { isOwner } = this.#open
    // Another process may own it by now: then there is nothing to release.
    await this.#open.shut().catch((error: unknown) => {
      if (!isLost(error)) throw error
    })
    if (!isOwner) await this.#releaseUnknown()
  }

  /**
   * After a lost write, or a claim that was not adopted, this process may own it in the store without knowing: no process could
   * claim it then, and its mail would wait.
   */
  async #releaseUnknown(): Promise<void> {
    const owner = this.#head?.owner ?? null
    if (owner === null || owner !== this.#kernel.worker.registered) return
    await releaseLeft(this.#kernel, { timeline: this.id, epoch: this.#head!.epoch })
  }

  async #look(): Promise<Head | null> {
    const [head] = await this.#kernel.store.head([this.id])
    if (head) refuseNotHere(head)
    if (head) refuseHeld(this.#kernel, head)
    if (head && isHeadLost(head)) return await madeAgain(this.#kernel, head)
    return head ?? null
  }

  /** Takes it under a new epoch, even from a live owner. False: another process wrote first. */
  async #takeTurn(head: Head | null): Promise<boolean> {
    const { worker, hash, identity } = this.#kernel
    if (!head && this.#mustExist) throw missing(this.id)
    const create = head ? {} : { create: { digest: originDigest(hash, this.id) } }
    const attributes = policyToStore(this.#kernel, this.id, head)
    const { epoch } = head ?? (await identity.past(this.id))
    const outcome = await submit(this.#kernel, {
      guard: { timeline: this.id, epoch },
      take: { worker: await worker.register(), from: 'anyone', ...create },
      ...(attributes && { attributes }),
    })
    if (outcome.ok) {
      this.#open.declared(attributes)
      if (head) await this.#follow(head, outcome.epoch, outcome.seq)
      else await this.#reload(outcome.epoch)
      return true
    }
    if (outcome.code === 'WORKER_RETIRED') await worker.renewNow()
    else if (outcome.code !== 'FENCED' && outcome.code !== 'NOT_FOUND') throw refusalError(this.id, outcome)
    return false
  }

  /** Reads history up to `seq`; becomes the owner if `taken` is an epoch that this process took. */
  async #follow(head: Head | null, taken?: number, seq = head?.seq ?? 0): Promise<void> {
    const isOwner = taken !== undefined
    const open = this.#open
    try {
      if (head && (await this.#catchUp(head, seq))) {
        this.#head = head
        open.renew(taken ?? head.epoch, isOwner)
      } else if (head || !(await this.#isUntouched())) await this.#reload(taken)
      else if (this.#mustExist) throw missing(this.id)
      else open.renew(this.#before.epoch, false)
    } catch (error) {
      // The state may be incomplete: it is read again before it is used.
      if (!open.broken) open.break(new RepriseError('CONFLICT', `${this.id} could not be followed`, {}, error))
      this.#isTorn = true
      throw error
    }
  }

  /** There was no such timeline, nothing was written, and no process has created and deleted one since. */
  async #isUntouched(): Promise<boolean> {
    if (this.exists || this.#open.closing) return false
    const { life, epoch } = await this.#kernel.identity.past(this.id)
    return life === this.#before.life && epoch === this.#before.epoch
  }

  /** False: the state read so far is not part of this history, or the entries after it are missing. */
  async #catchUp(head: Head, to: number): Promise<boolean> {
    const open = this.#open
    const point = { seq: open.seq, digest: open.digest }
    if (open.closing || this.#isTorn || open.isTorn || !isSameBranch(this.#head ?? nowhere, head)) return false
    if (to < point.seq || head.floor > point.seq) return false
    if (head.seq === point.seq && !equalBytes(head.digest, point.digest)) return false
    try {
      const lineage = await lineageOf(this.#kernel, head)
      const history = readHistory(this.#kernel, lineage, point, to)
      for (let step = await history.next(); !step.done; step = await history.next()) {
        const { run } = step.value
        const entries = entriesOf(this.#kernel, step.value)
        await open.follow(entries, { seq: lastSeq(run), digest: run.digest }, head.epoch)
      }
      return true
    } catch (error) {
      // The timeline may have been deleted and created again, or trimmed during the read: a full recovery decides.
      if (isReprise(error, 'HISTORY_DAMAGED', 'NOT_ON_BRANCH', 'OUT_OF_RANGE')) return false
      throw error
    }
  }

  async #reload(taken: number | undefined): Promise<void> {
    const { head, recovered, before } = await load(this.#kernel, this.id, this.#fold, this.#mustExist)
    const old = this.#open
    this.#head = head
    this.#before = before
    this.#open = this.#make(recovered)
    this.#isTorn = false
    if (taken !== undefined && taken === head?.epoch) this.#open.renew(taken, true)
    this.#notify([])
    // Stops its timers.
    if (!old.closing) {
      if (!old.broken) old.break(new RepriseError('FENCED', `${this.id} was read again`, { timeline: this.id }))
      await old.shut()
    }
  }

  #make(recovered: Recovered<State>): OpenTimeline<State> {
    const head = this.#head ?? { timeline: this.id, life: this.#before.life + 1, epoch: this.#before.epoch, base: null }
    const open = this.#openTimelines.share(head, this.#fold, recovered)
    open.watch((entries) => this.#notify(entries))
    return open
  }

  #notify(entries: readonly Entry[]): void {
    for (const call of this.#watchers) warnOnReject(call(entries), 'watch()')
  }
}

interface Loaded<State> {
  readonly head: Head | null
  readonly recovered: Recovered<State>
  /** An earlier life, if the timeline no longer exists. */
  readonly before: Pick<PastLife, 'life' | 'epoch'>
}

async function load<State>(
  kernel: Kernel,
  id: TimelineId,
  fold: Fold<State>,
  mustExist: boolean,
  mustBeValid = false,
): Promise<Loaded<State>> {
  return await retryWithFreshHead(async () => {
    const [head = null] = await kernel.store.head([id])
    if (!head && mustExist) throw missing(id)
    if (head) refuseNotHere(head)
    const recovered = head
      ? await recover(kernel, head, fold, { isPaged: true, mustBeValid })
      : nothingYet(kernel, id, fold)
    const before = head ? { life: 0, epoch: 0 } : await kernel.identity.past(id)
    if (head) kernel.events.emit('recovered', { timeline: id, report: recovered.report })
    return { head, recovered, before }
  })
}

function nothingYet<State>(kernel: Kernel, id: TimelineId, fold: Fold<State>): Recovered<State> {
  const nothing = { checkpoint: null, skipped: [], healed: 0, entriesReplayed: 0, bytesRead: 0, entriesLost: 0 }
  return {
    state: new TimelineState(fold, undefined, guards(kernel, fold)),
    point: { seq: 0, digest: originDigest(kernel.hash, id) },
    lineage: [],
    base: null,
    damaged: [],
    replayMsPerEntry: 0,
    report: { timeline: id, seq: 0, epoch: 0, ...nothing, planMs: 0, restoreMs: 0, replayMs: 0, totalMs: 0 },
  }
}

/** The base of a timeline that this process created, and has not read since. */
const nowhere = { base: null }

function missing(id: TimelineId): RepriseError {
  return noTimeline(id)
}
