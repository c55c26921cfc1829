// A tracer whose spans tests can inspect: those that ended, and those that are still open.

import { AsyncLocalStorage } from 'node:async_hooks'
import { type Context, type ContextManager, context, ROOT_CONTEXT } from '@opentelemetry/api'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { afterAll, beforeAll } from 'vitest'

/** The parts of an SDK for Node. */
class Contexts implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>()
  active() {
    return this.#storage.getStore() ?? ROOT_CONTEXT
  }
  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(at: Context, call: F, self?: unknown, ...args: A) {
    return this.#storage.run(at, () => call.apply(self, args))
  }
  bind<T>(_at: Context, target: T) {
    return target
  }
  enable() {
    return this
  }
  disable() {
    return this
  }
}

class OpenSpans implements SpanProcessor {
  readonly names = new Map<string, string>()
  onStart(span: ReadableSpan) {
    this.names.set(span.spanContext().spanId, span.name)
  }
  onEnd(span: ReadableSpan) {
    this.names.delete(span.spanContext().spanId)
  }
  async forceFlush() {}
  async shutdown() {}
}

/** For the whole test file. */
export function spans() {
  const exporter = new InMemorySpanExporter()
  const open = new OpenSpans()
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter), open] })
  beforeAll(() => void context.setGlobalContextManager(new Contexts()))
  afterAll(() => context.disable())
  return {
    tracer: provider.getTracer('test'),
    reset: () => exporter.reset(),
    named: (name: string): ReadableSpan[] => exporter.getFinishedSpans().filter((span) => span.name === name),
    /** Names of spans that were not ended. */
    open: () => [...open.names.values()],
  }
}

export const idOf = (span: ReadableSpan) => span.spanContext().spanId
export const traceOf = (span: ReadableSpan) => span.spanContext().traceId
export const parentOf = (span: ReadableSpan) => span.parentSpanContext?.spanId
export const linksOf = (span: ReadableSpan) =>
  span.links.map(({ context: at, attributes }) => [at.spanId, attributes?.['reprise.link']])
