// A replica: loads the newest checkpoint, follows history without owning it, and can take over (A9.4). It never writes.

import type { Coordinate } from '../../core/coordinate.ts'
import { equalBytes, toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { lastSeq } from '../../core/history/entry-run.ts'
import type { Head } from '../../core/store/ports.ts'
import { checkFunction } from '../../core/synchronous.ts'
import { SharedRead } from '../../lib/waiting.ts'
import { warnOnReject } from '../../lib/warn-on-reject.ts'
import type { RecoveryReport } from '../base/recovery-report.ts'
import { isSameBranch } from '../history/erasures.ts'
import { type Entry, entriesOf, lineageOf, type Point, readHistory } from '../history/history.ts'
import { existing } from '../history/locate.ts'
import { type Recovered, rebuild, recover } from '../history/recover.ts'
import type { TimelineState } from '../history/state.ts'
import type { Fold, OpenOptions } from '../model/definition.ts'
import { takeTimeline } from '../ownership/take-timeline.ts'
import type { Kernel } from '../storage/kernel.ts'
import type { Origin } from '../storage/store-identity.ts'
import { whereabouts } from './feed-marks.ts'
import { pollEvery } from './wake-up.ts'

export interface FollowOptions {
  /** The maximum time between two polls if the store cannot notify. Default: 1s. */
  readonly pollMs?: number
  /** Reads only when `refresh` is called: no polling, no listening. */
  readonly isPassive?: boolean
  /** Reads all pages at once, including those that a paged fold would leave unread. */
  readonly isWhole?: boolean
  readonly signal?: AbortSignal
}

export class Replica<State, Handle = unknown> {
  readonly recovery: RecoveryReport
  readonly #kernel: Kernel
  readonly #fold: Fold<State>
  readonly #promote: (head: Head, recovered: Recovered<State>) => Promise<Handle>
  readonly #isPaged: boolean
  readonly #watchers = new Set<(entries: readonly Entry[]) => void>()
  #head: Head
  #state: TimelineState<State>
  #point: Point
  /** The checkpoint from which its state was restored: the first checkpoint after a takeover need only add to it. */
  #base: Recovered<State>['base']
  readonly #reads = new SharedRead(() => this.#catchUp())
  #stopLooking: readonly (() => void)[] = []
  #isClosed = false

  /** @internal */
  constructor(
    kernel: Kernel,
    fold: Fold<State>,
    start: {
      readonly head: Head
      readonly state: TimelineState<State>
      readonly point: Point
      readonly base: Recovered<State>['base']
      readonly report: RecoveryReport
    },
    promote: (head: Head, recovered: Recovered<State>) => Promise<Handle>,
    options: FollowOptions,
  ) {
    this.#promote = promote
    this.#kernel = kernel
    this.#fold = fold
    this.#head = start.head
    this.#state = start.state
    this.#point = start.point
    this.#base = start.base
    this.recovery = start.report
    this.#isPaged = !options.isWhole
    const poll = () => this.#refreshQuietly()
    if (!options.isPassive) {
      this.#stopLooking = [
        kernel.store.listen(() => void poll()),
        pollEvery(kernel.clock, options.pollMs ?? 1000, poll),
      ]
    }
    options.signal?.addEventListener('abort', () => this.close(), { once: true })
  }

  get state(): State {
    return this.#state.value
  }

  get timeline(): string {
    return this.#head.timeline
  }

  /** @internal Changes with another life and with each rollback of the timeline. */
  get origin(): Origin {
    return this.#kernel.identity.origin(this.#head)
  }

  get coordinate(): Coordinate {
    return {
      timeline: this.#head.timeline,
      seq: this.#point.seq,
      epoch: this.#head.epoch,
      digest: toHex(this.#point.digest),
    }
  }

  watch(call: (entries: readonly Entry[]) => void): () => void {
    checkFunction(call, 'watch()')
    this.#watchers.add(call)
    return () => this.#watchers.delete(call)
  }

  /** Reads new entries. Resolves when the state has caught up with the head as of this call. */
  refresh(): Promise<void> {
    if (this.#isClosed) return Promise.reject(new RepriseError('CLOSED', 'the replica was closed'))
    return this.#reads.run()
  }

  /**
   * Becomes the owner with its current state: takes a new epoch, reads the last entries, and returns a handle. Nothing is
   * restored, so the takeover is as fast as the replica is close.
   */
  async takeOver(options: OpenOptions = {}): Promise<Handle> {
    if (this.#isClosed) throw new RepriseError('CLOSED', 'the replica was closed')
    const started = this.#kernel.clock.elapsed()
    const head = await takeTimeline(this.#kernel, this.#head.timeline, { ...options, mustExist: true })
    const before = this.#point.seq
    await this.refresh()
    this.close()
    const ms = this.#kernel.clock.elapsed() - started
    const report = {
      ...this.recovery,
      seq: head.seq,
      epoch: head.epoch,
      entriesReplayed: Math.max(0, this.#point.seq - before),
      totalMs: ms,
    }
    return await this.#promote(head, {
      state: this.#state,
      point: this.#point,
      lineage: await lineageOf(this.#kernel, head),
      base: this.#base,
      damaged: [],
      report,
      replayMsPerEntry: 0,
    })
  }

  close(): void {
    this.#isClosed = true
    for (const stop of this.#stopLooking) stop()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
  }

  async #catchUp(): Promise<void> {
    const head = await existing(this.#kernel, this.#head.timeline)
    const lineage = await lineageOf(this.#kernel, head)
    if (head.floor > this.#point.seq || !isSameBranch(this.#head, head) || (await this.#isElsewhere(head))) {
      // The timeline was rolled back, entries were erased, history was trimmed past this replica, or the store went back to an
      // older copy: start again from the newest checkpoint.
      const recovered = await recover(this.#kernel, head, this.#fold, { isPaged: this.#isPaged })
      this.#head = head
      this.#state = recovered.state
      this.#point = recovered.point
      this.#base = recovered.base
      for (const call of this.#watchers) warnOnReject(call([]), 'watch()')
      return
    }
    const history = readHistory(this.#kernel, lineage, this.#point, head.seq)
    for (let step = await history.next(); !step.done; step = await history.next()) {
      const entries = entriesOf(this.#kernel, step.value)
      await this.#state.fetch(entries)
      // After a takeover the state belongs to the new owner, which adds its own entries.
      if (this.#isClosed) return
      try {
        this.#state.replay(entries)
      } catch (error) {
        if (this.#state.isTorn) this.#state = await rebuild(this.#kernel, this.#head.timeline, this.#fold, this.#point)
        throw error
      }
      this.#point = { seq: lastSeq(step.value.run), digest: step.value.run.digest }
      for (const call of this.#watchers) warnOnReject(call(entries), 'watch()')
    }
    this.#head = head
  }

  /** True: the existing history does not contain the point that was read. */
  async #isElsewhere(head: Head): Promise<boolean> {
    const { seq, digest } = this.#point
    if (head.seq < seq) return true
    if (head.seq === seq) return !equalBytes(head.digest, digest)
    return (await whereabouts(this.#kernel, head.timeline, this.#point)) === 'gone'
  }

  async #refreshQuietly(): Promise<void> {
    if (this.#isClosed) return
    try {
      await this.refresh()
    } catch (error) {
      if (!this.#isClosed) this.#kernel.events.emit('problem', { where: `replica of ${this.#head.timeline}`, error })
    }
  }
}

export async function follow<State, Handle>(
  kernel: Kernel,
  head: Head,
  fold: Fold<State>,
  promote: (head: Head, recovered: Recovered<State>) => Promise<Handle>,
  options: FollowOptions,
): Promise<Replica<State, Handle>> {
  const { state, point, base, report } = await recover(kernel, head, fold, { isPaged: !options.isWhole })
  return new Replica(kernel, fold, { head, state, point, base, report }, promote, options)
}
