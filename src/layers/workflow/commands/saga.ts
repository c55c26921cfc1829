// Sagas: compensations in reverse order, each recorded. History and the replayed code determine which ones are due, so
// a crash neither repeats a recorded compensation nor forgets one. A compensation that fails permanently waits for a
// person: in place, or (`whenUndoFails: 'restore'`) with the run back before its saga and a report of the steps that
// were not undone. A fork undoes its own steps; inherited steps are undone only by choice, after the undo is recorded
// in the original's history (history/inherited.ts).

import { isReprise } from '../../../core/errors.ts'
import { type Inherited, ownerOf } from '../../../core/history/inheritance.ts'
import { decideRetry, patientRetry, type RetryPolicy, resolveRetry } from '../../../core/retry/retry.ts'
import { behind } from '../../../engine/model/definition.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { StepCall } from '../context.ts'
import { firstSeq } from '../history/dependants.ts'
import type { StandingStep } from '../history/entries.ts'
import { type Failure, toFailure } from '../history/failure.ts'
import { type ClaimHost, claimUndo } from '../history/inherited.ts'
import { itemsOf } from '../history/journal.ts'
import { noUndo, own, type RunState } from '../history/state.ts'
import type { Command } from '../run/command.ts'
import type { CommandRun } from '../run/command-host.ts'
import { enterStep, readableId } from '../run/scope.ts'
import { undoKeyOf } from '../run/step-key.ts'
import type { Tenure } from '../run/tenure.ts'

export interface Compensation {
  /** The command to undo. */
  readonly command: Command
  /** The outcome in history. `replaces` is set if the outcome was edited in a fork, so the step was never called. */
  readonly item: { readonly seq: number; readonly first?: number; readonly replaces?: number }
  readonly result: unknown
  /** `state` is the state of the run that made the call; keys and children belong to that run. */
  readonly call: (result: unknown, step: StepCall, state: RunState) => unknown
  readonly retry: RetryPolicy | undefined
}

/** The parts of a run that a saga uses. */
export interface SagaRun extends CommandRun {
  readonly open: { readonly id: string; readonly inherited: readonly Inherited[] }
  readonly kernel: Pick<Kernel, 'hash' | 'random'>
  readonly host: ClaimHost
  readonly definition: { readonly options: { readonly whenUndoFails?: 'hold' | 'restore' } }
  readonly tenure: Pick<Tenure, 'isLeaving' | 'leaving' | 'stopSignal'>
}

export class Saga {
  readonly #run: SagaRun
  #done: Compensation[] = []
  #isWorking = false
  /** Paths to undo while the run continues, by the id of the command that waits for the undo. */
  readonly #requests = new Map<string, readonly string[]>()

  constructor(run: SagaRun) {
    this.#run = run
  }

  /** Called in the order in which outcomes were recorded; compensations run in reverse. */
  add(compensation: Compensation): void {
    this.#done.push(compensation)
  }

  /** Drops the compensations below `path`: a completed iteration is not undone. */
  settle(path: string): void {
    this.#done = this.#done.filter(({ command }) => !command.id.startsWith(path))
  }

  clear(): void {
    this.#done = []
  }

  /** Undoes the steps below these paths, then records `done` for the command `id`. */
  undoBelow(id: string, paths: readonly string[]): void {
    this.#requests.set(id, paths)
    this.#run.code.execution.wake()
  }

  /** Called whenever the run is idle: continues the undos that `undoBelow` requested. */
  serve(): void {
    for (const [id, paths] of this.#requests) {
      const isTarget = (each: string) => paths.some((path) => each.startsWith(`${path}/`))
      // Calls in flight below the paths may have to be undone as well.
      if (this.#run.code.execution.isUndoableBelow(isTarget) || !this.advance(isTarget)) continue
      this.#requests.delete(id)
      this.#run.spawn(() => this.#run.recorder.record('done', { id }))
    }
  }

  /**
   * The compensations that this run is responsible for: its own, and those of its original if a person chose to undo
   * them too.
   */
  get #due(): readonly Compensation[] {
    const { open, state } = this.#run
    return this.#done.filter(
      ({ item }) =>
        item.replaces === undefined && (state.undoesInherited || ownerOf(open.inherited, firstSeq(item)) === null),
    )
  }

  /**
   * Returns true when nothing is left to undo. Otherwise the next compensation is in progress, or waits for its retry
   * time or for a person.
   */
  advance(isTarget: (id: string) => boolean = () => true): boolean {
    const { undone, undos } = this.#run.state
    const next = this.#due.findLast(({ command: { id } }) => isTarget(id) && !Object.hasOwn(undone, id))
    if (!next) return true
    if (this.#isWorking) return false
    const { isStuck, notBefore, failures } = own(undos, next.command.id, noUndo)
    if (isStuck) return false
    if (notBefore > this.#run.now()) {
      this.#run.alarms.setPassing('~undo', notBefore, () => void this.#run.code.execution.wake())
      return false
    }
    this.#isWorking = true
    this.#run.spawn(async () => {
      try {
        await this.#undo(next, failures)
      } finally {
        this.#isWorking = false
      }
    })
    return false
  }

  async #undo(one: Compensation, failures: number): Promise<void> {
    const run = this.#run
    const { id } = one.command
    try {
      const seq = firstSeq(one.item)
      const owner = ownerOf(run.open.inherited, seq)
      const state = owner === null ? run.state : await claimUndo(run.host, owner, { id, seq }, run.open.id)
      const step = this.#call(one, failures + 1, state)
      const place = { ...step, name: readableId(id), isUndo: true as const }
      await Promise.race([enterStep(place, () => one.call(one.result, step, state)), run.tenure.leaving])
    } catch (error) {
      if (run.tenure.isLeaving) return
      // Another run has undone the step first; record it as undone by that run.
      if (isReprise(error, 'ALREADY_UNDONE'))
        return await run.recorder.record('undone', { id, by: error.data.by ?? error.data.inheritedFrom })
      const now = run.now()
      const policy = resolveRetry(one.retry, patientRetry)
      const { again, delayMs, counts } = decideRetry(policy, failures + 1, error, {
        chance: () => run.kernel.random.number(),
        now,
      })
      const failure = toFailure(error)
      if (!again && run.definition.options.whenUndoFails === 'restore') return await this.#restore(one, failure)
      if (!again) return await run.recorder.record('stuck', { id, error: failure }, { status: 'stuck' })
      const n = counts ? failures + 1 : failures
      return await run.recorder.record(
        'undo.retry',
        { id, n, error: failure, at: now + delayMs },
        { status: 'compensating' },
      )
    }
    await run.recorder.record('undone', { id })
  }

  /**
   * Returns to before the first call that could be undone, records the steps that were not undone, and waits there
   * for a person.
   */
  async #restore(failed: Compensation, error: Failure): Promise<void> {
    const run = this.#run
    const { undone, journal } = run.state
    const due = this.#due
    const to = due[0]!.command.id
    const items = itemsOf(journal)
    const since = items.slice(items.findIndex((item) => 'id' in item && item.id === to))
    const registered = new Set(due.map(({ command }) => command.id))
    const notUndone = since.flatMap((item): StandingStep[] => {
      if (item.kind !== 'done' || Object.hasOwn(undone, item.id)) return []
      const isFailed = item.id === failed.command.id
      const why = isFailed ? error.message : registered.has(item.id) ? 'not undone' : 'it has no compensation'
      return [{ step: readableId(item.id), why }]
    })
    // A step that failed may still have happened outside, so its undo was due as well.
    if (!notUndone.some(({ step }) => step === readableId(failed.command.id))) {
      notUndone.push({ step: readableId(failed.command.id), why: error.message })
    }
    const data = { to, stands: notUndone, undone: Object.keys(undone).map(readableId), error }
    await run.recorder.record('restored', data, { status: 'held' })
  }

  #call({ command }: Compensation, attempt: number, state: RunState): StepCall {
    const heartbeat = async () => undefined
    const key = undoKeyOf(state, command.id, this.#run.code.keyOf(command, state), this.#run.kernel.hash)
    const call = { key, attempt, signal: this.#run.tenure.stopSignal, details: undefined, heartbeat }
    return { ...call, [behind]: this.#run.host.engine } as StepCall
  }
}
