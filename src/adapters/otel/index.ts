// reprise/otel: traces and metrics through the OpenTelemetry API, which the user installs and configures. See
// docs/guides/server.md.

import {
  type Attributes,
  type Context,
  context,
  isSpanContextValid,
  type Link,
  type Meter,
  metrics,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import type { RunTrace, TracedRun, TraceFacts, TraceLink, TraceSpan, Tracing } from '../../engine/base/tracing.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { Engine } from '../../engine/model/definition.ts'
import { measure } from './measure.ts'

export type { CatchUpOptions, SubscriptionStatus } from '../../engine/feed/subscription.ts'
export { type ExportSessionsOptions, exportSessions, SessionExport } from './export-sessions.ts'

export interface InstrumentOptions {
  /** Default: the global tracer and meter. */
  readonly tracer?: Tracer
  readonly meter?: Meter
}

/**
 * Emits runs, steps and attempts as spans, and the engine's events as metrics, until the returned function is called.
 * @example const off = instrument(rp)
 */
export function instrument(rp: Engine, options: InstrumentOptions = {}): () => void {
  const { kernel } = hostOf(rp)
  const tracing = new SpanTracing(options.tracer ?? trace.getTracer('reprise'))
  kernel.tracing = tracing
  const stop = measure(kernel.events, options.meter ?? metrics.getMeter('reprise'))
  return () => {
    if (kernel.tracing === tracing) kernel.tracing = null
    tracing.end()
    stop()
  }
}

class SpanTracing implements Tracing {
  readonly #tracer: Tracer
  readonly #stays = new Map<string, SpanRun>()

  constructor(tracer: Tracer) {
    this.#tracer = tracer
  }

  started(of: Pick<TracedRun, 'timeline' | 'kind' | 'name'>): string | undefined {
    const span = this.#tracer.startSpan(`start ${of.name}`, { kind: SpanKind.PRODUCER, attributes: attributesOf(of) })
    span.end()
    return traceparentOf(span)
  }

  run(of: TracedRun): RunTrace {
    const from = of.trace === undefined ? null : read(of.trace)
    const attributes = { ...attributesOf(of), 'reprise.resumed': of.isResumed }
    // A fork has its own trace: it is only linked to its original. If links are given, `trace` is the fork's own.
    const isOwn = of.links !== undefined || !of.isFork
    const parent = from && isOwn ? trace.setSpanContext(context.active(), from) : withoutSpan()
    const links = (of.links ?? usualLinks(of)).flatMap((link) => linkOf(link) ?? [])
    const span = this.#tracer.startSpan(`run ${of.name}`, { kind: SpanKind.CONSUMER, attributes, links }, parent)
    const stay = new SpanRun(this.#tracer, span, trace.setSpan(parent, span), attributesOf(of), () => {
      if (this.#stays.get(of.timeline) === stay) this.#stays.delete(of.timeline)
    })
    this.#stays.set(of.timeline, stay)
    return stay
  }

  traceOf(timeline: string): RunTrace | null {
    return this.#stays.get(timeline) ?? null
  }

  within<T>(traceparent: string, call: () => T): T {
    const from = read(traceparent)
    return from ? context.with(trace.setSpanContext(context.active(), from), call) : call()
  }

  /** Tracing ends: all open spans end here. */
  end(): void {
    for (const stay of [...this.#stays.values()]) stay.left('no longer traced')
  }
}

class SpanRun implements RunTrace {
  readonly traceparent: string | undefined
  readonly #tracer: Tracer
  readonly #span: Span
  readonly #context: Context
  readonly #attributes: Attributes
  readonly #onLeft: () => void
  readonly #steps = new Map<string, { readonly span: Span; readonly context: Context }>()
  readonly #open = new Set<SpanBelow>()
  #isOver = false

  constructor(tracer: Tracer, span: Span, at: Context, attributes: Attributes, onLeft: () => void) {
    this.traceparent = traceparentOf(span)
    this.#tracer = tracer
    this.#span = span
    this.#context = at
    this.#attributes = attributes
    this.#onLeft = onLeft
  }

  attempt<T>(
    of: { readonly step: string; readonly attempt: number; readonly key: string },
    call: (traceparent: string | undefined) => T,
  ): T {
    const facts = { 'reprise.step': of.step, 'reprise.attempt': of.attempt, 'reprise.key': of.key }
    // A step that begins after the run has left memory would never be ended.
    const below = this.#isOver ? this.#context : this.#step(of.step).context
    const span = this.#begin(`attempt ${of.step}`, facts, true, below)
    try {
      const result = span.within(() => call(span.traceparent))
      if (!(result instanceof Promise)) {
        span.end()
        return result
      }
      return result.then(
        (value) => {
          span.end()
          return value
        },
        (error) => {
          span.end({}, error ?? String(error))
          throw error
        },
      ) as T
    } catch (error) {
      span.end({}, error ?? String(error))
      throw error
    }
  }

  ended(step: string, error?: unknown): void {
    const known = this.#steps.get(step)
    if (!known) return
    this.#steps.delete(step)
    if (error !== undefined) fail(known.span, error)
    known.span.end()
  }

  begin(name: string, facts: TraceFacts, isCall: boolean): TraceSpan {
    return this.#begin(name, facts, isCall, this.#context)
  }

  note(event: string, facts?: TraceFacts): void {
    if (!this.#isOver) this.#span.addEvent(event, facts)
  }

  link(link: TraceLink): void {
    const made = linkOf(link)
    if (made && !this.#isOver) this.#span.addLink(made)
  }

  left(because: string, error?: unknown): void {
    if (this.#isOver) return
    this.#isOver = true
    for (const span of [...this.#open]) span.end({ 'reprise.left': because })
    for (const { span } of this.#steps.values()) span.end()
    this.#steps.clear()
    this.#span.setAttribute('reprise.left', because)
    if (error !== undefined) fail(this.#span, error)
    else if (because === 'diverged' || because === 'broken')
      this.#span.setStatus({ code: SpanStatusCode.ERROR, message: because })
    this.#span.end()
    this.#onLeft()
  }

  #begin(name: string, facts: TraceFacts, isCall: boolean, parent: Context): SpanBelow {
    const attributes = { ...this.#attributes, ...facts }
    const kind = isCall ? SpanKind.CLIENT : SpanKind.INTERNAL
    const span = this.#tracer.startSpan(name, { kind, attributes }, parent)
    const below = new SpanBelow(span, parent, this.#open)
    // A pending call may still begin a span after the run has left memory.
    if (this.#isOver) below.end({ 'reprise.left': 'too late' })
    return below
  }

  #step(name: string): { readonly span: Span; readonly context: Context } {
    const known = this.#steps.get(name)
    if (known) return known
    const attributes = { ...this.#attributes, 'reprise.step': name }
    const span = this.#tracer.startSpan(`step ${name}`, { attributes }, this.#context)
    const made = { span, context: trace.setSpan(this.#context, span) }
    this.#steps.set(name, made)
    return made
  }
}

class SpanBelow implements TraceSpan {
  readonly traceparent: string | undefined
  readonly #span: Span
  readonly #parent: Context
  readonly #open: Set<SpanBelow>

  constructor(span: Span, parent: Context, open: Set<SpanBelow>) {
    this.traceparent = traceparentOf(span)
    this.#span = span
    this.#parent = parent
    this.#open = open
    open.add(this)
  }

  within<T>(call: () => T): T {
    return context.with(trace.setSpan(this.#parent, this.#span), call)
  }

  note(event: string, facts?: TraceFacts): void {
    if (this.#open.has(this)) this.#span.addEvent(event, facts)
  }

  end(facts?: TraceFacts, error?: unknown): void {
    if (!this.#open.delete(this)) return
    if (facts) this.#span.setAttributes(facts)
    if (error !== undefined) fail(this.#span, error)
    this.#span.end()
  }
}

function usualLinks({ trace: from, isResumed, isFork }: TracedRun): TraceLink[] {
  if (from === undefined) return []
  return [
    ...(isResumed ? [{ traceparent: from, why: 'resume' } as const] : []),
    ...(isFork ? [{ traceparent: from, why: 'fork' } as const] : []),
  ]
}

function linkOf({ traceparent, why }: TraceLink): Link | null {
  const to = read(traceparent)
  return to && { context: to, attributes: { 'reprise.link': why } }
}

function attributesOf({ timeline, kind, name }: Pick<TracedRun, 'timeline' | 'kind' | 'name'>): Attributes {
  return { 'reprise.timeline': timeline, 'reprise.kind': kind, 'reprise.name': name }
}

function withoutSpan(): Context {
  return trace.deleteSpan(context.active())
}

function fail(span: Span, error: unknown): void {
  const { message } = error instanceof Error ? error : { message: String(error) }
  span.recordException(error instanceof Error ? error : message)
  span.setStatus({ code: SpanStatusCode.ERROR, message })
}

/** Undefined: no tracer records the span. */
function traceparentOf(span: Span): string | undefined {
  const made = span.spanContext()
  return isSpanContextValid(made) ? written(made) : undefined
}

/** In the format of W3C Trace Context. */
function written({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
}

/** Null: the text is not a valid traceparent. */
function read(text: string): SpanContext | null {
  const [, traceId, spanId, flags] = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/.exec(text) ?? []
  if (traceId === undefined || spanId === undefined) return null
  const made = { traceId, spanId, traceFlags: Number.parseInt(flags!, 16) & TraceFlags.SAMPLED, isRemote: true }
  return isSpanContextValid(made) ? made : null
}
