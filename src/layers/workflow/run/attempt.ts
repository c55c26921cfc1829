// One attempt of a step: the call to the outside while it is in flight. It is the argument of the user's function, can
// be aborted, knows when it started, and handles heartbeats.

import { type Duration, toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import type { Clock } from '../../../core/store/ports.ts'
import type { RunTrace } from '../../../engine/base/tracing.ts'
import { behind, type LayerHost } from '../../../engine/model/definition.ts'
import type { StepCall, StepOptions } from '../context.ts'
import type { CallInFlight, Calls } from './calls.ts'
import type { Command } from './command.ts'
import type { CommandRun } from './command-host.ts'
import { enterStep } from './scope.ts'

type Call = (step: StepCall) => unknown

/** The parts of a run that an attempt uses. */
export interface AttemptingRun extends Pick<CommandRun, 'recorder'> {
  readonly kernel: { readonly clock: Clock }
  readonly calls: Pick<Calls, 'started' | 'ended' | 'trace'>
  readonly host: { readonly engine: LayerHost }
}

/** Most calls use none of these properties, so the expensive ones are created on first access. */
export class Attempt implements StepCall, CallInFlight {
  readonly attempt: number
  readonly startedAt: number
  readonly details: unknown
  isNoted = false
  readonly #run: AttemptingRun
  readonly #id: string
  readonly #command: Pick<Command, 'id' | 'key' | 'keyUsed'>
  traceparent: string | undefined = undefined
  #heart: Heart | null = null
  #heartbeat: StepCall['heartbeat'] | null = null
  #controller: AbortController | null = null
  #reason: { readonly error: unknown } | null = null
  #fail: ((error: unknown) => void) | null = null
  #timers: (() => void)[] | null = null

  constructor(run: AttemptingRun, command: Pick<Command, 'id' | 'key' | 'keyUsed'>, number: number, details: unknown) {
    this.#run = run
    this.#id = command.id
    this.#command = command
    this.attempt = number
    this.startedAt = run.kernel.clock.elapsed()
    this.details = details
  }

  /** The time of the last sign of life: the start or the last heartbeat. */
  get aliveAt(): number {
    return this.#heart?.last ?? this.startedAt
  }

  /** The duration of the call so far. */
  get ms(): number {
    return Math.max(0, Math.round(this.#run.kernel.clock.elapsed() - this.startedAt))
  }

  get name(): string {
    return this.#id
  }

  /** For adapters: the engine that executes the step. */
  get [behind](): LayerHost {
    return this.#run.host.engine
  }

  get key(): string {
    return this.#command.key
  }

  /** Null if the call did not read its key. */
  get keyUsed(): string | null {
    return this.#command.keyUsed
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#reason) this.#controller.abort(this.#reason.error)
    return this.#controller.signal
  }

  /** Bound, so it can be destructured from the call. */
  get heartbeat(): StepCall['heartbeat'] {
    this.#heartbeat ??= (details) => this.#beat(details)
    return this.#heartbeat
  }

  /** Returns the call's result, throws its error, or returns an abortable promise of either. */
  call(call: Call, options: Pick<StepOptions<unknown>, 'timeout' | 'heartbeatTimeout'>): unknown {
    const run = this.#run
    run.calls.started(this.#id, this)
    this.#watch(options)
    try {
      const { trace } = run.calls
      const called = trace ? enterStep(this, () => this.#traced(trace, call)) : enterStep(this, call, this)
      if (called instanceof Promise) return this.#outcome(called)
      if (isThenable(called)) return this.#outcome(Promise.resolve(called))
      this.#end()
      return called
    } catch (error) {
      this.#end()
      throw error
    }
  }

  #traced(trace: RunTrace, call: Call): unknown {
    const { attempt, key } = this
    return trace.attempt({ step: this.#id, attempt, key }, (traceparent) => {
      this.traceparent = traceparent
      return call(this)
    })
  }

  abort(error: unknown): void {
    this.#reason ??= { error }
    this.#fail?.(error)
    this.#controller?.abort(error)
  }

  #watch({ timeout, heartbeatTimeout }: Pick<StepOptions<unknown>, 'timeout' | 'heartbeatTimeout'>): void {
    if (timeout !== undefined) {
      const { clock } = this.#run.kernel
      const late = () => this.abort(timedOut(this.#id, timeout))
      // A result that has already arrived counts first: after the process was suspended, timers fire before I/O
      // callbacks.
      this.#timers = [clock.after(toMs(timeout, 'timeout'), () => clock.soon(() => this.#timers && late()))]
    }
    if (heartbeatTimeout !== undefined) {
      this.#heart ??= new Heart(this.#run, this.#id)
      this.#timers ??= []
      this.#heart.watch(
        toMs(heartbeatTimeout, 'heartbeatTimeout'),
        (error) => this.abort(error),
        () => this.#timers,
      )
    }
  }

  #end(): void {
    this.#run.calls.ended(this.#id)
    for (const cancel of this.#timers ?? []) cancel()
    this.#timers = null
  }

  #beat(details: unknown): Promise<void> {
    this.#heart ??= new Heart(this.#run, this.#id)
    return this.#heart.beat(details)
  }

  /** The result of the call, unless the attempt is aborted first. */
  #outcome(called: Promise<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const fail = (error: unknown) => {
        this.#end()
        reject(error)
      }
      this.#fail = fail
      called.then((value) => {
        this.#end()
        resolve(value)
      }, fail)
      if (this.#reason) fail(this.#reason.error)
    })
  }
}

/** Includes query builders and promises of other libraries. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}

function timedOut(id: string, timeout: Duration): RepriseError {
  return new RepriseError('TIMEOUT', `step ${id} took longer than ${timeout}`, { step: id })
}

/** Heartbeats of one attempt. Details are recorded; if they arrive faster than commits, only the newest are. */
class Heart {
  readonly #run: AttemptingRun
  readonly #id: string
  #last: number
  #latest: { readonly details: unknown } | null = null
  #writing: Promise<void> | null = null

  constructor(run: AttemptingRun, id: string) {
    this.#run = run
    this.#id = id
    this.#last = run.kernel.clock.elapsed()
  }

  get last(): number {
    return this.#last
  }

  beat(details: unknown): Promise<void> {
    this.#last = this.#run.kernel.clock.elapsed()
    if (details === undefined) return Promise.resolve()
    this.#latest = { details }
    this.#writing ??= this.#write()
    return this.#writing
  }

  /** `timers` is null once the attempt is over. */
  watch(limitMs: number, fail: (error: unknown) => void, timers: () => (() => void)[] | null): void {
    const { clock } = this.#run.kernel
    const look = (isSure: boolean) => {
      const silentMs = clock.elapsed() - this.#last
      if (timers() === null) return
      if (silentMs < limitMs) timers()?.push(clock.after(limitMs - silentMs, () => look(false)))
      // A heartbeat that has already arrived counts first, as in `#watch` above.
      else if (!isSure) clock.soon(() => look(true))
      else fail(new RepriseError('TIMEOUT', `step ${this.#id} sent no heartbeat`, { step: this.#id }))
    }
    timers()?.push(clock.after(limitMs, () => look(false)))
  }

  async #write(): Promise<void> {
    try {
      while (this.#latest) {
        const { details } = this.#latest
        this.#latest = null
        await this.#run.recorder.record('beat', { id: this.#id, details })
      }
    } finally {
      this.#writing = null
    }
  }
}
