// An application that is traced and measured, as people set one up: the official SDK with its OTLP exporters, the server with its
// API, a workflow that calls an outside service, a job. Arguments: store URL, URL of the collector and the service, process name.

import { AsyncLocalStorage } from 'node:async_hooks'
import { context, ROOT_CONTEXT } from '@opentelemetry/api'
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import { BasicTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { instrument } from '../../dist/adapters/otel/index.js'
import { open } from '../../dist/index.js'
import { job } from '../../dist/layers/job/index.js'
import { workflow } from '../../dist/layers/workflow/index.js'
import { defaultServerLimits } from '../../dist/server/limits.js'
import { listen } from '../../dist/server/listen.js'
import { serve } from '../../dist/server/serve.js'

const [, , url, outside, name] = process.argv

// The parts of an SDK for Node.
const current = new AsyncLocalStorage()
context.setGlobalContextManager({
  active: () => current.getStore() ?? ROOT_CONTEXT,
  with: (at, call, self, ...args) => current.run(at, () => call.apply(self, args)),
  bind: (_at, target) => target,
  enable() {
    return this
  },
  disable() {
    return this
  },
})
const spans = new SimpleSpanProcessor(new OTLPTraceExporter({ url: `${outside}/v1/traces` }))
const tracer = new BasicTracerProvider({ spanProcessors: [spans] }).getTracer(name)
const exporter = new OTLPMetricExporter({ url: `${outside}/v1/metrics` })
const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 200, exportTimeoutMillis: 200 })
const meters = new MeterProvider({ readers: [reader] })

/** Passes the trace of the attempt on, and fails if the service answers with an error. */
async function call(service, of) {
  const headers = { 'idempotency-key': of.key, ...(of.traceparent && { traceparent: of.traceparent }) }
  const response = await fetch(`${outside}/${service}`, { method: 'POST', headers })
  if (!response.ok) throw new Error(`${service} says ${response.status}`)
}

const order = workflow('order', async (ctx) => {
  await ctx.step('charge', (step) => call('charge', step), { retry: { attempts: 2, backoff: '1ms' } })
  await ctx.step('ship', (step) => call('ship', step))
  return 'sent'
})
const papers = job('papers', {
  source: ['one', 'two'],
  key: (paper) => paper,
  each: (_paper, item) => call('paper', item),
})

const rp = await open(url, { worker: name, lease: '2s' })
const off = instrument(rp, { tracer, meter: meters.getMeter(name) })
const definitions = [order, papers]
rp.work([order])
const server = serve(rp, { tokens: [{ name: 'test', token: 't'.repeat(32), role: 'write' }], definitions })
const listening = await listen(server, { port: 0, limits: defaultServerLimits })
process.send(listening.url)
process.once('message', async () => {
  await listening.close()
  await server.close()
  await rp.close()
  off()
  await Promise.all([spans.forceFlush(), meters.shutdown()])
  process.disconnect()
})
