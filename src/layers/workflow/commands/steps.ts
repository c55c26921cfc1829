// Steps: the calls to the outside. An attempt runs outside of workflow code and its outcome is one entry. A failed
// attempt that will be retried is an entry too, so that the count of attempts survives a restart. A crash is not a
// failed attempt.

import { RepriseError } from '../../../core/errors.ts'
import { aFunction, checkList, checkOptions, checkValues } from '../../../core/options.ts'
import { CallGate, type CallPolicy, callPolicyNames } from '../../../core/retry/call-policy.ts'
import {
  decideRetry,
  patientRetry,
  type ResolvedRetry,
  type RetryPolicy,
  resolveRetry,
} from '../../../core/retry/retry.ts'
import { checkFunction } from '../../../core/synchronous.ts'
import type { SharedFrom } from '../../../engine/model/memo-protocol.ts'
import type { StepCall, StepOptions } from '../context.ts'
import type { Item } from '../history/entries.ts'
import { fromFailure, toFailure } from '../history/failure.ts'
import { lastSeq, noCommand, type OpenCommand, own, type RunState } from '../history/state.ts'
import { Attempt, type AttemptingRun } from '../run/attempt.ts'
import type { Calls } from '../run/calls.ts'
import type { Command, CommandSpec } from '../run/command.ts'
import type { CommandRun } from '../run/command-host.ts'
import type { Digester } from '../run/observations.ts'
import type { Recorder } from '../run/recorder.ts'
import { commandName, type Scope } from '../run/scope.ts'
import { inputDigest } from '../run/step-key.ts'
import type { Tenure } from '../run/tenure.ts'
import type { Working } from '../run/work-count.ts'
import type { Saga } from './saga.ts'

const known = new Set<string>([
  ...['heartbeatTimeout', 'compensate', 'undo', 'compensateRetry', 'inDoubt', 'input', 'after'],
  ...callPolicyNames,
])

type Call<T> = (step: StepCall) => Promise<T> | T

/** A step without options has these. */
export const noStepOptions: StepOptions<unknown> = Object.freeze({})

const values = { inDoubt: ['retry', 'hold', aFunction], compensate: [aFunction], undo: [aFunction] }

/** The outcome of a step whose result is shared with other runs; its entry records the origin. */
export class SharedResult {
  readonly result: unknown
  readonly shared: SharedFrom

  constructor(result: unknown, shared: SharedFrom) {
    this.result = result
    this.shared = shared
  }
}

/** The parts of a run that a step uses. */
export interface StepRun extends CommandRun {
  readonly definition: { readonly options: { readonly retry?: RetryPolicy } }
  readonly kernel: CommandRun['kernel'] & AttemptingRun['kernel'] & Digester
  readonly code: CommandRun['code'] & { readonly saga: Pick<Saga, 'add'> }
  readonly calls: AttemptingRun['calls'] & Pick<Calls, 'isUntouched' | 'abort'>
  readonly recorder: Pick<Recorder, 'record' | 'recordLater'>
  readonly tenure: Pick<Tenure, 'isLeaving' | 'callOutside'>
  readonly host: AttemptingRun['host']
}

export function askStep<T>(
  run: StepRun,
  scope: Scope,
  name: string,
  call: Call<T>,
  options: StepOptions<T>,
): Promise<T> {
  checkFunction(call, `step ${name}`)
  if (options !== noStepOptions) {
    checkOptions('step', options, known)
    checkValues(`step ${name}`, options, values)
  }
  const id = scope.next(commandName(name))
  const retry = resolveRetry(options.retry, run.definition.options.retry)
  if (options.compensateRetry) resolveRetry(options.compensateRetry, patientRetry)
  const gate = gateOf(run.definition, name, options)
  const isOne =
    !(options.compensate && options.undo) && (!options.compensateRetry || options.compensate || options.undo)
  if (!isOne) {
    throw new RepriseError('INVALID_ARGUMENT', `step ${name} must have either compensate or undo`, { step: name })
  }
  const after = declaredAfter(scope, `step ${name}`, options.after)
  const step = new Step(run, id, call, options as StepOptions<unknown>, retry, gate, after)
  return run.code.execution.ask<T>(scope, id, step)
}

/** Aborts a call that no branch waits for any longer. A call with an undo may finish, so that its outcome is known. */
export function abandonStep(run: Pick<StepRun, 'alarms' | 'calls'>, command: Command, reason: string): void {
  if (command.hasUndo) return
  run.alarms.delete(command.id)
  run.calls.abort(new RepriseError('CANCELLED', reason), command.id)
}

/** The ids of the commands that a step declares to depend on. */
export function declaredAfter(scope: Scope, step: string, names: readonly string[] | undefined) {
  if (names === undefined) return null
  checkList(`after of ${step}`, names)
  return names.map((name) => {
    const id = scope.latest(commandName(name))
    if (id !== null) return id
    const what = `${step} is declared to run after ${name}, which this branch has not called before it`
    throw new RepriseError('INVALID_ARGUMENT', what, { step, after: name })
  })
}

/** Few async functions here: a step is the hot path, and each async function allocates promises. */
class Step implements CommandSpec {
  readonly kind = 'step'
  readonly hasUndo: boolean
  readonly input: string | null
  readonly after: readonly string[] | null
  readonly #run: StepRun
  readonly #id: string
  readonly #call: Call<unknown>
  readonly #options: StepOptions<unknown>
  readonly #retry: ResolvedRetry
  readonly #gate: CallGate | null

  constructor(
    run: StepRun,
    id: string,
    call: Call<unknown>,
    options: StepOptions<unknown>,
    retry: ResolvedRetry,
    gate: CallGate | null,
    after: readonly string[] | null,
  ) {
    this.hasUndo = options.compensate !== undefined || options.undo !== undefined
    this.input = options.input === undefined ? null : inputDigest(run.kernel, options.input)
    this.after = after
    this.#run = run
    this.#id = id
    this.#call = call
    this.#options = options
    this.#retry = retry
    this.#gate = gate
  }

  start(command: Command): void {
    this.#run.spawn(() => this.#begin(command))
  }

  onItem(command: Command, item: Item): void {
    const run = this.#run
    if ((item.kind === 'done' || item.kind === 'failed') && item.key !== undefined) command.keyUsed = item.key
    if (item.kind === 'failed') {
      this.#addUndo(command, item, undefined)
      command.reject(command.cancelled ? run.code.cancelError() : fromFailure(item.error))
    }
    if (item.kind !== 'done') return
    run.alarms.delete(this.#id)
    const { compensate, compensateRetry } = this.#options
    this.#addUndo(command, item, item.result)
    if (compensate) {
      const call = compensate as (result: unknown, step: StepCall) => unknown
      run.code.saga.add({ command, item, result: item.result, call, retry: compensateRetry })
    }
    if (command.cancelled) command.reject(run.code.cancelError())
    else command.resolve(item.result)
  }

  /** `undo` is registered for every outcome, because it must also run for a step that failed. */
  #addUndo(command: Command, item: Item, result: unknown): void {
    const { undo, compensateRetry } = this.#options
    if (!undo) return
    const call = (_: unknown, step: StepCall, state: RunState) =>
      undo({ ...step, stepKey: this.#run.code.keyOf(command, state) }, result)
    this.#run.code.saga.add({ command, item, result, call, retry: compensateRetry })
  }

  onAbandon(command: Command): void {
    abandonStep(this.#run, command, 'another branch won')
  }

  #begin(command: Command): Working {
    const run = this.#run
    const before = this.#before
    const isUnbegun = command.isNew || (run.calls.isUntouched && before === noCommand)
    if (command.cancelled && (isUnbegun || !command.hasUndo)) return this.#recordFailed(command, run.code.cancelError())
    if (before.held) return undefined
    if (before.began && (this.#options.inDoubt ?? 'retry') !== 'retry') return this.#decideDoubt(command)
    return this.#attemptWhenDue(command, before)
  }

  /** The open command in history. */
  get #before(): OpenCommand {
    return own(this.#run.state.open, this.#id, noCommand)
  }

  /** The step's intent is in history, but its outcome is unknown. */
  async #decideDoubt(command: Command): Promise<unknown> {
    const { inDoubt } = this.#options
    if (typeof inDoubt !== 'function') {
      return await this.#run.recorder.record('held', { id: this.#id }, { status: 'held' })
    }
    const probed = await this.#run.tenure.callOutside(() => inDoubt(command.key))
    return await (probed.happened
      ? this.#recordDone(command, probed.result)
      : this.#attemptWhenDue(command, this.#before))
  }

  #attemptWhenDue(command: Command, before: OpenCommand): Working {
    const { notBefore } = before
    if (notBefore > 0 && notBefore > this.#run.now()) {
      this.#attemptAt(command, notBefore)
      return undefined
    }
    return this.#attempt(command, before)
  }

  #attemptAt(command: Command, at: number): void {
    const attempt = () => this.#run.spawn(() => this.#attempt(command, this.#before))
    this.#run.alarms.setPassing(this.#id, at, () => void attempt())
  }

  #attempt(command: Command, before: OpenCommand): Working {
    const pauseMs = this.#gate?.pauseMs(this.#run.now(), this) ?? 0
    if (pauseMs > 0) {
      this.#attemptAt(command, this.#run.now() + pauseMs)
      return undefined
    }
    const needsIntent = (this.#options.inDoubt ?? 'retry') !== 'retry' && !before.began
    if (!needsIntent) return this.#callOut(command, before)
    return this.#run.recorder
      .record('began', { id: this.#id, key: command.key })
      .then(() => this.#callOut(command, before))
  }

  #callOut(command: Command, { failures, details }: OpenCommand): Working {
    const attempt = new Attempt(this.#run, command, failures + 1, details)
    let result: unknown
    try {
      result = attempt.call(this.#call, this.#options)
    } catch (error) {
      return this.#failed(command, failures, error, attempt.ms)
    }
    if (!(result instanceof Promise)) return this.#done(command, result, attempt.ms)
    return result.then(
      (value) => this.#done(command, value, attempt.ms),
      (error) => this.#failed(command, failures, error, attempt.ms),
    )
  }

  #done(command: Command, result: unknown, ms: number): Working {
    this.#gate?.succeeded()
    this.#gate?.left(this)
    return command.isAbandoned && !command.hasUndo ? undefined : this.#recordDone(command, result, ms)
  }

  #failed(command: Command, failures: number, error: unknown, ms: number): Working {
    const run = this.#run
    this.#gate?.failed(this.#retry, error, run.now(), this)
    this.#gate?.left(this)
    if (run.tenure.isLeaving || (command.isAbandoned && !command.hasUndo)) return undefined
    const now = run.now()
    const { again, delayMs, counts, mistake } = decideRetry(this.#retry, failures + 1, error, {
      chance: () => run.kernel.random.number(),
      now,
    })
    if (!again || command.cancelled || command.isAbandoned) return this.#recordFailed(command, mistake ?? error, ms)
    const at = now + delayMs
    const n = counts ? failures + 1 : failures
    return run.recorder
      .record('retry', { id: this.#id, n, error: toFailure(error), at, ms, ...keyOf(command) })
      .then(() => this.#attemptAt(command, at))
  }

  /** A result that cannot be stored fails the step, and the code receives the reason. */
  #recordDone(command: Command, result: unknown, ms?: number): Working {
    this.#run.calls.trace?.ended(this.#id)
    const data = doneOf(command, result, ms, dependsOn(this.#run, command))
    return this.#run.recorder.recordLater('done', data, (error) => this.#recordFailed(command, error, ms))
  }

  #recordFailed(command: Command, error: unknown, ms?: number): Promise<unknown> {
    this.#run.calls.trace?.ended(this.#id, error)
    const took = ms === undefined ? {} : { ms }
    const data = { id: this.#id, error: toFailure(error), ...took, ...keyOf(command) }
    return this.#run.recorder.record('failed', { ...data, ...dependsOn(this.#run, command) })
  }
}

/** The key that was passed to the outside, for the step's entry. */
function keyOf({ keyUsed }: Command): { readonly key?: string } {
  return keyUsed === null ? {} : { key: keyUsed }
}

/** `ms`: the duration of the call; undefined if it was not called. */
function doneOf(
  { id, keyUsed }: Command,
  result: unknown,
  ms: number | undefined,
  depends: object,
): Record<string, unknown> {
  // The usual step, in one piece.
  if (ms !== undefined && keyUsed === null && depends === dependsOnAll && !(result instanceof SharedResult))
    return result === undefined ? { id, ms } : { id, result, ms }
  const data: Record<string, unknown> = { id }
  if (result instanceof SharedResult) Object.assign(data, { result: result.result, shared: result.shared })
  else if (result !== undefined) data.result = result
  if (ms !== undefined) data.ms = ms
  if (keyUsed !== null) data.key = keyUsed
  return depends === dependsOnAll ? data : Object.assign(data, depends)
}

const dependsOnAll = {}

/**
 * What a step depends on, for its entry: the steps that it declares, else the last outcome before it was issued. Nothing, if
 * all outcomes before the entry came before the step was issued, as in code that awaits each step. Batched outcomes have
 * no sequence yet when they are delivered, so steps of such runs depend on every earlier outcome.
 */
export function dependsOn(
  run: Pick<CommandRun, 'state'> & { readonly code: Pick<CommandRun['code'], 'execution'> },
  { after, since }: Command,
): { readonly after?: readonly string[]; readonly since?: number } {
  if (after) return { after }
  if (run.state.started?.isBatched) return dependsOnAll
  const isAlone = run.code.execution.open.size <= 1 && lastSeq(run.state.journal) <= since
  return isAlone ? dependsOnAll : { since }
}

/** Rate limits and breakers of steps: one for each step name of a workflow, shared by all of its runs in this process. */
const gates = new WeakMap<object, Map<string, CallGate>>()

/**
 * Returns null if the step has neither `compensate` nor `undo`. A step whose settings differ between calls has one gate per set
 * of settings.
 */
function gateOf(
  definition: object,
  step: string,
  { rate, breaker }: Pick<CallPolicy, 'rate' | 'breaker'>,
): CallGate | null {
  if (rate === undefined && (breaker === undefined || breaker === false)) return null
  const own = gates.get(definition) ?? new Map<string, CallGate>()
  gates.set(definition, own)
  const name = JSON.stringify([step, rate, breaker])
  const gate = own.get(name) ?? new CallGate({ ...(rate && { rate }), ...(breaker && { breaker }) })
  own.set(name, gate)
  return gate
}
