// The trace of a job: one span per run in this process, and below it one per attempt at an item (or at a batch, with
// `eachBatch`), from when it takes its slot until its outcome is durable. Nothing is created without a tracer.

import { beginTrace, type KeptTrace, type RunTrace, type TraceSpan } from '../../engine/base/tracing.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { wasLeft } from './round-start.ts'
import type { JobState } from './state.ts'
import type { Task } from './task.ts'

/** The run in this process, from its first shard on. */
export class JobTrace<T> {
  readonly #kernel: Kernel
  readonly #of: { readonly timeline: string; readonly kind: string; readonly name: string }
  /** The traceparent of the caller that started this run. */
  readonly #callerTrace: string | undefined
  #begun: { readonly run: RunTrace | null; readonly kept: KeptTrace } | null = null
  #attempts: AttemptSpans<T> | null = null

  /** `isAsked`: a caller started the run; it was not just due. */
  constructor(kernel: Kernel, kind: string, name: string, isAsked: boolean) {
    this.#kernel = kernel
    this.#of = { timeline: `job/${name}`, kind, name }
    this.#callerTrace = isAsked ? kernel.tracing?.started(this.#of) : undefined
  }

  /** Null if the run is not traced. */
  get attempts(): AttemptSpans<T> | null {
    return this.#attempts
  }

  /** A shard begins here; returns the trace to store in its history. */
  begin(open: Pick<OpenTimeline<JobState>, 'state' | 'isFork'>): KeptTrace {
    const past = wasLeft(open.state) ? open.state : null
    if (this.#begun) {
      const { run, kept } = this.#begun
      if (past?.span !== undefined) run?.link({ traceparent: past.span, why: 'resume' })
      return run ? { ...kept, ...(past?.trace !== undefined && { trace: past.trace }) } : keptOf(past)
    }
    const why = open.isFork ? 'fork' : 'resume'
    this.#begun = beginTrace(this.#kernel.tracing, { ...this.#of, past, callerTrace: this.#callerTrace, why })
    const { run, kept } = this.#begun
    if (run) this.#attempts = new AttemptSpans(run, this.#of.name)
    return kept
  }

  note(event: string, facts: Readonly<Record<string, string | number>>): void {
    this.#begun?.run?.note(event, facts)
  }

  left(because: string, error?: unknown): void {
    this.#begun?.run?.left(because, error)
  }
}

function keptOf(past: JobState | null): KeptTrace {
  return {
    ...(past?.trace !== undefined && { trace: past.trace }),
    ...(past?.span !== undefined && { span: past.span }),
  }
}

interface Held {
  readonly span: TraceSpan
  /** The number of tasks whose outcome is not durable yet. */
  open: number
}

export class AttemptSpans<T> {
  readonly #run: RunTrace
  readonly #name: string
  readonly #held = new Map<Task<T>, Held>()

  constructor(run: RunTrace, name: string) {
    this.#run = run
    this.#name = name
  }

  /** Makes the call with the span as the current one. */
  call<R>(task: Task<T>, call: (traceparent: string | undefined) => R): R {
    const facts = { 'reprise.key': task.key, 'reprise.attempt': task.attempts + 1 }
    return this.#call([task], `item ${this.#name}`, facts, call)
  }

  batch<R>(tasks: readonly Task<T>[], attempt: number, call: (traceparent: string | undefined) => R): R {
    const facts = { 'reprise.items': tasks.length, 'reprise.attempt': attempt }
    return this.#call(tasks, `batch ${this.#name}`, facts, call)
  }

  done(task: Task<T>): void {
    this.#end(task, {}, undefined)
  }

  /** `retryMs` is the time until the next attempt; null if the item became a dead letter. */
  failed(task: Task<T>, error: unknown, retryMs: number | null): void {
    const held = this.#held.get(task)
    const about = { 'reprise.key': task.key, 'reprise.failed': task.attempts }
    if (held && retryMs === null) held.span.note('reprise.dead', about)
    else if (held) held.span.note('reprise.retry', { ...about, 'reprise.delay_ms': retryMs! })
    this.#end(task, { 'reprise.outcome': retryMs === null ? 'dead' : 'retry' }, error ?? String(error))
  }

  /** The task is not settled here: the run stops, or another process owns its shard. */
  cut(task: Task<T>): void {
    this.#end(task, { 'reprise.outcome': 'cut' }, undefined)
  }

  note(event: string, facts: Readonly<Record<string, string | number>>): void {
    this.#run.note(event, facts)
  }

  #call<R>(
    tasks: readonly Task<T>[],
    name: string,
    facts: Readonly<Record<string, string | number>>,
    call: (traceparent: string | undefined) => R,
  ): R {
    const span = this.#run.begin(name, facts, true)
    const held = { span, open: tasks.length }
    for (const task of tasks) this.#held.set(task, held)
    return span.within(() => call(span.traceparent))
  }

  #end(task: Task<T>, facts: Readonly<Record<string, string>>, error: unknown): void {
    const held = this.#held.get(task)
    if (!held) return
    this.#held.delete(task)
    held.open -= 1
    // A failed item of a batch is an event; the span fails with the last failure.
    if (held.open === 0) held.span.end(facts, error)
  }
}
