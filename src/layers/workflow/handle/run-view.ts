// A read-only view of a run from any process: its head, state, waits and end. It owns nothing; it reads the store, or
// the instance if the run is in this process's memory.

import { timelineId } from '../../../core/coordinate.ts'
import { type Duration, toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import { isHeadLost } from '../../../core/history/lost-head.ts'
import { checkOptions, checkValues, namesOf } from '../../../core/options.ts'
import type { Head } from '../../../core/store/ports.ts'
import type { Yielder } from '../../../engine/base/yielder.ts'
import { lastEntry } from '../../../engine/history/history.ts'
import type { Host } from '../../../engine/host/host.ts'
import { madeAgain } from '../../../engine/ownership/lost-head.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import { refuseNotHere } from '../../../engine/storage/moved-mark.ts'
import type { OpenTimeline } from '../../../engine/writing/timeline.ts'
import { onAbort } from '../../../lib/waiting.ts'
import type { Queries } from '../commands/queries.ts'
import type { AnyWorkflow } from '../context.ts'
import type { End } from '../history/entries.ts'
import { workflowFold } from '../history/fold.ts'
import { statusNow } from '../history/journal-rows.ts'
import { endOf, type RunState } from '../history/state.ts'
import { notedWaits, summarizeWorkflow, type Wait, waitsOf } from '../history/summary.ts'
import { endings } from '../names.ts'
import type { Execution } from '../run/execution.ts'
import type { Replayed } from '../tools/replay.ts'
import type { ResultPoller } from './result-poller.ts'

/** A run in this process's memory, as its handles see it. */
export interface RunInMemory {
  readonly state: RunState
  readonly open: { readonly life: number }
  readonly code: {
    /** Undefined until the code has begun. */
    readonly execution: Pick<Execution, 'open'> | undefined
    readonly queries: Queries
    readonly replayed: Promise<void>
  }
  readonly tenure: { readonly isLeaving: boolean; readonly left: Promise<unknown> }
}

/** The parts of the process's workflow host that handles use. */
export interface RunHost {
  readonly engine: Host
  readonly kernel: Kernel
  readonly looks: ResultPoller
  /** Yields to the event loop: thousands of callers may wait for results from a store that answers immediately. */
  readonly yielder: Yielder
  instance(timeline: string): RunInMemory | undefined
  /** True if the run is in this process's memory and only waits. */
  isAsleep(timeline: string): boolean
  replay(definition: AnyWorkflow, timeline: string, state: RunState): Promise<Replayed>
  /** Opens a run without an owner, so that another process can change it. */
  take(timeline: string): Promise<OpenTimeline<RunState>>
  /** With `life`: only this life of the run receives the message. */
  send(timeline: string, kind: string, data: unknown, id?: string, life?: number): Promise<string>
  /** Calls `call` when the run leaves this process's memory. */
  watch(timeline: string, call: () => void): () => void
  notify(timeline: string): void
}

export interface RunStatus {
  readonly id: string
  readonly workflow: string
  /**
   * waiting, running, held, compensating, stuck, diverged, quarantined; completed, failed, cancelled,
   * terminated.
   */
  readonly status: string
  readonly isEnded: boolean
  readonly wakeup: number | null
  readonly attributes: Head['attributes']
  readonly createdAt: number
  readonly updatedAt: number
}

export interface ResultOptions {
  readonly timeout?: Duration
  readonly signal?: AbortSignal
  /**
   * Policy for a run that is held or stuck in a compensation: reject with HELD, or keep waiting for a person. Default:
   * 'reject'.
   */
  readonly whenHeld?: 'reject' | 'wait'
}

const known = namesOf<ResultOptions>()('timeout signal whenHeld')

const halted: ReadonlySet<string> = new Set(['diverged', 'quarantined'])

/** Statuses that only a person can end. */
const held: ReadonlySet<string> = new Set(['held', 'stuck'])

/** Poll interval for a run that is not in this process's memory. */
export const pollMs = 250

export class RunView {
  readonly id: string
  readonly timeline: string
  readonly definition: AnyWorkflow
  readonly host: RunHost
  /** The life of the run's id that this view shows. Null until the run was found. */
  life: number | null

  constructor(host: RunHost, definition: AnyWorkflow, id: string, life: number | null = null) {
    this.host = host
    this.life = life
    this.definition = definition
    this.id = id
    this.timeline = definition.prefix + id
  }

  /** The run, if it is in this process's memory. */
  get live(): RunInMemory | undefined {
    const found = this.host.instance(this.timeline)
    return this.life === null || found?.open.life === this.life ? found : undefined
  }

  /** Throws NOT_FOUND if a later run has the id. */
  meet({ life }: Pick<Head, 'life'>): void {
    this.life ??= life
    if (this.life !== life) throw this.forgotten()
  }

  forgotten(): RepriseError {
    const what = `${this.timeline} has expired or was deleted: a later run with the same id is a different run`
    return new RepriseError('NOT_FOUND', what, { run: this.id })
  }

  async head(): Promise<Head> {
    const head = await this.host.engine.head(this.timeline)
    if (!head) throw this.#notFound()
    this.meet(head)
    return isHeadLost(head) ? await madeAgain(this.host.kernel, head) : head
  }

  /** The current state from history; ownership does not change. */
  async state(): Promise<RunState> {
    const { live } = this
    if (live) return live.state
    if (this.host.yielder.isDue) await this.host.yielder.take()
    return (await this.host.engine.recover(await this.head(), workflowFold)).state.value
  }

  async status(): Promise<RunStatus> {
    const head = await this.head()
    const { status, wakeup, attributes, createdAt, updatedAt } = head
    const isAsleep = status === 'running' && this.host.isAsleep(this.timeline)
    return {
      id: this.id,
      workflow: this.definition.name,
      status: isAsleep ? 'waiting' : statusNow(head),
      isEnded: endings.has(status),
      wakeup,
      attributes,
      createdAt,
      updatedAt,
    }
  }

  async waits(): Promise<readonly Wait[]> {
    const { live } = this
    if (!live) return summarizeWorkflow(await this.state()).waits
    await Promise.race([live.code.replayed, live.tenure.left])
    return live.state.end ? [] : waitsOf(live.state, notedWaits(live.code.execution?.open ?? []))
  }

  conflict(why: string, status: string): RepriseError {
    return new RepriseError('CONFLICT', `${this.timeline} is ${status}: ${why}`, {
      run: this.id,
      timeline: this.timeline,
      status,
    })
  }

  /** The error for a request to an ended run; it names how the run ended. */
  async endedError(more = ''): Promise<RepriseError> {
    const [{ status }, { end }] = await Promise.all([this.head(), this.state()])
    return endedError(this, end, status, more)
  }

  /**
   * Reads the end from the last entry. Returns null if that entry is not enough, or the history is damaged: then the
   * whole history must be read.
   */
  async #lastWord(head: Head): Promise<End | null> {
    if (this.host.yielder.isDue) await this.host.yielder.take()
    const last = await lastEntry(this.host.kernel, head).catch(() => null)
    return last && endOf(last)
  }

  /** Resolves when the run has ended, in any process. */
  async ended(options: ResultOptions): Promise<End> {
    checkOptions('result', options, known)
    checkValues('result', options, { whenHeld: ['reject', 'wait'] })
    const { clock } = this.host.engine
    const until =
      options.timeout === undefined ? Number.POSITIVE_INFINITY : clock.elapsed() + toMs(options.timeout, 'timeout')
    let seen: Head | undefined
    for (;;) {
      if (options.signal?.aborted)
        throw new RepriseError('ABORTED', 'aborted while waiting for a result', {}, options.signal.reason)
      if (!seen && this.host.yielder.isDue) await this.host.yielder.take()
      const { live } = this
      const leftMs = until - clock.elapsed()
      const changed = this.changed(leftMs, options.signal, !live)
      if (live) {
        await changed
        if (live.state.end) return live.state.end
      }
      const isLate = clock.elapsed() >= until
      const head = seen ?? (await this.host.engine.heads([timelineId(this.timeline)]))[0]
      if (!head) throw this.#notFound()
      refuseNotHere(head)
      this.meet(head)
      if (isHeadLost(head)) await madeAgain(this.host.kernel, head)
      if (endings.has(head.status)) {
        const end = (await this.#lastWord(head)) ?? (await this.state()).end
        if (end) return end
      }
      if (halted.has(head.status)) throw haltedError(head)
      // With unread mail, a person may have settled it already.
      if (held.has(head.status) && head.mail === 0 && options.whenHeld !== 'wait') throw await this.#heldError(head)
      if (isLate) throw new RepriseError('TIMEOUT', `${this.timeline} has not ended yet`, { run: this.id })
      seen = live ? undefined : await changed
    }
  }

  /**
   * Resolves when the run may have changed: it left this process's memory, the time has passed, or the shared poller
   * read its head (which is then returned).
   */
  changed(ms: number, signal?: AbortSignal, isLookedAt = false): Promise<Head | undefined> {
    return new Promise((resolve) => {
      const done = (head?: Head) => {
        unwatch()
        unlook?.()
        cancel?.()
        forget?.()
        resolve(head)
      }
      const stop = () => done()
      const unwatch = this.host.watch(this.timeline, stop)
      const unlook = isLookedAt ? this.host.looks.next(timelineId(this.timeline), done) : undefined
      const cancel = Number.isFinite(ms) ? this.host.engine.clock.after(Math.max(0, ms), stop) : undefined
      const forget = signal && onAbort(signal, stop)
    })
  }

  #notFound(): RepriseError {
    return new RepriseError('NOT_FOUND', `there is no run ${this.timeline}`, { run: this.id })
  }

  async #heldError({ status }: Head): Promise<RepriseError> {
    const waits = (await this.waits()).filter(({ needsPerson }) => needsPerson)
    const what = waits.map(({ kind, name, error }) => `${kind} ${name}${error ? ` (${error})` : ''}`).join(', ')
    return new RepriseError('HELD', `${this.timeline} is ${status} and waits for a person: ${what}`, {
      run: this.id,
      status,
      waits,
    })
  }
}

function endedError({ id, timeline }: RunView, end: End | null, status: string, more: string): RepriseError {
  const why = end === null || end.kind === 'completed' ? '' : end.kind === 'terminated' ? end.reason : end.error.message
  const what = `${timeline} had already ended: ${status}${why && ` (${why})`}${more && `; ${more}`}`
  return new RepriseError('ENDED', what, { run: id, timeline, status, ...(why && { why }) })
}

function haltedError(head: Head): RepriseError {
  const code = head.status === 'diverged' ? 'DIVERGED' : 'UNRECOVERABLE'
  const problem = String(head.attributes.problem ?? head.status).replace(/ \[[A-Z_]+\]$/, '')
  return new RepriseError(code, problem, { timeline: head.timeline, status: head.status })
}
