// The log of the work in this process, as JSON rows: runs that begin, resume and end, steps, items and their retries and
// failures, and leases that were lost. It is the tracer of the engine, so every model that can be traced can be logged.

import type { Reprise } from '../engine/api/reprise.ts'
import type { RunTrace, TracedRun, TraceFacts, TraceSpan, Tracing } from '../engine/base/tracing.ts'
import { hostOf } from '../engine/host/host.ts'
import type { Output } from './output.ts'

type Row = Readonly<Record<string, unknown>>
type Log = (row: Row) => void

export function logWork(engine: Reprise, output: Output): void {
  const log: Log = (row) => output.log({ level: 'info', ...row })
  const { kernel } = hostOf(engine)
  kernel.tracing = new WorkLog(log)
  const lost = (row: Row) => log({ level: 'warn', kind: 'lease', event: 'lost', ...row })
  engine.events.on('fenced', ({ timeline, epoch }) => lost({ timeline, epoch }))
  engine.events.on('worker-retired', ({ worker, because }) => lost({ worker, because }))
  engine.events.on('checkpoint-failed', ({ timeline, error }) => {
    log({ level: 'error', kind: 'checkpoint', event: 'failure', timeline, ...errorOf(error) })
  })
}

class WorkLog implements Tracing {
  readonly #log: Log
  readonly #runs = new Map<string, RunTrace>()

  constructor(log: Log) {
    this.#log = log
  }

  started(): undefined {
    return undefined
  }

  run({ timeline, kind, name, isResumed, isFork }: TracedRun): RunTrace {
    const of = { timeline, model: kind, name }
    const log: Log = (row) => this.#log({ ...row, ...of })
    const began = performance.now()
    log({ kind: 'run', event: isResumed ? 'resume' : 'start', ...(isFork && { isFork }) })
    const run = new RunLog(log, (because, error) => {
      if (this.#runs.get(timeline) === run) this.#runs.delete(timeline)
      const level = error === undefined ? 'info' : 'error'
      log({ level, kind: 'run', event: 'end', because, ms: msSince(began), ...errorOf(error) })
    })
    this.#runs.set(timeline, run)
    return run
  }

  traceOf(timeline: string): RunTrace | null {
    return this.#runs.get(timeline) ?? null
  }

  within<T>(_traceparent: string, call: () => T): T {
    return call()
  }
}

class RunLog implements RunTrace {
  readonly traceparent = undefined
  readonly #log: Log
  readonly #onLeft: (because: string, error: unknown) => void
  readonly #steps = new Map<string, number>()
  #hasLeft = false

  constructor(log: Log, onLeft: (because: string, error: unknown) => void) {
    this.#log = log
    this.#onLeft = onLeft
  }

  attempt<T>(
    { step, attempt, key }: { readonly step: string; readonly attempt: number; readonly key: string },
    call: (traceparent: string | undefined) => T,
  ): T {
    if (!this.#steps.has(step)) this.#steps.set(step, performance.now())
    const of = { kind: 'step', step, attempt, key }
    this.#log({ ...of, event: attempt > 1 ? 'retry' : 'start' })
    const failed = (error: unknown) => {
      this.#log({ ...of, level: 'warn', event: 'failure', ...errorOf(error) })
      throw error
    }
    try {
      const made = call(undefined)
      return made instanceof Promise ? (made.catch(failed) as T) : made
    } catch (error) {
      return failed(error)
    }
  }

  ended(step: string, error?: unknown): void {
    const began = this.#steps.get(step)
    if (began === undefined) return
    this.#steps.delete(step)
    const level = error === undefined ? 'info' : 'error'
    this.#log({ level, kind: 'step', step, event: 'end', ms: msSince(began), ...errorOf(error) })
  }

  begin(name: string, facts: TraceFacts): TraceSpan {
    const [kind] = name.split(' ', 1)
    return new WorkPiece((row) => this.#log({ kind, ...row }), factsOf(facts))
  }

  note(event: string, facts: TraceFacts = {}): void {
    this.#log({ kind: 'run', event: wordOf(event), ...factsOf(facts) })
  }

  link(): void {}

  left(because: string, error?: unknown): void {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.#onLeft(because, error)
  }
}

/** An item, a batch, a call or a checkpoint. */
class WorkPiece implements TraceSpan {
  readonly traceparent = undefined
  readonly #log: Log
  readonly #facts: Row
  readonly #began = performance.now()
  #hasEnded = false

  constructor(log: Log, facts: Row) {
    this.#log = log
    this.#facts = facts
    log({ event: Number(facts.attempt ?? 1) > 1 ? 'retry' : 'start', ...facts })
  }

  within<T>(call: () => T): T {
    return call()
  }

  note(event: string, facts: TraceFacts = {}): void {
    const word = wordOf(event)
    // The row of the next attempt has the event `retry`.
    const named = word === 'retry' ? 'will-retry' : word
    this.#log({ level: 'warn', event: named, ...this.#facts, ...factsOf(facts) })
  }

  end(facts: TraceFacts = {}, error?: unknown): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    const outcome = { ...this.#facts, ...factsOf(facts), ms: msSince(this.#began), ...errorOf(error) }
    this.#log({
      level: error === undefined ? 'info' : 'warn',
      event: error === undefined ? 'end' : 'failure',
      ...outcome,
    })
  }
}

/** @example wordOf('reprise.dead') // 'dead' */
function wordOf(event: string): string {
  return event.replace(/^reprise\./, '')
}

function factsOf(facts: TraceFacts): Row {
  return Object.fromEntries(Object.entries(facts).map(([name, value]) => [wordOf(name), value]))
}

function errorOf(error: unknown): Row {
  if (error === undefined) return {}
  const { message, code } = (error ?? {}) as { message?: unknown; code?: unknown }
  return { message: String(message ?? error), ...(typeof code === 'string' && { code }) }
}

function msSince(began: number): number {
  return Math.round((performance.now() - began) * 10) / 10
}
