// The code of a run: its execution against history, and the parts that restart with it. Entries that became durable are
// delivered to it; some of them make it start over.

import type { RepriseError } from '../../../core/errors.ts'
import type { Entry } from '../../../engine/history/history.ts'
import { Latch } from '../../../lib/waiting.ts'
import { Queries } from '../commands/queries.ts'
import { Saga, type SagaRun } from '../commands/saga.ts'
import { Signals } from '../commands/waits.ts'
import type { AnyWorkflow } from '../context.ts'
import type { Item } from '../history/entries.ts'
import { cancelledError } from '../history/failure.ts'
import { itemsOf } from '../history/journal.ts'
import { itemOf, type RunState } from '../history/state.ts'
import { type BoundRun, contextOf } from './bound-context.ts'
import type { Calls } from './calls.ts'
import type { Command } from './command.ts'
import { Ending, type EndingRun, type Outcome } from './ending.ts'
import { Execution } from './execution.ts'
import { type ExecutedRun, Hooks } from './hooks.ts'
import type { Recorder } from './recorder.ts'
import { Reuse } from './reuse.ts'
import type { RunTimeline } from './run-timeline.ts'
import { enterScope, leaveScope, stepName } from './scope.ts'
import { keyOf } from './step-key.ts'
import type { Tenure } from './tenure.ts'

/** The run that the code belongs to. */
export interface CodedRun extends BoundRun, EndingRun, ExecutedRun, SagaRun {
  readonly definition: AnyWorkflow
  readonly open: BoundRun['open'] & EndingRun['open'] & SagaRun['open'] & Pick<RunTimeline, 'watch'>
  readonly kernel: BoundRun['kernel'] & ExecutedRun['kernel'] & SagaRun['kernel']
  readonly host: BoundRun['host'] & EndingRun['host'] & SagaRun['host'] & { notify(timeline: string): void }
  readonly code: Code
  readonly calls: Calls
  readonly mail: EndingRun['mail'] & ExecutedRun['mail']
  readonly recorder: Recorder
  readonly tenure: Tenure
}

/** Entries after which the code runs from its start again. */
const restarts = new Set([
  ...['continued', 'rolled', 'rollback', 'undo', 'restored'],
  ...['rerun', 'rerunning', 'unkept'],
])

export class Code {
  readonly queries: Queries
  signals!: Signals
  saga!: Saga
  reuse!: Reuse
  ending: Ending
  execution!: Execution // Undefined until `begin`.
  readonly #run: CodedRun
  readonly #hooks: Hooks
  readonly #loaded = new Latch()
  readonly #replayed = new Latch()
  readonly #unwatch: () => void

  constructor(run: CodedRun) {
    this.#run = run
    this.queries = new Queries(run)
    this.ending = new Ending(run)
    this.#hooks = new Hooks(run)
    this.#unwatch = run.open.watch((entries) => this.#written(entries))
  }

  /** Set if the run was cancelled or its deadline passed. */
  get cancelled(): RepriseError | null {
    return this.#hooks.cancelled
  }

  cancelError(): RepriseError {
    return this.cancelled ?? cancelledError('cancelled')
  }

  keyOf(command: Command, state = this.#run.state): string {
    const { kernel, state: current } = this.#run
    return state === current ? command.key : (command.keyUsed ?? keyOf(state, command, kernel.hash))
  }

  /** Called when the data that a replay needs beside history is loaded. */
  loaded(): void {
    this.#loaded.set()
  }

  /** True if all of history was delivered and the code waits, or this process releases the run. */
  get isAtRest(): boolean {
    if (this.#run.tenure.isLeaving) return true
    return this.#loaded.isSet && (!this.execution || this.execution.isQuiet)
  }

  /** Resolves when `isAtRest` is true. */
  async atRest(): Promise<void> {
    while (!this.isAtRest) {
      if (!this.#loaded.isSet) await this.#loaded.wait()
      else await this.execution.whenQuiet()
    }
  }

  /** Resolves when all of history is delivered and everything that could run has run. */
  get replayed(): Promise<void> {
    return this.#replayed.wait()
  }

  wasReplayed(): void {
    this.#replayed.set()
  }

  /** Replays from history and continues. Called again when the run starts over. */
  begin(): void {
    const run = this.#run
    const { state, definition } = run
    if (this.execution) run.calls.isUntouched = false
    this.execution?.stop()
    run.alarms.clear()
    this.signals = new Signals(run)
    this.saga = new Saga(run)
    this.reuse = new Reuse(run)
    this.queries.clear()
    this.ending = new Ending(run)
    this.#hooks.begin()
    const execution = new Execution(this.#hooks, itemsOf(state.journal), state.startedAt, state.input)
    this.execution = execution
    execution.begin(() => {
      const settle = (outcome: Outcome) => this.#settle(execution, outcome)
      enterScope(execution.root, async () => await definition.run(contextOf(run, execution.root), state.input))
        .then(
          (value) => settle({ value }),
          (error) => settle({ error }),
        )
        .catch((error) => run.tenure.failed(error))
    })
  }

  #settle(execution: Execution, outcome: Outcome): void {
    // The run was blamed and is over already: the outcome of its code no longer counts.
    if (execution.isStopped || execution.isOver) return
    if (execution.blameIfLate()) return
    this.ending.codeEnded(execution.blamed && !this.#run.isDry ? { error: execution.blamed } : outcome)
    leaveScope(() => execution.over())
  }

  /** Nothing is delivered any longer. */
  stop(): void {
    this.#unwatch()
    this.execution?.stop()
    this.#loaded.set()
  }

  #written(entries: readonly Entry[]): void {
    const { state, definition, recorder } = this.#run
    // The code has not begun, or is about to start over: the state includes these entries already.
    if (!this.execution) {
      if (this.#loaded.isSet && state.isAdmitted) leaveScope(() => this.begin())
      return
    }
    if (entries.some(({ type }) => restarts.has(type))) {
      leaveScope(() => this.begin())
      return
    }
    const { on } = definition.options.checkpoint ?? {}
    for (const entry of entries) {
      const item = entry.type === 'reused' ? reusedItem(state, entry.seq) : itemOf(entry)
      if (on && item?.kind === 'done' && on.includes(stepName(item.id))) recorder.checkpoint('event')
      if (!item) this.#noted(entry)
      else if (!recorder.wasDelivered(entry)) this.execution.offer(item)
    }
  }

  /** Handles entries that are not outcomes of commands but change the run's next actions. */
  #noted(entry: Entry): void {
    switch (entry.type) {
      case 'settled':
        for (const command of this.execution.open) if (command.id === (entry.data as { id: string }).id) command.start()
        return
      case 'updated':
        this.#run.host.notify(this.#run.open.id)
        return
      case 'resumed':
        leaveScope(() => this.execution.startAll())
        this.execution.wake()
        return
      case 'undone':
        this.execution.wake()
    }
  }
}

/** The outcome that this entry returned to the journal. */
function reusedItem({ journal }: RunState, seq: number): Item | null {
  return itemsOf(journal).findLast((item) => item.seq === seq) ?? null
}
