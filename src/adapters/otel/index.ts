// reprise/otel: traces and figures through the API of OpenTelemetry, which the user has and configures. See
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
import type { Engine } from '../../engine/definition.ts'
import { hostOf } from '../../engine/host.ts'
import type { RunTrace, TracedRun, Tracing } from '../../engine/tracing.ts'
import { measure } from './measure.ts'

export interface InstrumentOptions {
  /** The global ones if left out. */
  readonly tracer?: Tracer
  readonly meter?: Meter
}

/**
 * Runs, steps and attempts become spans, and what the engine does becomes figures, until the returned function is called.
 * @example const off = instrument(rp)
 */
export function instrument(rp: Engine, options: InstrumentOptions = {}): () => void {
  const { kernel } = hostOf(rp)
  const tracing = new SpanTracing(options.tracer ?? trace.getTracer('reprise'))
  kernel.tracing = tracing
  const stop = measure(kernel.events, options.meter ?? metrics.getMeter('reprise'))
  return () => {
    if (kernel.tracing === tracing) kernel.tracing = null
    stop()
  }
}

class SpanTracing implements Tracing {
  readonly #tracer: Tracer

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
    const links: Link[] = []
    if (from && of.isResumed) links.push({ context: from, attributes: { 'reprise.link': 'resume' } })
    if (from && of.isFork) links.push({ context: from, attributes: { 'reprise.link': 'fork' } })
    // A fork goes its own way: it is only linked to what it was made of.
    const parent = from && !of.isFork ? trace.setSpanContext(context.active(), from) : withoutSpan()
    const span = this.#tracer.startSpan(`run ${of.name}`, { kind: SpanKind.CONSUMER, attributes, links }, parent)
    return new SpanRun(this.#tracer, span, trace.setSpan(parent, span), attributesOf(of))
  }

  within<T>(traceparent: string, call: () => T): T {
    const from = read(traceparent)
    return from ? context.with(trace.setSpanContext(context.active(), from), call) : call()
  }
}

class SpanRun implements RunTrace {
  readonly #tracer: Tracer
  readonly #span: Span
  readonly #context: Context
  readonly #attributes: Attributes
  readonly #steps = new Map<string, { readonly span: Span; readonly context: Context }>()

  constructor(tracer: Tracer, span: Span, at: Context, attributes: Attributes) {
    this.#tracer = tracer
    this.#span = span
    this.#context = at
    this.#attributes = attributes
  }

  attempt<T>(
    of: { readonly step: string; readonly attempt: number; readonly key: string },
    call: (traceparent: string | undefined) => T,
  ): T {
    const step = this.#step(of.step)
    const attributes = {
      ...this.#attributes,
      'reprise.step': of.step,
      'reprise.attempt': of.attempt,
      'reprise.key': of.key,
    }
    const span = this.#tracer.startSpan(`attempt ${of.step}`, { kind: SpanKind.CLIENT, attributes }, step.context)
    try {
      const result = context.with(trace.setSpan(step.context, span), () => call(traceparentOf(span)))
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
          fail(span, error)
          span.end()
          throw error
        },
      ) as T
    } catch (error) {
      fail(span, error)
      span.end()
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

  left(because: string): void {
    for (const { span } of this.#steps.values()) span.end()
    this.#steps.clear()
    this.#span.setAttribute('reprise.left', because)
    if (because === 'diverged' || because === 'broken')
      this.#span.setStatus({ code: SpanStatusCode.ERROR, message: because })
    this.#span.end()
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

/** Undefined: nobody collects it. */
function traceparentOf(span: Span): string | undefined {
  const made = span.spanContext()
  return isSpanContextValid(made) ? written(made) : undefined
}

/** As W3C Trace Context writes it. */
function written({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
}

/** Null: it is none. */
function read(text: string): SpanContext | null {
  const [, traceId, spanId, flags] = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/.exec(text) ?? []
  if (traceId === undefined || spanId === undefined) return null
  const made = { traceId, spanId, traceFlags: Number.parseInt(flags!, 16) & TraceFlags.SAMPLED, isRemote: true }
  return isSpanContextValid(made) ? made : null
}
