// A run of a job in this process: takes free shards, reads the source for them, shares them fairly with other
// processes, takes over the shards of dead processes, and reports. A caller that waits for the result while other
// processes work waits for all processes.

import { type Coordinate, timelineId } from '../../core/coordinate.ts'
import { toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkList, checkOptions, namesOf } from '../../core/options.ts'
import { allotment } from '../../core/retry/rate.ts'
import type { Attribute, Head } from '../../core/store/ports.ts'
import { unlessAborted } from '../../engine/base/abortable-wait.ts'
import { PendingStart } from '../../engine/base/pending-start.ts'
import type { RecoveryReport } from '../../engine/base/recovery-report.ts'
import { whileAwaited } from '../../engine/base/stay-alive.ts'
import { checkStop, type StopOptions } from '../../engine/base/stop-options.ts'
import type { UnderWay } from '../../engine/base/worker.ts'
import { fairShare } from '../../engine/feed/fair-share.ts'
import type { Host, Leaving } from '../../engine/host/host.ts'
import type { Fold } from '../../engine/model/definition.ts'
import { giveBack } from '../../engine/ownership/take-timeline.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { Alarm } from '../../lib/waiting.ts'
import { toFailure } from './entries.ts'
import { ItemRunner } from './item-runner.ts'
import { applyMail, discardLetters, readLetters, redriveLetters } from './letters.ts'
import type { ResolvedJob } from './options.ts'
import type { JobEvent, JobProgress, JobReport } from './progress.ts'
import { finishShard, leaveShard } from './round-end.ts'
import { beginShard, isUnused, wasLeft } from './round-start.ts'
import { checkShards, deadOf, isFinished, roundOf, timelinesOf } from './rounds.ts'
import { RunWatchers } from './run-watchers.ts'
import { Shard } from './shard.ts'
import { Pass } from './source-pass.ts'
import type { DeadLetter, JobState } from './state.ts'
import type { Task } from './task.ts'
import { JobTrace } from './trace.ts'

export interface RunStart {
  /** The kind that tools show. Default: 'job'. */
  readonly kind?: 'job' | 'consumer'
  readonly input?: unknown
  /** Timelines that the dispatcher claimed for this run. */
  readonly claimed?: readonly Head[]
  readonly attributes?: Readonly<Record<string, Attribute>>
}

const lookEveryMs = 300
const knownResult = namesOf<{ readonly signal?: AbortSignal }>()('signal')
/** A process that loses a part of the rate limit learns of it within this time, which covers three checks. */
const hearsWithinMs = 1000

export interface RedriveOptions {
  /** New items in place of the stored ones, by key. */
  readonly edits?: Readonly<Record<string, unknown>>
}

const knownRedrive = namesOf<RedriveOptions>()('edits')

export class JobRun<T = unknown> {
  readonly name: string
  /** The job's name: a job has one run at a time. */
  readonly id: string
  /** The timelines of the job, one per shard. */
  readonly timelines: readonly string[]
  readonly #engine: Host
  readonly #job: ResolvedJob<T>
  readonly #fold: Fold<JobState>
  readonly #items: ItemRunner<T>
  readonly #shards = new Map<number, Shard<Task<T>>>()
  readonly #passes = new Map<Pass<T>, Promise<void>>()
  /** Passes over a queue whose source is still open, for the acknowledgements of items in flight. */
  readonly #acknowledging = new Set<Pass<T>>()
  readonly #watchers: RunWatchers
  readonly #trace: JobTrace<T>
  readonly #alarm: Alarm
  readonly #recoveries: RecoveryReport[] = []
  readonly #startedAt: number
  readonly #input: unknown
  readonly #attributes: Readonly<Record<string, Attribute>>
  readonly #result: Promise<JobReport>
  #claimed: Head[] = []
  #round = 0
  #resumedFrom: Coordinate | null = null
  /** A person stopped the job, rather than the end of this process. */
  #isHeld = false
  readonly #beginning = new PendingStart()
  #status: JobProgress['status'] = 'starting'
  #fatal: unknown = null
  /** The number of done items when a success was last recorded. */
  #noted = 0
  #stopping: Promise<void> | null = null
  #cutOff = 0
  #lastTotal: number | null = null
  /** No other process can have used the rate limit in the previous window. */
  #isFresh = true
  #endedMs: number | null = null

  /** @internal */
  constructor(engine: Host, name: string, job: ResolvedJob<T>, fold: Fold<JobState>, options: RunStart = {}) {
    this.name = name
    this.id = name
    this.#engine = engine
    this.#job = job
    this.#fold = fold
    this.#input = options.input
    this.#attributes = options.attributes ?? {}
    this.#claimed = [...(options.claimed ?? [])]
    this.timelines = timelinesOf(name, job.shards)
    this.#startedAt = engine.clock.elapsed()
    this.#trace = new JobTrace(engine.kernel, options.kind ?? 'job', name, options.claimed === undefined)
    this.#watchers = new RunWatchers(engine.clock, () => this.status())
    this.#alarm = new Alarm(engine.clock)
    this.#items = new ItemRunner(engine, job, {
      onChange: () => {
        this.#noteSuccess()
        this.#watchers.changed()
      },
      onFailure: (task, error, next) =>
        this.#watchers.announce({
          type: 'failure',
          key: task.key,
          attempt: task.attempts,
          error: toFailure(error),
          next,
        }),
      onSourceFailure: (error, attempt, next) => {
        void this.#noteFailure(error)
        this.#watchers.announce({ type: 'source-failure', attempt, error: toFailure(error), next })
        this.#trace.note('reprise.source-failure', { 'reprise.because': toFailure(error).message })
      },
      onFatal: (error) => this.#fail(error),
    })
    this.#result = this.#drive()
    this.#result.catch(() => undefined)
  }

  /** Resolves when all items of the round are settled, or the run was stopped. `signal` ends the wait, not the run. */
  async result(options: { readonly signal?: AbortSignal } = {}): Promise<JobReport> {
    checkOptions('result', options, knownResult)
    const ended = unlessAborted(this.#result, options.signal, `waiting for job ${this.name}`)
    return await whileAwaited(ended, this.#engine.clock)
  }

  /** Resolves when the run owns a timeline and has begun; rejects if it failed before that. */
  async started(options: { readonly signal?: AbortSignal } = {}): Promise<this> {
    checkOptions('started', options, knownResult)
    await this.#beginning.wait(this.#result, options.signal, `job ${this.name}`)
    return this
  }

  /** The progress of this process. */
  status(): JobProgress {
    const { counts } = this.#items
    const passes = [...this.#passes.keys()]
    const first = passes[0]
    const paused = this.#items.breaker?.openUntil ?? null
    return {
      name: this.name,
      status: paused !== null && this.#status === 'running' ? 'paused' : this.#status,
      ...counts,
      inFlight: this.#items.inFlight,
      waiting: this.#items.waiting,
      read: passes.reduce((most, pass) => Math.max(most, pass.read), counts.done + counts.skipped + counts.failed),
      total: first ? first.total : this.#lastTotal,
      fraction: first ? first.fraction : null,
      elapsedMs: this.#endedMs ?? this.#engine.clock.elapsed() - this.#startedAt,
      resumedFrom: this.#resumedFrom,
      pausedBecause: [...this.#shards.values()].find((shard) => shard.state.pausedBecause)?.state.pausedBecause ?? null,
    }
  }

  /** @example run.watch((event) => event.type === 'failure' && console.error(event.key, event.error.message)) */
  watch(listener: (event: JobEvent) => void): () => void {
    return this.#watchers.watch(listener)
  }

  /**
   * Finishes the items in flight within `timeout` (default: `grace` of the job), checkpoints, and releases the shards. The next
   * run resumes from there.
   */
  async stop(options: StopOptions = {}): Promise<JobReport> {
    checkStop(options)
    const { reason = 'stop requested', timeout, signal } = options
    this.#stopping ??= this.#stop(reason, false, timeout === undefined ? undefined : toMs(timeout, 'timeout'))
    const stopped = this.#stopping.then(() => this.#result)
    return await unlessAborted(stopped, signal, `waiting for job ${this.name} to stop`)
  }

  /** The dead letters of all its timelines: items that could not be processed, with their last error. */
  async deadLetters(): Promise<readonly DeadLetter[]> {
    const found: DeadLetter[] = []
    for (const timeline of this.timelines) {
      if (await this.#engine.head(timeline)) found.push(...(await readLetters(this.#engine, timeline)))
    }
    return found
  }

  /**
   * Processes dead letters again, with a new set of attempts. Default for `keys`: all. Returns their number. A run that has ended
   * processes them when it is restarted.
   */
  async redrive(keys?: readonly string[], options: RedriveOptions = {}): Promise<number> {
    checkOptions('redrive', options, knownRedrive)
    const { edits = {} } = options
    return await this.#each(keys, (timeline, own) => redriveLetters(this.#engine, timeline, own, edits))
  }

  /** Discards dead letters: their items count as finished. Default for `keys`: all. Returns their number. */
  async discard(keys?: readonly string[]): Promise<number> {
    return await this.#each(keys, (timeline, own) => discardLetters(this.#engine, timeline, own))
  }

  async #each(
    keys: readonly string[] | undefined,
    call: (timeline: string, keys: readonly string[]) => Promise<void>,
  ): Promise<number> {
    if (keys !== undefined) checkList('the keys of dead letters', keys)
    let count = 0
    for (const timeline of this.timelines) {
      if (!(await this.#engine.head(timeline))) continue
      const held = (await readLetters(this.#engine, timeline)).map(({ key }) => key)
      const own = keys ? held.filter((key) => keys.includes(key)) : held
      if (own.length > 0) await call(timeline, own)
      count += own.length
    }
    if (count > 0 || !keys?.length) return count
    throw new RepriseError('NOT_FOUND', `no dead letter ${keys.join(', ')} in job ${this.name}`, { missing: keys })
  }

  async #drive(): Promise<JobReport> {
    // The engine's timers do not keep the process alive, but a job in progress must.
    const letEnd = this.#engine.clock.stayAlive?.()
    const offWatch = this.#engine.worker.watch(() => this.#underWay())
    const offClose = this.#engine.onClose(async () => {
      await this.stop({ reason: 'the engine was closed' }).catch(() => undefined)
    })
    const offHandOver = this.#engine.onHandOver((graceMs) => this.#leave(graceMs))
    try {
      this.#engine.worker.describe(`job ${this.name}`, this.#job.shards)
      // Registers before this process owns a shard, so that the owners of the shards can hand some over.
      if (this.#job.shards > 1) await this.#engine.worker.register()
      await checkShards(this.#engine, this.name, this.#job.shards)
      await this.#takeClaimed()
      const isOver = () => this.#stopping !== null || this.#fatal !== null
      while (!(await this.#engine.patiently(() => this.#look(), isOver))) await this.#alarm.nap(lookEveryMs)
      if (this.#stopping) await this.#stopping
      // A shard that was taken after the stop had begun.
      if (this.#stopping && this.#shards.size > 0) await this.#stop('a stop was requested')
      await Promise.all(this.#passes.values())
      if (this.#fatal) throw this.#fatal
      const report = this.#report(this.#stopping ? 'stopped' : 'completed', await deadOf(this.#engine, this.timelines))
      for (const timeline of this.timelines) this.#engine.failures.succeeded(timeline)
      this.#end(report, null)
      return report
    } catch (error) {
      await this.#noteFailure(error)
      await this.#stop('it failed', true).catch(() => undefined)
      this.#end(null, error)
      throw error
    } finally {
      // A process that no longer works on the job must not count in the fair share.
      this.#engine.worker.describe(`job ${this.name}`, null)
      letEnd?.()
      offWatch()
      offClose()
      offHandOver()
    }
  }

  /** Stops for the next process. A consumer at the end of the feed has nothing to hand over. */
  async #leave(graceMs: number): Promise<Leaving[]> {
    const isIdle = this.#job.cursorName !== null && this.#items.inFlight === 0 && this.#items.waiting === 0
    const begun = [...this.#underWay()].filter(({ what }) => what.startsWith('item '))
    const held = [...this.#shards.values()].map(({ open }) => open.id)
    const report = await this.stop({ reason: 'the time budget of this process is used up', timeout: graceMs })
    if (report.status === 'completed') return []
    const cut = report.cutOff > 0 ? begun : []
    return held.map((timeline) => {
      return { timeline, inFlight: cut.filter((each) => each.timeline === timeline).map(({ what }) => what), isIdle }
    })
  }

  /** Items in flight, and a pending read of the source. An open breaker pauses items on purpose. */
  *#underWay(): Generator<UnderWay> {
    if (this.#items.breaker?.openUntil) return
    for (const shard of this.#shards.values()) {
      const timeline = shard.open.id
      for (const { key, startedAt } of shard.inFlight.all()) {
        if (startedAt !== null) yield { timeline, what: `item ${key}`, since: startedAt, limitMs: this.#job.timeoutMs }
      }
    }
    for (const { readingSince, shards } of this.#passes.keys()) {
      const timeline = shards[0]?.open.id
      if (readingSince !== null && timeline) yield { timeline, what: 'reading the source', since: readingSince }
    }
  }

  #end(report: JobReport | null, error: unknown): void {
    this.#endedMs = this.#engine.clock.elapsed() - this.#startedAt
    this.#status = report?.status ?? 'stopped'
    this.#trace.left(report?.status ?? 'failed', report ? undefined : (error ?? 'failed'))
    this.#watchers.announce({ type: 'ended', progress: this.status(), report, error })
  }

  #report(status: JobReport['status'], dead: number): JobReport {
    const { done, skipped, failed, retried } = this.#items.counts
    return {
      status,
      done,
      skipped,
      failed,
      dead,
      retried,
      elapsedMs: this.#engine.clock.elapsed() - this.#startedAt,
      resumedFrom: this.#resumedFrom,
      recoveries: this.#recoveries,
      cutOff: this.#cutOff,
      round: this.#round,
    }
  }

  /** Returns true when nothing is left to do. */
  async #look(): Promise<boolean> {
    if (this.#fatal) throw this.#fatal
    if (this.#stopping) return true
    const heads = await this.#engine.heads(this.timelines.map((id) => timelineId(id)))
    this.#round ||= roundOf(heads)
    const open = heads.flatMap((head, index) => (isFinished(head, this.#round) ? [] : [index]))
    if (open.length === 0) return true
    const fair = await this.#fairShare()
    const taken: Shard<Task<T>>[] = []
    for (const index of open) {
      if (this.#shards.has(index) || this.#shards.size >= fair) continue
      const head = heads[index]
      if (head && !(await isFree(this.#engine, head))) continue
      const shard = await this.#take(index)
      if (shard) taken.push(shard)
    }
    this.#divideLimit(open)
    if (taken.length > 0) this.#startPass(taken)
    await this.#readMail(heads)
    if (this.#handOver(fair)) this.#divideLimit(open)
    if (this.#shards.size === 0) this.#status = 'waiting'
    // Reports progress even if no item ends: an item may take an hour, and users expect to see activity.
    if (this.#items.inFlight > 0) this.#watchers.changed()
    return this.#stopping !== null
  }

  /** Divides the rate limit among the unfinished shards; this process may use the parts of the shards it owns. */
  #divideLimit(unfinished: readonly number[]): void {
    const { limiter } = this.#items
    if (!limiter) return
    const { max } = this.#job.rate!
    let count = 0
    unfinished.forEach((index, rank) => {
      const shard = this.#shards.get(index)
      if (shard && !shard.isLeaving) count += allotment(max, rank, unfinished.length)
    })
    const usedAt = this.#engine.clock.elapsed() + (this.#job.shards > 1 ? hearsWithinMs : 0)
    limiter.allow(count, this.#isFresh ? null : usedAt)
    this.#isFresh = false
  }

  async #readMail(heads: readonly (Head | null)[]): Promise<void> {
    for (const [index, shard] of this.#shards) {
      if ((heads[index]?.mail ?? 0) === 0 || shard.lost) continue
      await applyMail(this.#engine, shard.open, (reason) => {
        this.#isHeld = true
        void this.stop({ reason }).catch(() => undefined)
      })
      if (shard.state.redrive.size === 0) continue
      for (const pass of this.#passes.keys()) if (pass.shards.includes(shard)) pass.lettersChanged()
    }
  }

  async #fairShare(): Promise<number> {
    const { shards } = this.#job
    return shards === 1 ? 1 : await fairShare(this.#engine.kernel, `job ${this.name}`, shards)
  }

  /** Other processes have joined: hands over the shards above this process's fair share, one at a time. */
  #handOver(fair: number): boolean {
    const held = [...this.#shards.values()]
    const last = held[held.length - 1]
    if (held.length <= fair || this.#stopping || !last || held.some((shard) => shard.isLeaving)) return false
    last.isLeaving = true
    this.#drainAndRelease(last).catch((error) => this.#fail(error))
    return true
  }

  async #drainAndRelease(shard: Shard<Task<T>>): Promise<void> {
    await this.#items.leave(shard)
    if (shard.lost || this.#stopping) return
    await this.#items.settle(shard)
    await this.#release(shard, 'handed over to another process')
  }

  async #takeClaimed(): Promise<void> {
    if (this.#claimed.length === 0) return
    const heads = await this.#engine.heads(this.timelines.map((id) => timelineId(id)))
    this.#round = roundOf(heads)
    const taken: Shard<Task<T>>[] = []
    for (const head of this.#claimed) {
      const index = this.timelines.indexOf(head.timeline)
      taken.push(await this.#begin(index, await this.#engine.adopt(head, this.#fold)))
    }
    this.#divideLimit(this.timelines.map((_, index) => index))
    this.#startPass(taken)
  }

  async #take(index: number): Promise<Shard<Task<T>> | null> {
    const id = timelineId(this.timelines[index]!)
    try {
      return await this.#begin(index, await this.#engine.openTimeline(id, this.#fold))
    } catch (error) {
      // Another process took it first.
      if (isReprise(error, 'OWNED', 'FENCED')) return null
      throw error
    }
  }

  async #begin(index: number, open: OpenTimeline<JobState>): Promise<Shard<Task<T>>> {
    const { kernel } = this.#engine
    const { state } = open
    if (wasLeft(state)) this.#resumedFrom ??= open.coordinate
    this.#recoveries.push(open.recovery)
    this.#beginning.begun()
    const shard: Shard<Task<T>> = new Shard(kernel, open, index, this.#job, () => {
      this.#shards.delete(index)
      this.#items.lost(shard)
      // Its messages go to the next owner.
      for (const pass of this.#acknowledging) pass.cancel(new RepriseError('FENCED', 'another process owns the job'))
      this.#alarm.ring()
    })
    // The last owner recorded no stop, so its process died, possibly because of an item in flight.
    if (state.status === 'running') shard.careful = 2 * this.#job.concurrency * this.#job.batchSize
    this.#isFresh &&= isUnused(state, kernel.worker.now(open.id) - (this.#job.rate?.perMs ?? 0))
    await beginShard(this.#engine, open, this.#job, {
      name: this.name,
      index,
      round: Math.max(this.#round, 1),
      input: this.#input,
      attributes: this.#attributes,
      kept: this.#trace.begin(open),
    })
    this.#items.spans = this.#trace.attempts
    this.#shards.set(index, shard)
    return shard
  }

  #startPass(shards: readonly Shard<Task<T>>[]): void {
    if (this.#status !== 'stopping') this.#status = 'running'
    const pass = new Pass(this.#engine, this.#job, shards, this.#items)
    if (this.#job.source.acknowledges) this.#acknowledging.add(pass)
    const over = this.#runPass(pass)
      .catch((error) => this.#fail(error))
      .finally(() => {
        this.#lastTotal = pass.total
        this.#passes.delete(pass)
        this.#alarm.ring()
      })
    this.#passes.set(pass, over)
    this.#watchers.announce({ type: 'started', progress: this.status() })
  }

  async #runPass(pass: Pass<T>): Promise<void> {
    const isAll = await pass.run()
    this.#items.flushBatch()
    if (!isAll && this.#stopping) return
    for (const shard of pass.shards) {
      if (shard.isLeaving) continue
      await this.#items.drained(shard)
      // A person may have redriven letters during the pass.
      while (isAll && !this.#stopping && !shard.lost && (await pass.redrive())) await this.#items.drained(shard)
      if (shard.lost || shard.isLeaving || this.#stopping || !isAll) continue
      await this.#items.settle(shard)
      if (!shard.isLeaving) await this.#finish(shard)
    }
  }

  async #finish(shard: Shard<Task<T>>): Promise<void> {
    await finishShard(this.#engine.kernel, shard, this.#items.counts.skipped, this.#job.source.goesOn ?? false)
    this.#shards.delete(shard.index)
    await shard.open.close()
  }

  async #release(shard: Shard<Task<T>>, because: string, hasFailed = false): Promise<void> {
    await leaveShard(this.#engine.kernel, shard, because, { hasFailed, isHeld: this.#isHeld })
    this.#shards.delete(shard.index)
    await shard.open.close()
  }

  async #stop(because: string, hasFailed = false, graceMs = this.#job.graceMs): Promise<void> {
    this.#status = 'stopping'
    const shards = [...this.#shards.values()]
    for (const pass of this.#passes.keys()) pass.cancel(new RepriseError('ABORTED', because))
    this.#cutOff += await this.#items.stop(shards, graceMs)
    const failures: unknown[] = []
    for (const shard of shards) {
      if (shard.lost) continue
      try {
        await this.#items.settle(shard)
        await shard.recordCutOff(new RepriseError('ABORTED', because))
        // The next owner of the shard immediately receives the messages that this process gives up.
        await this.#endQueues()
        await this.#release(shard, because, hasFailed)
      } catch (error) {
        if (shard.lost) continue
        // The store may be full. A timeline that stays open would keep the next run of this process out.
        failures.push(error)
        await shard.abandon(error)
      }
    }
    await this.#endQueues()
    this.#alarm.ring()
    if (failures.length > 0) throw failures[0]
  }

  async #endQueues(): Promise<void> {
    for (const pass of this.#acknowledging) {
      await pass.end().catch((error) => this.#engine.events.emit('problem', { where: `job ${this.name}`, error }))
      this.#acknowledging.delete(pass)
    }
  }

  /** Records the failure with the shards of this process, or with the first shard if it has none yet. */
  async #noteFailure(error: unknown): Promise<void> {
    const held = [...this.#shards.values()].map(({ open }) => open.id as string)
    const noted = held.length > 0 ? held : this.timelines.slice(0, 1)
    await Promise.all(noted.map((timeline) => this.#engine.failures.failed(timeline, error)))
  }

  /** An item is done, so earlier failures are cleared, unless the job is ending with an error. */
  #noteSuccess(): void {
    const { done } = this.#items.counts
    if (done === this.#noted || this.#fatal) return
    this.#noted = done
    for (const { open } of this.#shards.values()) this.#engine.failures.succeeded(open.id)
  }

  #fail(error: unknown): void {
    // A thrown null or undefined is a failure too.
    this.#fatal ??= error ?? new Error(`the job failed with ${String(error)}`)
    this.#alarm.ring()
  }
}

// Whether a shard can be taken: it has no owner, its owner is gone, or its owner is this process, which lost it when
// the store did not answer a commit. Such a shard is released here: no other process can release it while this one
// lives.

/** @example if (head && !(await isFree(engine, head))) continue */
async function isFree(engine: Host, head: Head): Promise<boolean> {
  const { owner, isOwnerAlive, timeline } = head
  if (!owner || !isOwnerAlive) return true
  const { kernel } = engine
  // The next check finds the shard free if the release succeeded.
  if (owner === kernel.worker.id && !engine.holds(timeline)) await giveBack(kernel, head)
  return (await kernel.deadWorkers.retireGone()).includes(owner)
}
