// The port between the engine and a tracer: models call it around their outside calls. Mostly null, at the cost of one
// check.
// The methods must not throw: the tracer handles its own errors.

export interface TracedRun {
  readonly timeline: string
  readonly kind: string
  readonly name: string
  /** The traceparent (W3C) stored when the run was started. Undefined: it was not traced. */
  readonly trace: string | undefined
  /** The run was in memory before, in this process or another; this residency resumes it. */
  readonly isResumed: boolean
  /** The run's history began as that of another run. */
  readonly isFork: boolean
  /** Default: a link to `trace` if the run is resumed or is a fork. */
  readonly links?: readonly TraceLink[]
}

export interface TraceLink {
  readonly traceparent: string
  readonly why: 'resume' | 'fork' | 'savepoint' | 'asked'
}

type TracedName = Pick<TracedRun, 'timeline' | 'kind' | 'name'>

export type TraceFacts = Readonly<Record<string, string | number | boolean>>

/** One residency of a run in memory. All spans below it end with it at the latest. */
export interface RunTrace {
  /** The traceparent of this residency. Undefined: not sampled. */
  readonly traceparent: string | undefined
  /**
   * Runs `call` with the attempt as the current span, and passes its traceparent for other programs. Undefined: not
   * sampled.
   */
  attempt<T>(
    of: { readonly step: string; readonly attempt: number; readonly key: string },
    call: (traceparent: string | undefined) => T,
  ): T
  /** The outcome of a step was recorded. */
  ended(step: string, error?: unknown): void
  /** A span below this residency; the caller ends it. `isCall`: the span is an outside call. */
  begin(name: string, facts: TraceFacts, isCall: boolean): TraceSpan
  note(event: string, facts?: TraceFacts): void
  link(link: TraceLink): void
  /** The run leaves memory. */
  left(because: string, error?: unknown): void
}

export interface TraceSpan {
  /** For other programs. Undefined: not sampled. */
  readonly traceparent: string | undefined
  /** Runs `call` with this span as the current one. */
  within<T>(call: () => T): T
  note(event: string, facts?: TraceFacts): void
  /** Takes effect once; further calls do nothing. */
  end(facts?: TraceFacts, error?: unknown): void
}

export interface Tracing {
  /** A run is started. Returns the traceparent to store with it. */
  started(of: TracedName): string | undefined
  run(of: TracedRun): RunTrace
  /** The current residency of this run, if it is traced. */
  traceOf(timeline: string): RunTrace | null
  /** Runs `call` with this traceparent (of a request) as the current one. */
  within<T>(traceparent: string, call: () => T): T
}

/** The traceparents that a run's history stores. */
export interface KeptTrace {
  /** That of its start: all residencies belong to this trace. */
  readonly trace?: string
  /** That of its last residency. */
  readonly span?: string
}

export interface TracedResidency extends TracedName {
  /** Stored by earlier residencies. Null: this is the first one. */
  readonly past: KeptTrace | null
  /** The traceparent of the caller that requested this residency. */
  readonly callerTrace: string | undefined
  /** A fork, or a run from a savepoint, gets a trace of its own, linked to its origin. */
  readonly why: Exclude<TraceLink['why'], 'asked'>
}

/** Starts the trace of a residency. `kept` is stored for the next one; without a tracer, the stored values are kept. */
export function beginTrace(
  tracing: Tracing | null | undefined,
  { past, callerTrace, why, ...of }: TracedResidency,
): { readonly run: RunTrace | null; readonly kept: KeptTrace } {
  if (!tracing) return { run: null, kept: keptOf(past?.trace, past?.span) }
  const trace = (why === 'resume' ? past?.trace : undefined) ?? callerTrace
  const links: TraceLink[] = []
  const last = past?.span ?? past?.trace
  if (last !== undefined) links.push({ traceparent: last, why })
  if (callerTrace !== undefined && callerTrace !== trace) links.push({ traceparent: callerTrace, why: 'asked' })
  const run = tracing.run({ ...of, trace, isResumed: past !== null, isFork: why === 'fork', links })
  return { run, kept: keptOf(trace ?? run.traceparent, run.traceparent) }
}

function keptOf(trace: string | undefined, span: string | undefined): KeptTrace {
  return { ...(trace !== undefined && { trace }), ...(span !== undefined && { span }) }
}
