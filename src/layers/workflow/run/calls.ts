// The calls of a run to the outside that are in flight. Slow ones have their intent recorded.

import type { Clock } from '../../../core/store/ports.ts'
import type { RunTrace, Tracing } from '../../../engine/base/tracing.ts'
import { noCommand, own } from '../history/state.ts'
import type { CommandRun } from './command-host.ts'
import type { RunTimeline } from './run-timeline.ts'

/** A call that takes longer than this has its intent recorded. */
const slowMs = 1000

/** One call in flight. */
export interface CallInFlight {
  /** By the monotonic clock. */
  readonly startedAt: number
  /** The time of the last sign of life: the start or the last heartbeat. */
  readonly aliveAt: number
  /** Null if the call did not read its key. */
  readonly keyUsed: string | null
  /** Its intent is in history, or will be. */
  isNoted: boolean
  abort(error: unknown): void
}

/** The parts of a run that its calls use. */
export interface CallingRun extends Pick<CommandRun, 'state' | 'recorder' | 'spawn'> {
  readonly open: Pick<RunTimeline, 'id' | 'seq' | 'isFork'>
  readonly definition: { readonly name: string }
  readonly kernel: { readonly clock: Clock; tracing?: Tracing | null }
  readonly host: { callsStarted: number }
  readonly isDry: boolean
}

export class Calls {
  /** No process has executed the run before, or the last owner released it with nothing in flight. */
  isUntouched = false
  /** Null if the run is not traced. */
  readonly trace: RunTrace | null
  readonly #run: CallingRun
  /** The only call in flight: a run that awaits each step has no more, and a map that loses its last entry is made anew. */
  #onlyId: string | null = null
  #only: CallInFlight | null = null
  /** By the id of their command: all calls in flight, once there were two. */
  #several: Map<string, CallInFlight> | null = null

  constructor(run: CallingRun) {
    this.#run = run
    this.trace = run.isDry ? null : traceOf(run)
  }

  get isCalling(): boolean {
    return this.count > 0
  }

  get count(): number {
    return this.#several ? this.#several.size : this.#only ? 1 : 0
  }

  /** The ids of the commands, with their calls. */
  get inFlight(): Iterable<readonly [string, CallInFlight]> {
    if (this.#several) return this.#several
    return this.#only ? [[this.#onlyId!, this.#only]] : []
  }

  started(id: string, call: CallInFlight): void {
    this.#run.host.callsStarted += 1
    if (this.#several === null && (this.#only === null || this.#onlyId === id)) {
      this.#onlyId = id
      this.#only = call
      return
    }
    this.#several ??= new Map(this.inFlight)
    this.#only = null
    this.#several.set(id, call)
  }

  ended(id: string): void {
    if (this.#several) this.#several.delete(id)
    else if (this.#onlyId === id) this.#only = null
  }

  /** Aborts the call of this command, if one is in flight. Default: all calls. */
  abort(error: unknown, id?: string): void {
    for (const [each, call] of this.inFlight) if (id === undefined || each === id) call.abort(error)
  }

  /** Records the intent of slow calls, so that people see them and new code must issue them again. */
  noteSlow(): void {
    const { state, kernel, recorder } = this.#run
    const since = kernel.clock.elapsed() - slowMs
    for (const [id, call] of this.inFlight) {
      if (call.isNoted || call.startedAt > since) continue
      call.isNoted = true
      if (!own(state.open, id, noCommand).began) {
        const { keyUsed } = call
        this.#run.spawn(() => recorder.record('began', { id, ...(keyUsed !== null && { key: keyUsed }) }))
      }
    }
  }
}

function traceOf({ open, state, definition, kernel }: CallingRun): RunTrace | null {
  const trace = state.started?.trace
  const of = { timeline: open.id, kind: 'workflow', name: definition.name, trace, isResumed: open.seq > 1 }
  return kernel.tracing?.run({ ...of, isFork: open.isFork }) ?? null
}
