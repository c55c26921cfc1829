// Sagas: compensations in reverse order, each recorded. Which are due follows from history and from the code that was
// replayed, so a crash anywhere neither repeats a recorded one nor forgets any. One that fails for good waits for a person:
// where it is, or, if the workflow says so, with the run back before its saga and a report of what stands. A fork undoes what
// it did itself; the steps of its original only by choice, once the history of the original has it (inherited.ts).

import { decideRetry, patientRetry, type RetryPolicy, resolveRetry } from '../../../core/calls/retry.ts'
import { isReprise } from '../../../core/errors.ts'
import { type Inherited, ownerOf } from '../../../core/history/inheritance.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { StepCall } from '../context.ts'
import type { Standing } from '../history/entries.ts'
import { type Failure, toFailure } from '../history/failure.ts'
import { type ClaimHost, claimUndo } from '../history/inherited.ts'
import { itemsOf } from '../history/journal.ts'
import { noUndo, own, type RunState } from '../history/state.ts'
import type { CommandRun } from '../run/asking.ts'
import type { Command } from '../run/command.ts'
import { undoKeyOf } from '../run/key.ts'
import { enterStep, readableId } from '../run/scope.ts'

export interface Compensation {
  /** What it undoes. */
  readonly command: Command
  /** The outcome in history. `replaces`: it was edited in a fork, so nobody did it. */
  readonly item: { readonly seq: number; readonly replaces?: number }
  readonly result: unknown
  /** `state`: that of the run that did it, whose keys and children they are. */
  readonly call: (result: unknown, step: StepCall, state: RunState) => unknown
  readonly retry: RetryPolicy | undefined
}

/** What a saga needs of its run. */
export interface SagaRun extends CommandRun {
  readonly open: { readonly id: string; readonly inherited: readonly Inherited[] }
  readonly kernel: Pick<Kernel, 'hash'>
  readonly host: ClaimHost
  readonly definition: { readonly options: { readonly whenUndoFails?: 'hold' | 'restore' } }
  /** Fires when this process must let go of the run… */
  readonly stopSignal: AbortSignal
  /** …and then this rejects. It never resolves. */
  readonly leaving: Promise<never>
}

export class Saga {
  readonly #run: SagaRun
  #done: Compensation[] = []
  #isWorking = false
  /** What is to be undone while the run goes on, by the command that waits for it. */
  readonly #asked = new Map<string, readonly string[]>()

  constructor(run: SagaRun) {
    this.#run = run
  }

  /** In the order in which outcomes were recorded: that is the order to undo, from the end. */
  add(compensation: Compensation): void {
    this.#done.push(compensation)
  }

  /** An iteration that has ended stands; so does what it did. */
  settle(path: string): void {
    this.#done = this.#done.filter(({ command }) => !command.id.startsWith(path))
  }

  clear(): void {
    this.#done = []
  }

  /** Undoes what was done below these paths, and then says so under that id. */
  undoBelow(id: string, paths: readonly string[]): void {
    this.#asked.set(id, paths)
    this.#run.execution.wake()
  }

  /** Called whenever nothing else is going on: goes on with what was asked for. */
  serve(): void {
    for (const [id, paths] of this.#asked) {
      const isTarget = (each: string) => paths.some((path) => each.startsWith(`${path}/`))
      // What is still in flight there may have to be undone as well.
      if (this.#run.execution.isUndoableBelow(isTarget) || !this.advance(isTarget)) continue
      this.#asked.delete(id)
      this.#run.spawn(() => this.#run.record('done', { id }))
    }
  }

  /** What this run undoes: its own steps, and those of its original where a person chose so. */
  get #due(): readonly Compensation[] {
    const { open, state } = this.#run
    return this.#done.filter(
      ({ item }) =>
        item.replaces === undefined && (state.undoesInherited || ownerOf(open.inherited, item.seq) === null),
    )
  }

  /** True when nothing is left to undo; otherwise the next one is under way, waits for its time, or for a person. */
  advance(isTarget: (id: string) => boolean = () => true): boolean {
    const { undone, undos } = this.#run.state
    const next = this.#due.findLast(({ command: { id } }) => isTarget(id) && !Object.hasOwn(undone, id))
    if (!next) return true
    if (this.#isWorking) return false
    const { isStuck, notBefore, failures } = own(undos, next.command.id, noUndo)
    if (isStuck) return false
    if (notBefore > this.#run.now()) {
      this.#run.alarms.setPassing('~undo', notBefore, () => void this.#run.execution.wake())
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
      const owner = ownerOf(run.open.inherited, one.item.seq)
      const state =
        owner === null ? run.state : await claimUndo(run.host, owner, { id, seq: one.item.seq }, run.open.id)
      const step = this.#call(one, failures + 1, state)
      const place = { ...step, name: readableId(id), isUndo: true as const }
      await Promise.race([enterStep(place, () => one.call(one.result, step, state)), run.leaving])
    } catch (error) {
      if (run.isLeaving) return
      // Another was first: it is undone, and not by this run.
      if (isReprise(error, 'ALREADY_UNDONE'))
        return await run.record('undone', { id, by: error.data.by ?? error.data.inheritedFrom })
      const now = run.now()
      const policy = resolveRetry(one.retry, patientRetry)
      const { again, delayMs, counts } = decideRetry(policy, failures + 1, error, { chance: () => run.chance(), now })
      const failure = toFailure(error)
      if (!again && run.definition.options.whenUndoFails === 'restore') return await this.#restore(one, failure)
      if (!again) return await run.record('stuck', { id, error: failure }, { status: 'compensation-stuck' })
      const n = counts ? failures + 1 : failures
      return await run.record('undo.retry', { id, n, error: failure, at: now + delayMs }, { status: 'compensating' })
    }
    await run.record('undone', { id })
  }

  /** Back to before the first call that could be undone, with a report of what stands; there it waits for a person. */
  async #restore(failed: Compensation, error: Failure): Promise<void> {
    const run = this.#run
    const { undone, journal } = run.state
    const due = this.#due
    const to = due[0]!.command.id
    const items = itemsOf(journal)
    const since = items.slice(items.findIndex((item) => 'id' in item && item.id === to))
    const registered = new Set(due.map(({ command }) => command.id))
    const stands = since.flatMap((item): Standing[] => {
      if (item.kind !== 'done' || Object.hasOwn(undone, item.id)) return []
      const isFailed = item.id === failed.command.id
      const why = isFailed ? error.message : registered.has(item.id) ? 'not undone' : 'it says of no way to undo it'
      return [{ step: readableId(item.id), why }]
    })
    // A step that failed here may have happened outside: its undo was due as well.
    if (!stands.some(({ step }) => step === readableId(failed.command.id))) {
      stands.push({ step: readableId(failed.command.id), why: error.message })
    }
    const data = { to, stands, undone: Object.keys(undone).map(readableId), error }
    await run.record('restored', data, { status: 'held' })
  }

  #call({ command }: Compensation, attempt: number, state: RunState): StepCall {
    const heartbeat = async () => undefined
    const key = undoKeyOf(state, command.id, this.#run.keyOf(command, state), this.#run.kernel.hash)
    return { key, attempt, signal: this.#run.stopSignal, details: undefined, heartbeat }
  }
}
