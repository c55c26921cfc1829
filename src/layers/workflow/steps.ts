// Steps: the calls to the outside. An attempt is called outside of workflow code, its outcome is one entry; a failed
// attempt that will be repeated is an entry too, so that a restart goes on counting. A crash is not a failed attempt.

import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { StepCall, StepOptions } from './context.ts'
import type { Command } from './execution.ts'
import { fromFailure, toFailure } from './failure.ts'
import type { Instance } from './instance.ts'
import { decideRetry, type ResolvedRetry, resolveRetry } from './retry.ts'
import { commandName, enterStep, type Scope } from './scope.ts'
import { noCommand, own } from './state.ts'

type Call<T> = (step: StepCall) => Promise<T> | T

export function askStep<T>(
  run: Instance,
  scope: Scope,
  name: string,
  call: Call<T>,
  options: StepOptions<T>,
): Promise<T> {
  const id = scope.next(commandName(name))
  const retry = resolveRetry(options.retry, run.definition.options.retry)
  if (options.compensateRetry) resolveRetry(options.compensateRetry)
  return run.execution.ask<T>(scope, id, {
    kind: 'step',
    hasUndo: options.compensate !== undefined,
    start: (command) => run.spawn(() => startStep(run, command, call, options as StepOptions<unknown>, retry)),
    onItem(command, item) {
      if (item.kind === 'failed') return command.reject(command.cancelled ? run.cancelError() : fromFailure(item.error))
      if (item.kind !== 'done') return
      run.alarms.delete(id)
      if (options.compensate) {
        run.saga.add({
          id,
          result: item.result,
          call: options.compensate as (result: unknown, step: StepCall) => unknown,
          retry: options.compensateRetry,
        })
      }
      if (command.cancelled) command.reject(run.cancelError())
      else command.resolve(item.result)
    },
    onAbandon: (command) => abandonStep(run, command, 'another branch won'),
  })
}

/** Nobody waits any more. What can be undone is let finish, so that it is known what became of it. */
export function abandonStep(run: Instance, command: Command, reason: string): void {
  if (command.hasUndo) return
  run.alarms.delete(command.id)
  run.attempts.get(command.id)?.abort(new RepriseError('CANCELLED', reason))
}

async function startStep(
  run: Instance,
  command: Command,
  call: Call<unknown>,
  options: StepOptions<unknown>,
  retry: ResolvedRetry,
): Promise<void> {
  const { id } = command
  if (command.cancelled && !command.hasUndo)
    return await run.record('failed', { id, error: toFailure(run.cancelError()) })
  const before = own(run.state.open, id, noCommand)
  if (before.held) return
  const { inDoubt = 'retry' } = options
  if (before.began && inDoubt !== 'retry') {
    if (inDoubt === 'hold') return await run.record('held', { id }, { status: 'held' })
    const probed = await run.callOutside(() => inDoubt(run.keyOf(id)))
    if (probed.happened) return await recordDone(run, id, probed.result)
  }
  const wait = before.notBefore - run.now()
  if (wait > 0) return run.alarms.set(id, before.notBefore, () => run.spawn(() => attempt()))
  await attempt()

  async function attempt(): Promise<void> {
    const { failures, began } = own(run.state.open, id, noCommand)
    if (inDoubt !== 'retry' && !began) await run.record('began', { id })
    let result: unknown
    try {
      result = await callStep(run, command, call, options, failures + 1)
    } catch (error) {
      if (run.isLeaving) return
      if (command.isAbandoned && !command.hasUndo) return
      const { again, delayMs, counts } = decideRetry(retry, failures + 1, error, () => run.chance())
      if (!again || command.cancelled || command.isAbandoned) {
        return await run.record('failed', { id, error: toFailure(error) })
      }
      const at = run.now() + delayMs
      await run.record('retry', { id, n: counts ? failures + 1 : failures, error: toFailure(error), at })
      return run.alarms.set(id, at, () => run.spawn(() => attempt()))
    }
    if (command.isAbandoned && !command.hasUndo) return
    await recordDone(run, id, result)
  }
}

async function recordDone(run: Instance, id: string, result: unknown): Promise<void> {
  try {
    await run.record('done', result === undefined ? { id } : { id, result })
  } catch (error) {
    if (!isReprise(error, 'UNSERIALIZABLE', 'LIMIT_EXCEEDED')) throw error
    await run.record('failed', { id, error: toFailure(error) })
  }
}

/** One call in flight: how it can be stopped, and since when it runs. */
export class Attempt {
  readonly startedAt: number
  isNoted = false
  #controller: AbortController | null = null
  #reason: { readonly error: unknown } | null = null
  #fail: ((error: unknown) => void) | null = null

  constructor(startedAt: number) {
    this.startedAt = startedAt
  }

  /** Made when somebody asks for it: most calls never look. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#reason) this.#controller.abort(this.#reason.error)
    return this.#controller.signal
  }

  abort(error: unknown): void {
    this.#reason ??= { error }
    this.#fail?.(error)
    this.#controller?.abort(error)
  }

  /** The result of the call, unless it is stopped before. */
  outcome(called: Promise<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#fail = reject
      called.then(resolve, reject)
      if (this.#reason) reject(this.#reason.error)
    })
  }
}

async function callStep(
  run: Instance,
  command: Command,
  call: Call<unknown>,
  options: StepOptions<unknown>,
  number: number,
): Promise<unknown> {
  const { id } = command
  const { clock } = run.kernel
  const attempt = new Attempt(clock.elapsed())
  const heart = new Heart(run, id)
  const step: StepCall = {
    key: run.keyOf(id),
    attempt: number,
    get signal() {
      return attempt.signal
    },
    details: own(run.state.open, id, noCommand).details,
    heartbeat: (details) => heart.beat(details),
  }
  run.attempts.set(id, attempt)
  run.host.callsStarted += 1
  const timers: (() => void)[] = []
  const { timeout, heartbeatTimeout } = options
  if (timeout !== undefined) {
    timers.push(clock.after(toMs(timeout, 'timeout'), () => attempt.abort(timedOut(id, timeout))))
  }
  if (heartbeatTimeout !== undefined) {
    heart.watch(toMs(heartbeatTimeout, 'heartbeatTimeout'), (error) => attempt.abort(error), timers)
  }
  try {
    const called = enterStep({ heartbeat: step.heartbeat }, () => call(step))
    return called instanceof Promise ? await attempt.outcome(called) : called
  } finally {
    run.attempts.delete(id)
    for (const cancel of timers) cancel()
  }
}

function timedOut(id: string, timeout: Duration): RepriseError {
  return new RepriseError('TIMEOUT', `step ${id} took longer than ${timeout}`, { step: id })
}

/** Heartbeats of one attempt. Details are recorded; if they come faster than commits, only the newest. */
class Heart {
  readonly #run: Instance
  readonly #id: string
  #last: number
  #latest: { readonly details: unknown } | null = null
  #writing: Promise<void> | null = null

  constructor(run: Instance, id: string) {
    this.#run = run
    this.#id = id
    this.#last = run.kernel.clock.elapsed()
  }

  beat(details: unknown): Promise<void> {
    this.#last = this.#run.kernel.clock.elapsed()
    if (details === undefined) return Promise.resolve()
    this.#latest = { details }
    this.#writing ??= this.#write()
    return this.#writing
  }

  watch(limitMs: number, fail: (error: unknown) => void, timers: (() => void)[]): void {
    const { clock } = this.#run.kernel
    const look = () => {
      const silentMs = clock.elapsed() - this.#last
      if (silentMs >= limitMs)
        fail(new RepriseError('TIMEOUT', `step ${this.#id} gave no heartbeat`, { step: this.#id }))
      else timers.push(clock.after(limitMs - silentMs, look))
    }
    timers.push(clock.after(limitMs, look))
  }

  async #write(): Promise<void> {
    try {
      while (this.#latest) {
        const { details } = this.#latest
        this.#latest = null
        await this.#run.record('beat', { id: this.#id, details })
      }
    } finally {
      this.#writing = null
    }
  }
}
