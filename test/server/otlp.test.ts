// Traces and metrics over the wire: an application in a process of its own, with the official SDK and its OTLP exporters,
// reports to a receiver here. It is killed in the middle of a run, and another process continues it.

import { type ChildProcess, fork } from 'node:child_process'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { afterEach, expect, it } from 'vitest'
import { temporaryFolder } from '../support/fixture.ts'

const program = fileURLToPath(new URL('../programs/otel-app.mjs', import.meta.url))
const asker = { trace: 'ab'.repeat(16), span: 'cd'.repeat(8) }

const cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** As OTLP writes them in JSON. */
interface Attribute {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}
interface Span {
  readonly process: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly attributes: readonly Attribute[]
  readonly links?: readonly { readonly traceId: string; readonly spanId: string; readonly attributes: Attribute[] }[]
  readonly status: { readonly code?: number; readonly message?: string }
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
}
interface Metric {
  readonly name: string
  readonly sum?: { readonly dataPoints: readonly { readonly asInt?: number; readonly asDouble?: number }[] }
  readonly histogram?: { readonly dataPoints: readonly { readonly count: number | string }[] }
}
interface Told {
  readonly resourceSpans?: { scopeSpans: { scope: { name: string }; spans: Omit<Span, 'process'>[] }[] }[]
  readonly resourceMetrics?: { scopeMetrics: { scope: { name: string }; metrics: Metric[] }[] }[]
}

/** A collector, and the services that the application calls. */
class Outside {
  readonly spans: Span[] = []
  /** The newest of each process and name. */
  readonly metrics = new Map<string, Metric>()
  readonly calls: { readonly service: string; readonly key: string; readonly traceparent: string }[] = []
  isShippingHeld = true
  readonly server = createServer(async (request, response) => {
    const path = request.url!.slice(1)
    const body = await bytesOf(request)
    const isCollected = path === 'v1/traces' || path === 'v1/metrics'
    const status = isCollected ? 200 : this.#serve(path, request)
    if (isCollected) this.#collect(JSON.parse((isZipped(request) ? gunzipSync(body) : body).toString()) as Told)
    if (status !== null) response.writeHead(status, { 'content-type': 'application/json' }).end('{}')
  })

  named(name: string): Span[] {
    return this.spans.filter((span) => span.name === name)
  }

  called(service: string) {
    return this.calls.filter((call) => call.service === service)
  }

  /** Null: it is never answered. */
  #serve(service: string, { headers }: IncomingMessage): number | null {
    this.calls.push({ service, key: String(headers['idempotency-key']), traceparent: String(headers.traceparent) })
    if (service === 'ship' && this.isShippingHeld) return null
    return service === 'charge' && this.called('charge').length === 1 ? 503 : 200
  }

  #collect({ resourceSpans = [], resourceMetrics = [] }: Told): void {
    for (const { scope, spans } of resourceSpans.flatMap(({ scopeSpans }) => scopeSpans)) {
      this.spans.push(...spans.map((span) => ({ ...span, process: scope.name })))
    }
    for (const { scope, metrics } of resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics)) {
      for (const metric of metrics) this.metrics.set(`${scope.name} ${metric.name}`, metric)
    }
  }
}

async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece as Buffer)
  return Buffer.concat(pieces)
}

const isZipped = ({ headers }: IncomingMessage) => headers['content-encoding'] === 'gzip'

interface App {
  readonly child: ChildProcess
  readonly closed: Promise<void>
  ask(path: string, body: unknown): Promise<number>
}

async function start(url: string, outside: string, name: string): Promise<App> {
  const child = fork(program, [url, outside, name], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()))
  cleanups.push(async () => {
    child.kill('SIGKILL')
    await closed
  })
  const at = await new Promise<string>((resolve, reject) => {
    child.once('message', (said) => resolve(String(said)))
    void closed.then(() => reject(new Error(`${name} ended before it listened`)))
  })
  const ask = async (path: string, body: unknown) => {
    const headers = {
      authorization: `Bearer ${'t'.repeat(32)}`,
      'content-type': 'application/json',
      traceparent: `00-${asker.trace}-${asker.span}-01`,
    }
    return (await fetch(at + path, { method: 'POST', headers, body: JSON.stringify(body) })).status
  }
  return { child, closed, ask }
}

const attributeOf = ({ attributes }: { readonly attributes: readonly Attribute[] }, key: string) =>
  Object.values(attributes.find((each) => each.key === key)?.value ?? {})[0]

const linksOf = ({ links = [] }: Span) =>
  links.map((link) => [link.traceId, link.spanId, attributeOf(link, 'reprise.link')])

it('a run is one trace at the collector, over the death of its process and a fork', async () => {
  const outside = new Outside()
  await new Promise<void>((resolve) => outside.server.listen(0, '127.0.0.1', resolve))
  cleanups.push(() => {
    outside.server.closeAllConnections()
    return new Promise((resolve) => outside.server.close(resolve))
  })
  const collector = `http://127.0.0.1:${(outside.server.address() as AddressInfo).port}`
  const folder = temporaryFolder('otlp')
  const url = `sqlite:${join(folder, 'store.db')}`
  const seen = (what: () => unknown) => expect.poll(what, { timeout: 60_000, interval: 20 })

  // The first process charges, at its second attempt, and dies while it ships.
  const first = await start(url, collector, 'first')
  expect(await first.ask('/v1/runs', { name: 'order', id: 'o-1' })).toBe(201)
  await seen(() => outside.called('ship').length).toBe(1)
  await seen(() => outside.named('step charge').length).toBe(1)
  await seen(() => Number(outside.metrics.get('first reprise.commits')?.sum?.dataPoints[0]?.asDouble)).toBeGreaterThan(
    0,
  )
  first.child.kill('SIGKILL')
  await first.closed
  outside.isShippingHeld = false

  // The second one ships, does a job, and takes up a fork of the run.
  const second = await start(url, collector, 'second')
  await seen(() => outside.named('run order').length).toBe(1)
  expect(await second.ask('/v1/timelines/workflow%2Forder%2Fo-1/fork', { to: 'workflow/order/o-2', seq: 1 })).toBe(200)
  expect(await second.ask('/v1/runs', { name: 'papers' })).toBe(201)
  await seen(() => outside.named('run order').length).toBe(2)
  await seen(() => outside.named('run papers').length).toBe(1)
  second.child.send('close')
  await second.closed

  const [start1] = outside.named('start order')
  expect([start1!.traceId, start1!.parentSpanId, start1!.process]).toEqual([asker.trace, asker.span, 'first'])
  const [charged, ...attempts] = [...outside.named('step charge'), ...outside.named('attempt charge')].filter(
    ({ process }) => process === 'first',
  )
  expect(
    attempts.map((span) => [span.parentSpanId, attributeOf(span, 'reprise.attempt'), span.status.message]),
  ).toEqual([
    [charged!.spanId, 1, 'charge says 503'],
    [charged!.spanId, 2, undefined],
  ])
  // The span of the charge died with its process: the next process is linked to the start.
  const [resumed, forked] = ['workflow/order/o-1', 'workflow/order/o-2'].map((timeline) =>
    outside.named('run order').find((span) => attributeOf(span, 'reprise.timeline') === timeline),
  ) as [Span, Span]
  expect([resumed.process, resumed.traceId, resumed.parentSpanId]).toEqual(['second', asker.trace, start1!.spanId])
  expect(linksOf(resumed)).toEqual([[asker.trace, start1!.spanId, 'resume']])
  expect(attributeOf(resumed, 'reprise.resumed')).toBe(true)
  const shipped = outside.named('step ship').find(({ parentSpanId }) => parentSpanId === resumed.spanId)!
  const shipping = outside.named('attempt ship').find(({ parentSpanId }) => parentSpanId === shipped.spanId)!
  expect([shipped.traceId, shipping.traceId]).toEqual([asker.trace, asker.trace])
  // A fork has a trace of its own, linked to its origin.
  expect(forked.traceId).not.toBe(asker.trace)
  expect(linksOf(forked)).toContainEqual([asker.trace, start1!.spanId, 'fork'])

  // The services received the attempt that called them; the key is that of the step, for every caller.
  expect(
    outside
      .called('charge')
      .slice(0, 2)
      .map(({ traceparent }) => traceparent),
  ).toEqual(attempts.map(({ spanId }) => `00-${asker.trace}-${spanId}-01`))
  const [cut, again] = outside.called('ship')
  expect(again).toEqual({ service: 'ship', key: cut!.key, traceparent: `00-${asker.trace}-${shipping.spanId}-01` })
  expect(cut!.traceparent).toMatch(new RegExp(`^00-${asker.trace}-`))

  const [papers] = outside.named('run papers')
  expect(papers!.traceId).toBe(asker.trace)
  expect(outside.named('item papers').map(({ parentSpanId }) => parentSpanId)).toEqual([papers!.spanId, papers!.spanId])
  expect(
    outside
      .named('item papers')
      .map(({ spanId }) => `00-${asker.trace}-${spanId}-01`)
      .sort(),
  ).toEqual(
    outside
      .called('paper')
      .map(({ traceparent }) => traceparent)
      .sort(),
  )
  for (const span of outside.spans)
    expect(BigInt(span.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(span.startTimeUnixNano))

  const names = [...outside.metrics.keys()].filter((name) => name.startsWith('second '))
  expect(names).toEqual(expect.arrayContaining(['second reprise.commits', 'second reprise.entries']))
  const times = outside.metrics.get('second reprise.commit.duration')!.histogram!.dataPoints
  expect(Number(times[0]!.count)).toBeGreaterThan(0)
  expect(
    Number(outside.metrics.get('second reprise.recovery.duration')!.histogram!.dataPoints[0]!.count),
  ).toBeGreaterThan(0)
})
