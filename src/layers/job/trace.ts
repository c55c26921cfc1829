// What whoever traces sees of a job: one span per run in this process, and below it one per attempt at an item (at a batch,
// with `eachBatch`), from the moment in which it has its slot until its outcome is durable. Nothing of it exists while nobody
// traces.

import { beginTrace, type KeptTrace, type RunTrace, type TraceSpan } from '../../engine/base/tracing.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { wasLeft } from './beginning.ts'
import type { JobState } from './state.ts'
import type { Task } from './task.ts'

/** The run in this process, from its first shard on. */
export class JobTrace<T> {
  readonly #kernel: Kernel
  readonly #of: { readonly timeline: string; readonly kind: string; readonly name: string }
  /** The traceparent of whoever asked for this run. */
  readonly #asked: string | undefined
  #begun: { readonly run: RunTrace | null; readonly kept: KeptTrace } | null = null
  #attempts: AttemptSpans<T> | null = null

  /** `isAsked`: by somebody, and not because it was due. */
  constructor(kernel: Kernel, kind: string, name: string, isAsked: boolean) {
    this.#kernel = kernel
    this.#of = { timeline: `job/${name}`, kind, name }
    this.#asked = isAsked ? kernel.tracing?.started(this.#of) : undefined
  }

  /** Null: nobody traces. */
  get attempts(): AttemptSpans<T> | null {
    return this.#attempts
  }

  /** A shard begins here: what to keep in its history. */
  begin(open: Pick<OpenTimeline<JobState>, 'state' | 'isFork'>): KeptTrace {
    const past = wasLeft(open.state) ? open.state : null
    if (this.#begun) {
      const { run, kept } = this.#begun
      if (past?.span !== undefined) run?.link({ traceparent: past.span, why: 'resume' })
      return run ? { ...kept, ...(past?.trace !== undefined && { trace: past.trace }) } : keptOf(past)
    }
    const why = open.isFork ? 'fork' : 'resume'
    this.#begun = beginTrace(this.#kernel.tracing, { ...this.#of, past, asked: this.#asked, why })
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
  /** Tasks whose outcome is not durable yet. */
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

  /** Calls, with the span as what is current inside. */
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

  /** `retryMs`: until its next attempt; null: it was given up. */
  failed(task: Task<T>, error: unknown, retryMs: number | null): void {
    const held = this.#held.get(task)
    const about = { 'reprise.key': task.key, 'reprise.failed': task.attempts }
    if (held && retryMs === null) held.span.note('reprise.dead', about)
    else if (held) held.span.note('reprise.retry', { ...about, 'reprise.delay_ms': retryMs! })
    this.#end(task, { 'reprise.outcome': retryMs === null ? 'dead' : 'retry' }, error ?? String(error))
  }

  /** It is not settled here: the run stops, or another process has its shard. */
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
    // Of a batch, one that fails is an event; the span fails with the last of them.
    if (held.open === 0) held.span.end(facts, error)
  }
}
