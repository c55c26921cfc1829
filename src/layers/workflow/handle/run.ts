// The handle of a run: refers to it by name, from any process, and sends it requests.

import { timelineId } from '../../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { isHeadLost } from '../../../core/history/lost-head.ts'
import {
  type Allowed,
  aText,
  checkGivenOptions,
  checkOptions,
  checkText,
  checkValues,
  namesOf,
} from '../../../core/options.ts'
import { throwIfAborted, unlessAborted } from '../../../engine/base/abortable-wait.ts'
import { whileAwaited } from '../../../engine/base/stay-alive.ts'
import { decideRollback } from '../../../engine/branch/consumers.ts'
import { editOf, markOf } from '../../../engine/model/fork-edit.ts'
import type { Consumer } from '../../../engine/model/rollback-report.ts'
import { madeAgain } from '../../../engine/ownership/lost-head.ts'
import { newId } from '../../../engine/storage/kernel.ts'
import { refuseNotHere } from '../../../engine/storage/moved-mark.ts'
import type { CommitExtras } from '../../../engine/writing/writer.ts'
import type { AnyWorkflow } from '../context.ts'
import { fromFailure } from '../history/failure.ts'
import { commandIdOf, findStep, lastFailures } from '../history/find-step.ts'
import { checkUndo } from '../history/inherited.ts'
import { type GraphStep, graphOf, planRerun, type RerunPlan } from '../history/rerun.ts'
import { type RunState, wasAsked, wholeLimit } from '../history/state.ts'
import type { Wait } from '../history/summary.ts'
import {
  type Carried,
  messageName,
  type QueryDefinition,
  type SignalDefinition,
  type UpdateDefinition,
} from '../messages.ts'
import { endings, queueOf } from '../names.ts'
import { leaveMessages } from '../queue/queue.ts'
import { forkRun, stepEdits } from './fork.ts'
import { askQuery, awaitUpdate, type UpdateOptions } from './query-update.ts'
import { decideRerun } from './rerun.ts'
import type {
  RunCancelOptions,
  RunRerunOptions,
  RunRollbackOptions,
  RunTerminateOptions,
  RunUndoOptions,
} from './rollback-options.ts'
import { type ResultOptions, type RunHost, type RunStatus, RunView } from './run-view.ts'
import { checkSettleable, type StepOutcome, settleOnce } from './settle.ts'

const knownSignal = namesOf<{ readonly key?: string }>()('key')
const knownStarted = namesOf<{ readonly signal?: AbortSignal }>()('signal')
const undoValues = { undo: ['inherited'], reason: [aText] }
const knownSettle = namesOf<SettleOptions>()('by result error key')
const knownCancel = namesOf<RunCancelOptions>()('reason key undo')
const knownTerminate = namesOf<RunTerminateOptions>()('reason key')
const knownUndo = namesOf<RunUndoOptions>()('reason undo')
const knownUpdate = namesOf<UpdateOptions>()('timeout signal key')
const knownFork = namesOf<RunForkOptions>()('id input result by')
const aStep: Allowed = ['the name or the id of a step', (value) => typeof value === 'string']
const knownRerun = namesOf<RunRerunOptions>()('key undo consumed')
const knownRollback = namesOf<RunRollbackOptions>()('to input seq key undo consumed')

export interface RunForkOptions {
  /** The id of the fork. Default: generated. */
  readonly id?: string
  /** The fork continues with this input. */
  readonly input?: unknown
  /** The fork continues with this as the result of the step. */
  readonly result?: unknown
  /** The author of the edit; recorded with it. */
  readonly by?: string
}

export interface SettleOptions {
  readonly by?: string
  readonly result?: unknown
  readonly error?: string
  readonly key?: string
}

export class WorkflowRun<Output = unknown> {
  readonly id: string
  readonly timeline: string
  readonly definition: AnyWorkflow
  readonly #host: RunHost
  readonly #view: RunView

  /** @internal Created by `rp.run` and `workflows(rp).of(…).get(id)`. */
  constructor(host: RunHost, definition: AnyWorkflow, id: string, life: number | null = null) {
    this.#host = host
    this.#view = new RunView(host, definition, id, life)
    this.definition = definition
    this.id = id
    this.timeline = this.#view.timeline
  }

  /** Waits for the end in any process, then returns the result or throws the run's error. */
  async result(options: ResultOptions = {}): Promise<Output> {
    const end = await whileAwaited(this.#view.ended(options), this.#host.engine.clock)
    switch (end.kind) {
      case 'completed':
        return end.result as Output
      case 'terminated':
        throw new RepriseError('RUN_FAILED', `${this.timeline} was terminated: ${end.reason}`, { run: this.id })
      default:
        throw fromFailure(end.error)
    }
  }

  /**
   * Resolves when the run is in the store, where any process can execute it. Rejects with NOT_FOUND if there is no such
   * run.
   */
  async started(options: { readonly signal?: AbortSignal } = {}): Promise<this> {
    checkOptions('started', options, knownStarted)
    await unlessAborted(this.#view.status(), options.signal, `waiting for ${this.timeline} to start`)
    return this
  }

  async status(): Promise<RunStatus> {
    return await this.#view.status()
  }

  /** The run's open waits with their deadlines: signals, timers, children, and steps that will be retried or are held. */
  async waitsFor(): Promise<readonly Wait[]> {
    return await this.#view.waits()
  }

  /** Delivered once, even if it is sent before the run waits for it. A repeated `key` has no effect. */
  signal<T>(signal: SignalDefinition<T>, ...value: [...Carried<T>, options?: { readonly key?: string }]): Promise<void>
  signal(name: string, value?: unknown, options?: { readonly key?: string }): Promise<void>
  async signal(
    signal: string | SignalDefinition<unknown>,
    value?: unknown,
    options: { readonly key?: string } = {},
  ): Promise<void> {
    checkOptions('signal', options, knownSignal)
    const name = messageName(signal)
    await this.#mail('signal', value === undefined ? { name } : { name, value }, options.key)
  }

  /** Requests the cancellation of the run: its steps are undone in reverse. A repeated `key` has no effect. */
  async cancel(options: RunCancelOptions = {}): Promise<void> {
    checkOptions('cancel', options, knownCancel)
    checkValues('cancel', options, undoValues)
    const { reason = 'cancelled', undo, key } = options
    if (undo) await checkUndo(this.#host.engine, this.timeline, await this.state())
    await this.#mail('cancel', { reason, ...(undo && { undo }) }, key)
  }

  /**
   * Returns the answer of the query's handler; the run is not affected. Without a handler, 'status' returns the run's
   * status.
   */
  query<Args extends readonly unknown[], Result>(
    query: QueryDefinition<Args, Result>,
    ...args: Args
  ): Promise<Awaited<Result>>
  query<T = unknown>(name: string, ...args: readonly unknown[]): Promise<T>
  async query(query: string | { readonly name: string }, ...args: readonly unknown[]): Promise<unknown> {
    const name = messageName(query)
    try {
      return await askQuery(this.#view, name, args)
    } catch (error) {
      if (name === 'status' && isReprise(error, 'NOT_FOUND')) return (await this.status()).status
      throw error
    }
  }

  /** Calls the update's handler in the run and returns its result. A repeated `key` returns the first result. */
  update<Args, Result>(
    update: UpdateDefinition<Args, Result>,
    ...args: [...Carried<Args>, options?: UpdateOptions]
  ): Promise<Result>
  update<T = unknown>(name: string, args?: unknown, options?: UpdateOptions): Promise<T>
  async update(
    update: string | { readonly name: string },
    args?: unknown,
    options: UpdateOptions = {},
  ): Promise<unknown> {
    checkOptions('update', options, knownUpdate)
    const name = messageName(update)
    throwIfAborted(options.signal, `update ${name}`)
    const answer = async () => {
      const id = await this.#mail('update', { name, args }, options.key)
      return await awaitUpdate(this.#view, name, id, options)
    }
    return await whileAwaited(answer(), this.#host.engine.clock)
  }

  /** Ends the run at once: no clean-up, no compensation. */
  async terminate(options: RunTerminateOptions = {}): Promise<void> {
    checkOptions('terminate', options, knownTerminate)
    checkValues('terminate', options, { reason: [aText] })
    const { reason = 'terminated', key } = options
    const head = await this.#view.head()
    // A repeated call with the same key: the run is terminated already.
    if (head.status === 'terminated' && key !== undefined) return
    if (endings.has(head.status)) throw await this.#view.endedError()
    if (this.#view.live || (head.owner !== null && head.isOwnerAlive)) {
      await this.#host.send(this.timeline, 'terminate', { reason }, key, head.life)
      return
    }
    const send = leaveMessages(this.#host.engine, this.timeline, await this.state())
    await this.#change(() => [{ type: 'terminated', data: { reason } }], {
      wakeup: null,
      queue: null,
      status: 'terminated',
      ...(send.length > 0 && { send }),
    })
  }

  /** Resumes a failed run of which nothing was undone: takes back the last failure and continues from there. */
  async retry(options: { readonly key?: string } = {}): Promise<void> {
    checkOptions('retry', options, knownSignal)
    const { key } = options
    const head = await this.#view.head()
    const only = 'only a run that failed can be retried'
    if (!endings.has(head.status)) throw this.#view.conflict(only, (await this.status()).status)
    if (head.status !== 'failed') throw await this.#view.endedError(only)
    const { undone } = await this.state()
    if (Object.keys(undone).length > 0) {
      throw await this.#view.endedError('its steps were undone, so it cannot be retried: fork it or start another')
    }
    await this.#change(({ end, journal }) => {
      if (end?.kind !== 'failed') throw this.#view.conflict(only, end?.kind ?? 'running')
      return [{ type: 'retried', data: { ids: lastFailures(journal) }, ...(key !== undefined && { key }) }]
    })
  }

  /** Undoes every step from `to` on, in reverse, and continues from there. Default: with the same input. */
  async rollback(options: RunRollbackOptions): Promise<void> {
    await this.rollbackDecided(options, undefined)
  }

  /** @internal The caller has already checked for consumers of the undone entries. */
  async rollbackDecided(options: RunRollbackOptions, decided: readonly Consumer[] | undefined): Promise<void> {
    checkGivenOptions('rollback', options, knownRollback)
    checkValues('rollback', { to: options.to ?? null }, { to: [aStep] })
    const { to, seq, key, undo } = options
    const state = await this.state()
    if (wasAsked(state, key)) return
    const step = findStep(state.journal, to, this.timeline)
    if (state.rerun && !state.end) {
      const what = `${this.timeline} has not reached all steps that its re-run keeps: wait for it, or cancel the run`
      throw new RepriseError('CONFLICT', what, { timeline: this.timeline })
    }
    if (undo) await checkUndo(this.#host.engine, this.timeline, state, step.seq)
    const given = decided ?? options.consumed
    const consumed = await decideRollback(this.#host.kernel, timelineId(this.timeline), step.seq - 1, given)
    const keyed = key !== undefined && { key }
    const data = {
      to: step.id,
      ...('input' in options && { input: options.input }),
      ...(seq !== undefined && { seq }),
      ...keyed,
      ...(undo && { undo }),
      ...(consumed.length > 0 && { consumed }),
    }
    if (state.end) await this.#change((now) => (wasAsked(now, key) ? [] : [{ type: 'rollback', data, ...keyed }]))
    else await this.#mail('rollback', data, key)
  }

  /**
   * Repeats a step and the steps that depend on it; the others keep their results. The repeated steps are undone first, in
   * reverse, and are called under new idempotency keys. Rejects with RERUN_UNSOUND, and the reason, if a step cannot be
   * re-run alone. A repeated `key` has no effect, and returns empty lists. @example await run.rerun('transform')
   */
  async rerun(step: string, options: RunRerunOptions = {}): Promise<RerunPlan> {
    checkText('the step of rerun()', step)
    checkOptions('rerun', options, knownRerun)
    checkValues('rerun', options, { undo: ['inherited'], consumed: ['force'] })
    const { key, undo } = options
    const { engine, kernel } = this.#host
    const state = await this.state()
    if (wasAsked(state, key)) return { timeline: this.timeline, step, repeats: [], keeps: [] }
    const { id, ...plan } = planRerun(state, step, this.timeline)
    const { seq } = findStep(state.journal, id, this.timeline)
    if (undo) await checkUndo(engine, this.timeline, state, seq)
    const consumed = await decideRerun(kernel, this.timeline, state, { id, seq, consumed: options.consumed })
    const keyed = key === undefined ? {} : { key }
    const data = { to: id, ...keyed, ...(undo && { undo }), ...(consumed.length > 0 && { consumed }) }
    if (state.end) {
      await this.#change((now) => {
        if (wasAsked(now, key)) return []
        planRerun(now, id, this.timeline)
        return [{ type: 'rerun', data }]
      })
    } else await this.#mail('rerun', data, key)
    return plan
  }

  /** The steps that `rerun` would repeat and keep; changes nothing. */
  async planRerun(step: string): Promise<RerunPlan> {
    checkText('the step of planRerun()', step)
    const { id: _, ...plan } = planRerun(await this.state(), step, this.timeline)
    return plan
  }

  /** The steps of the run, with the steps that each depends on and those that its re-run would repeat. */
  async steps(): Promise<readonly GraphStep[]> {
    return graphOf(await this.state())
  }

  /** Undoes all steps in reverse and ends the run as cancelled, even if it has completed. Resolves once that is done. */
  async undo(options: RunUndoOptions = {}): Promise<void> {
    checkOptions('undo', options, knownUndo)
    checkValues('undo', options, undoValues)
    const { reason = 'undone', undo } = options
    const state = await this.state()
    const { end } = state
    if (end === null) await this.cancel({ ...options, reason }).catch(unlessEnded)
    else if (end.kind === 'completed' || end.kind === 'terminated') {
      if (undo) await checkUndo(this.#host.engine, this.timeline, state)
      await this.#change(() => [{ type: 'undo', data: { reason, ...(undo && { undo }) } }])
    }
    const { kind } = await whileAwaited(this.#view.ended({}), this.#host.engine.clock)
    // The run completed before it read the request.
    if (kind === 'completed') await this.undo(options)
  }

  /**
   * Creates another run with the same history up to that step. The fork then calls the step itself, or continues with
   * `result` as its outcome.
   */
  async fork(from: string, options: RunForkOptions = {}): Promise<WorkflowRun<Output>> {
    checkText('the step of fork()', from)
    checkOptions('fork', options, knownFork)
    const { engine, kernel } = this.#host
    const { by } = options
    const id = options.id ?? `${this.id}.fork-${newId(kernel.random)}`
    const state = await this.state()
    const edit = editOf({ ...options, ...('result' in options && { set: { [from]: options.result } }) })
    const edited = edit && stepEdits.of(state, edit, this.timeline)
    await forkRun(engine, {
      timeline: this.timeline,
      seq: edited?.seq ?? findStep(state.journal, from, this.timeline).seq - 1,
      to: this.definition.prefix + id,
      entries: edited?.entries ?? [],
      mark: markOf(kernel, this.timeline, edit, undefined),
      ...('input' in options && { input: options.input }),
      ...(by !== undefined && { by }),
    })
    return new WorkflowRun<Output>(this.#host, this.definition, id)
  }

  /**
   * Records a person's decision on a held step (`compensated`: it happened and was undone manually, so it fails) or on a
   * stuck compensation (done manually, or to be retried). The first decision is final; a different one is rejected with
   * CONFLICT.
   */
  async settle(step: string, outcome: StepOutcome, options: SettleOptions = {}): Promise<void> {
    checkText('the step of settle()', step)
    checkOptions('settle', options, knownSettle)
    const { by = 'somebody', result, key } = options
    const isUndone = outcome === 'compensated'
    const { error = isUndone ? `it was undone manually, according to ${by}` : 'settled as failed' } = options
    const id = commandIdOf(step)
    const fields = outcome === 'done' ? { result } : { error: { name: 'Error', message: error } }
    const { engine } = this.#host
    await settleOnce(
      engine,
      timelineId(this.timeline),
      { id, outcome, ...(outcome === 'done' && { result }) },
      async () => {
        await this.refuseEnded()
        await checkSettleable(engine, timelineId(this.timeline), id, outcome)
      },
      () => this.#mail('settle', { id, outcome, by, ...fields }, key),
    )
  }

  /** Retries a stuck compensation. */
  async resume(by = 'somebody'): Promise<void> {
    await this.#mail('resume', { by })
  }

  /** Starts an ended run over, under the same id. */
  async restart(input: unknown): Promise<void> {
    const head = await this.#view.head()
    if (endings.has(head.status)) await this.#change(() => [{ type: 'continued', data: { input, took: null } }])
  }

  async #mail(kind: string, data: unknown, key?: string): Promise<string> {
    await this.refuseEnded()
    // The mail names the life of the run that was found, so a later run under the same id never reads it.
    const id = await this.#host.send(this.timeline, kind, data, key, this.#view.life ?? undefined)
    await this.#refuseLate(id)
    return id
  }

  /** The store refuses to end a run that has unread mail, so mail that an ended run has not read was sent after its end. */
  async #refuseLate(id: string): Promise<void> {
    const head = await this.#host.engine.head(this.timeline)
    if (!head || head.mail === 0 || !endings.has(head.status)) return
    const { messages } = await this.#host.engine.inbox(head.timeline, head.mail)
    if (messages.some((message) => message.id === id)) throw await this.#view.endedError()
  }

  /**
   * @internal A run that does not exist yet may still be created; its mail waits for it. NOT_FOUND: the run existed and
   * has expired or was deleted.
   */
  async refuseEnded(): Promise<void> {
    const found = await this.#host.engine.head(this.timeline)
    if (found) refuseNotHere(found)
    const head = found && isHeadLost(found) ? await madeAgain(this.#host.kernel, found) : found
    if (head) this.#view.meet(head)
    else await this.#refuseForgotten()
    if (head && endings.has(head.status)) throw await this.#view.endedError()
  }

  async #refuseForgotten(): Promise<void> {
    const [past] = await this.#host.kernel.store.past([timelineId(this.timeline)])
    if (this.#view.life !== null || past!.forgottenAt > 0) throw this.#view.forgotten()
  }

  /** Applies a change from outside to a run that no process executes; no entry: nothing is changed. */
  async #change(
    entries: (state: RunState) => readonly { readonly type: string; readonly data: object; readonly key?: string }[],
    extras: CommitExtras = this.#due(),
  ): Promise<void> {
    const open = await whileAwaited(this.#host.take(this.timeline), this.#host.engine.clock)
    const time = Math.max(this.#host.engine.now(this.timeline), open.state.lastAt)
    try {
      const limit = open.state.end && extras.wakeup !== null ? wholeLimit(open.state, time) : {}
      const drafts = entries(open.state).map(({ data, ...entry }) => ({ ...entry, time, data: { ...data, ...limit } }))
      if (drafts.length > 0) await open.write(drafts, extras)
    } finally {
      await open.close()
    }
    this.#host.engine.dispatcher.wake()
    this.#host.notify(this.timeline)
  }

  #due() {
    return { wakeup: this.#host.engine.now(this.timeline), queue: queueOf(this.definition), status: 'waiting' }
  }

  /** The current state from history; ownership does not change. */
  async state(): Promise<RunState> {
    return await this.#view.state()
  }
}

/** Ignores the error of a run that ended before it read the request. */
function unlessEnded(error: unknown): void {
  if (!isReprise(error, 'ENDED')) throw error
}
