// The time in which this process owns a run: work and calls are tied to it, and it ends once, for a reason. The run itself
// continues elsewhere, or later, unless it has ended.

import { isReprise, RepriseError } from '../../../core/errors.ts'
import type { Dispatcher } from '../../../engine/ownership/dispatcher.ts'
import type { CommitExtras } from '../../../engine/writing/writer.ts'
import { Latch } from '../../../lib/waiting.ts'
import type { Calls } from './calls.ts'
import type { Recorder } from './recorder.ts'
import type { RunTimeline } from './run-timeline.ts'
import { leaveScope } from './scope.ts'

/** The reason why an instance left memory. 'lost': another owner, an unavailable store, or a closed engine. */
export type Left =
  | { readonly because: 'ended' | 'waiting' | 'closed' }
  | { readonly because: 'lost' | 'diverged' | 'broken'; readonly error: unknown }

type Draft = { readonly type: string; readonly data: unknown }

/** The parts of a run that the end of its tenure uses. */
export interface OwnedRun {
  readonly open: Pick<RunTimeline, 'id' | 'break'>
  readonly host: {
    readonly engine: { readonly dispatcher: Pick<Dispatcher, 'expect'> }
    /** The error for writes through a released handle. */
    readonly released: RepriseError
  }
  readonly alarms: { clear(): void }
  readonly residency: { stay(): void }
  readonly code: { stop(): void }
  readonly calls: Pick<Calls, 'isCalling' | 'abort' | 'trace'>
  readonly recorder: Pick<Recorder, 'write'>
}

export class Tenure {
  readonly #run: OwnedRun
  readonly #onLeft: (left: Left) => void
  readonly #left = new Latch<Left>()
  #stop: AbortController | null = null

  /** `onLeft` is called once the run has left memory. */
  constructor(run: OwnedRun, onLeft: (left: Left) => void) {
    this.#run = run
    this.#onLeft = onLeft
  }

  /** This process is releasing the run: outcomes of its calls no longer count. */
  get isLeaving(): boolean {
    return this.#left.isSet
  }

  /** Resolves when the run has left memory. */
  get left(): Promise<Left> {
    return this.#left.wait()
  }

  /** Fires when this process must release the run. Created on first access: most runs do not need it. */
  get stopSignal(): AbortSignal {
    this.#stop ??= new AbortController()
    return this.#stop.signal
  }

  /** Rejects when this process must release the run. Never resolves. */
  get leaving(): Promise<never> {
    return new Promise((_, reject) => {
      const { stopSignal } = this
      if (stopSignal.aborted) reject(stopSignal.reason)
      else stopSignal.addEventListener('abort', () => reject(stopSignal.reason), { once: true })
    })
  }

  /** Calls a user's function outside of workflow code and of steps. */
  async callOutside<T>(call: () => T): Promise<Awaited<T>> {
    return await Promise.race([leaveScope(call) as Awaited<T>, this.leaving])
  }

  /** The last entries are written with the release: this handle can write nothing after it. */
  release(because: 'ended' | 'waiting', entries: readonly Draft[], extras: CommitExtras): Promise<void> {
    const { open, host, recorder } = this.#run
    return recorder.write(entries, { ...extras, release: true }).then(() => {
      open.break(host.released)
      this.leave({ because })
      if (typeof extras.wakeup === 'number') host.engine.dispatcher.expect(extras.wakeup, open.id)
    })
  }

  /**
   * A failure of the store or of the ownership ends this instance; any other failure is the run's own and sets it
   * aside.
   */
  failed(error: unknown): void {
    this.leave({ because: isReprise(error) && error.code !== 'BUG' ? 'lost' : 'broken', error })
  }

  /** This process no longer executes the run. */
  leave(left: Left): void {
    if (this.isLeaving) return
    const { open, alarms, residency, code, calls } = this.#run
    this.#left.set(left)
    residency.stay()
    alarms.clear()
    code.stop()
    if (this.#stop || calls.isCalling) {
      const error = new RepriseError('ABORTED', `${open.id} leaves this process (${left.because})`)
      this.#stop?.abort(error)
      calls.abort(error)
    }
    calls.trace?.left(left.because)
    this.#onLeft(left)
  }
}
