// What traces need of the engine: a place for whoever traces, asked by the models around what they call outside. Null almost
// everywhere: then it costs one look. A tracer that throws is the tracer's problem: those here must not.

export interface TracedRun {
  readonly timeline: string
  readonly kind: string
  readonly name: string
  /** The traceparent (W3C) that was kept when it was started; undefined: nobody traced then. */
  readonly trace: string | undefined
  /** It was in memory before, here or elsewhere: this goes on with it. */
  readonly isResumed: boolean
  /** Its history began as that of another run. */
  readonly isFork: boolean
  /** If left out: to `trace`, where it is resumed or a fork. */
  readonly links?: readonly TraceLink[]
}

export interface TraceLink {
  readonly traceparent: string
  readonly why: 'resume' | 'fork' | 'savepoint' | 'asked'
}

type TracedName = Pick<TracedRun, 'timeline' | 'kind' | 'name'>

export type TraceFacts = Readonly<Record<string, string | number | boolean>>

/** One stay of a run in memory. All spans below it end with it at the latest. */
export interface RunTrace {
  /** Of this stay; undefined: not sampled. */
  readonly traceparent: string | undefined
  /** Calls, with the attempt as what is current inside, and its traceparent for programs elsewhere; undefined: not sampled. */
  attempt<T>(
    of: { readonly step: string; readonly attempt: number; readonly key: string },
    call: (traceparent: string | undefined) => T,
  ): T
  /** What became of a step is recorded. */
  ended(step: string, error?: unknown): void
  /** A span below this stay, which the caller ends. `isCall`: it goes to the outside. */
  begin(name: string, facts: TraceFacts, isCall: boolean): TraceSpan
  note(event: string, facts?: TraceFacts): void
  link(link: TraceLink): void
  /** It leaves memory. */
  left(because: string, error?: unknown): void
}

export interface TraceSpan {
  /** For programs elsewhere; undefined: not sampled. */
  readonly traceparent: string | undefined
  /** Calls, with this span as what is current inside. */
  within<T>(call: () => T): T
  note(event: string, facts?: TraceFacts): void
  /** Once; further calls do nothing. */
  end(facts?: TraceFacts, error?: unknown): void
}

export interface Tracing {
  /** Somebody starts a run: the traceparent to keep with it. */
  started(of: TracedName): string | undefined
  run(of: TracedRun): RunTrace
  /** The stay of this run in memory, if it is traced. */
  traceOf(timeline: string): RunTrace | null
  /** Calls with this traceparent, of a request, as what is current. */
  within<T>(traceparent: string, call: () => T): T
}

/** What the history of a run keeps of its traces, as traceparents. */
export interface KeptTrace {
  /** Of its start: all its stays belong to that trace. */
  readonly trace?: string
  /** Of its last stay. */
  readonly span?: string
}

export interface TracedResidency extends TracedName {
  /** What was kept of the stays before; null: it is the first. */
  readonly past: KeptTrace | null
  /** Of whoever asked for this stay. */
  readonly asked: string | undefined
  /** A fork, or a run from a savepoint, goes its own way: it is only linked to what it was made of. */
  readonly why: Exclude<TraceLink['why'], 'asked'>
}

/** A stay begins: its trace, and what to keep for the next one. Without a tracer, what was kept stays. */
export function beginTrace(
  tracing: Tracing | null | undefined,
  { past, asked, why, ...of }: TracedResidency,
): { readonly run: RunTrace | null; readonly kept: KeptTrace } {
  if (!tracing) return { run: null, kept: keptOf(past?.trace, past?.span) }
  const trace = (why === 'resume' ? past?.trace : undefined) ?? asked
  const links: TraceLink[] = []
  const last = past?.span ?? past?.trace
  if (last !== undefined) links.push({ traceparent: last, why })
  if (asked !== undefined && asked !== trace) links.push({ traceparent: asked, why: 'asked' })
  const run = tracing.run({ ...of, trace, isResumed: past !== null, isFork: why === 'fork', links })
  return { run, kept: keptOf(trace ?? run.traceparent, run.traceparent) }
}

function keptOf(trace: string | undefined, span: string | undefined): KeptTrace {
  return { ...(trace !== undefined && { trace }), ...(span !== undefined && { span }) }
}
