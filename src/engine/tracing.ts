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
}

/** One stay of a run in memory. */
export interface RunTrace {
  /** Calls, with the attempt as what is current inside, and its traceparent for programs elsewhere; undefined: not sampled. */
  attempt<T>(
    of: { readonly step: string; readonly attempt: number; readonly key: string },
    call: (traceparent: string | undefined) => T,
  ): T
  /** What became of a step is recorded. */
  ended(step: string, error?: unknown): void
  /** It leaves memory. */
  left(because: string): void
}

export interface Tracing {
  /** Somebody starts a run: the traceparent to keep with it. */
  started(of: Pick<TracedRun, 'timeline' | 'kind' | 'name'>): string | undefined
  run(of: TracedRun): RunTrace
  /** Calls with this traceparent, of a request, as what is current. */
  within<T>(traceparent: string, call: () => T): T
}
