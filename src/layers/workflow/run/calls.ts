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
  /** By the id of their command. */
  readonly #inFlight = new Map<string, CallInFlight>()

  constructor(run: CallingRun) {
    this.#run = run
    this.trace = run.isDry ? null : traceOf(run)
  }

  get isCalling(): boolean {
    return this.#inFlight.size > 0
  }

  get count(): number {
    return this.#inFlight.size
  }

  /** The ids of the commands, with their calls. */
  get inFlight(): Iterable<readonly [string, CallInFlight]> {
    return this.#inFlight
  }

  started(id: string, call: CallInFlight): void {
    this.#inFlight.set(id, call)
    this.#run.host.callsStarted += 1
  }

  ended(id: string): void {
    this.#inFlight.delete(id)
  }

  /** Aborts the call of this command, if one is in flight. Default: all calls. */
  abort(error: unknown, id?: string): void {
    if (id !== undefined) this.#inFlight.get(id)?.abort(error)
    else for (const call of this.#inFlight.values()) call.abort(error)
  }

  /** Records the intent of slow calls, so that people see them and new code must issue them again. */
  noteSlow(): void {
    const { state, kernel, recorder } = this.#run
    const since = kernel.clock.elapsed() - slowMs
    for (const [id, call] of this.#inFlight) {
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
