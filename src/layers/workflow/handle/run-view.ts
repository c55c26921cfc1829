// A run as it can be seen from any process: its head, its state, what it waits for, and its end. It owns nothing; it asks the
// store, or the instance if the run happens to be in memory here.

import { timelineId } from '../../../core/coordinate.ts'
import { type Duration, toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import { isHeadLost } from '../../../core/history/lost-head.ts'
import { checkOptions, checkValues, namesOf } from '../../../core/options.ts'
import type { Head } from '../../../core/store/ports.ts'
import { onAbort } from '../../../engine/base/aborting.ts'
import type { Yielder } from '../../../engine/base/yielder.ts'
import { lastEntry } from '../../../engine/history/history.ts'
import { recover } from '../../../engine/history/recover.ts'
import type { Host } from '../../../engine/host/host.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import { refuseNotHere } from '../../../engine/storage/moved.ts'
import { madeAgain } from '../../../engine/writing/lost-head.ts'
import type { OpenTimeline } from '../../../engine/writing/timeline.ts'
import type { Queries } from '../commands/queries.ts'
import type { AnyWorkflow } from '../context.ts'
import type { End } from '../history/entries.ts'
import { statusNow } from '../history/journal-rows.ts'
import { endOf, type RunState, workflowFold } from '../history/state.ts'
import { notedWaits, summarizeWorkflow, type Wait, waitsOf } from '../history/summary.ts'
import { endings } from '../names.ts'
import type { Execution } from '../run/execution.ts'
import type { Replayed } from '../tools/replay.ts'
import type { Looks } from './result-poller.ts'

/** A run that is in memory here, as those see it who hold a handle. */
export interface RunInMemory {
  readonly state: RunState
  readonly open: { readonly life: number }
  /** Undefined until its code began. */
  readonly execution: Pick<Execution, 'open'> | undefined
  readonly queries: Queries
  readonly isLeaving: boolean
  readonly replayed: Promise<void>
  readonly left: Promise<unknown>
}

/** What handles need of the process they are in. */
export interface RunHost {
  readonly engine: Host
  readonly kernel: Kernel
  readonly looks: Looks
  /** Thousands may ask for results in one moment, of a store that answers at once. */
  readonly breath: Yielder
  instance(timeline: string): RunInMemory | undefined
  /** In memory here, with nothing to do but wait. */
  isAsleep(timeline: string): boolean
  replay(definition: AnyWorkflow, timeline: string, state: RunState): Promise<Replayed>
  /** Takes a run that is in nobody's hands, for a change from outside. */
  take(timeline: string): Promise<OpenTimeline<RunState>>
  /** With `life`: only to this life of the run. */
  send(timeline: string, kind: string, data: unknown, id?: string, life?: number): Promise<string>
  /** Calls when a run left memory here. */
  watch(timeline: string, call: () => void): () => void
  notify(timeline: string): void
}

export interface RunStatus {
  readonly id: string
  readonly workflow: string
  /**
   * waiting, running, held, compensating, compensation-stuck, diverged, quarantined; completed, failed, cancelled,
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
  /** If the run is held, or stuck in a compensation: reject with HELD (default), or go on waiting for a person. */
  readonly whenHeld?: 'reject' | 'wait'
}

const known = namesOf<ResultOptions>({ timeout: true, signal: true, whenHeld: true })

const halted: ReadonlySet<string> = new Set(['diverged', 'quarantined'])

/** Only a person can end these waits. */
const held: ReadonlySet<string> = new Set(['held', 'compensation-stuck'])

/** Of a run that is not in memory here: how often to look. */
export const pollMs = 250

export class RunView {
  readonly id: string
  readonly timeline: string
  readonly definition: AnyWorkflow
  readonly host: RunHost
  /** The life of its id that this is a view of. Null until the run was found. */
  life: number | null

  constructor(host: RunHost, definition: AnyWorkflow, id: string, life: number | null = null) {
    this.host = host
    this.life = life
    this.definition = definition
    this.id = id
    this.timeline = definition.prefix + id
  }

  /** The run, if it is in memory here. */
  get live(): RunInMemory | undefined {
    const found = this.host.instance(this.timeline)
    return this.life === null || found?.open.life === this.life ? found : undefined
  }

  /** Throws NOT_FOUND where a later run has the id. */
  meet({ life }: Pick<Head, 'life'>): void {
    this.life ??= life
    if (this.life !== life) throw this.forgotten()
  }

  forgotten(): RepriseError {
    const what = `${this.timeline} has expired or was deleted: a run that was started under its id since is another one`
    return new RepriseError('NOT_FOUND', what, { run: this.id })
  }

  async head(): Promise<Head> {
    const head = await this.host.engine.head(this.timeline)
    if (!head) throw this.#notFound()
    this.meet(head)
    return isHeadLost(head) ? await madeAgain(this.host.kernel, head) : head
  }

  /** State as history has it now, without taking the run from anybody. */
  async state(): Promise<RunState> {
    const { live } = this
    if (live) return live.state
    if (this.host.breath.isDue) await this.host.breath.take()
    return (await recover(this.host.kernel, await this.head(), workflowFold)).state.value
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
    await Promise.race([live.replayed, live.left])
    return live.state.end ? [] : waitsOf(live.state, notedWaits(live.execution?.open ?? []))
  }

  conflict(why: string, status: string): RepriseError {
    return new RepriseError('CONFLICT', `${this.timeline} is ${status}: ${why}`, {
      run: this.id,
      timeline: this.timeline,
      status,
    })
  }

  /** Nothing can be asked of it any more; says how it ended. */
  async endedError(more = ''): Promise<RepriseError> {
    const [{ status }, { end }] = await Promise.all([this.head(), this.state()])
    return endedError(this, end, status, more)
  }

  /** Its last entry says how it ended. Null where only all of its history can tell, or says what is wrong with it. */
  async #lastWord(head: Head): Promise<End | null> {
    if (this.host.breath.isDue) await this.host.breath.take()
    const last = await lastEntry(this.host.kernel, head).catch(() => null)
    return last && endOf(last)
  }

  /** Resolves when it has ended, wherever it executes. */
  async ended(options: ResultOptions): Promise<End> {
    checkOptions('result', options, known)
    checkValues('result', options, { whenHeld: ['reject', 'wait'] })
    const { clock } = this.host.kernel
    const until =
      options.timeout === undefined ? Number.POSITIVE_INFINITY : clock.elapsed() + toMs(options.timeout, 'timeout')
    let seen: Head | undefined
    for (;;) {
      if (options.signal?.aborted)
        throw new RepriseError('ABORTED', 'aborted while waiting for a result', {}, options.signal.reason)
      if (!seen && this.host.breath.isDue) await this.host.breath.take()
      const { live } = this
      const leftMs = until - clock.elapsed()
      const changed = this.changed(leftMs, options.signal, !live)
      if (live) {
        await changed
        if (live.state.end) return live.state.end
      }
      const isLate = clock.elapsed() >= until
      const head = seen ?? (await this.host.kernel.store.head([timelineId(this.timeline)]))[0]
      if (!head) throw this.#notFound()
      refuseNotHere(head)
      this.meet(head)
      if (isHeadLost(head)) await madeAgain(this.host.kernel, head)
      if (endings.has(head.status)) {
        const end = (await this.#lastWord(head)) ?? (await this.state()).end
        if (end) return end
      }
      if (halted.has(head.status)) throw haltedError(head)
      // With mail on its way somebody may have settled it.
      if (held.has(head.status) && head.mail === 0 && options.whenHeld !== 'wait') throw await this.#heldError(head)
      if (isLate) throw new RepriseError('TIMEOUT', `${this.timeline} has not ended yet`, { run: this.id })
      seen = live ? undefined : await changed
    }
  }

  /**
   * Something may have happened: it left memory here, a while has passed, or it was looked at together with what others wait
   * for; then with its head.
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
      const cancel = Number.isFinite(ms) ? this.host.kernel.clock.after(Math.max(0, ms), stop) : undefined
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
