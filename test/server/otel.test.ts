// Traces and metrics, as a collector gets them: run, step and attempt are one trace, over a resume and a fork, with the trace
// of the caller.

import { context, ROOT_CONTEXT, trace } from '@opentelemetry/api'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base'
import { afterEach, describe, expect, it } from 'vitest'
import { instrument } from '../../src/adapters/otel/index.ts'
import { remote } from '../../src/adapters/remote/index.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { open } from '../../src/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { idOf, spans, traceOf } from './spans.ts'
import { startServer } from './support.ts'

const { tracer, named, reset } = spans()

const cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  reset()
})

const flow = workflow('traced', async (ctx) => {
  await ctx.step(
    'charge',
    ({ attempt }) => {
      tracer.startSpan('inside').end()
      if (attempt === 1) throw new Error('busy')
    },
    { retry: { attempts: 2, backoff: '1ms' } },
  )
  return await ctx.signal('go')
})

describe('a run of a workflow', () => {
  it('D4: is a span in the trace of its caller, with its steps and their attempts below', async () => {
    const rp = await open('memory:')
    cleanups.push(() => rp.close(), instrument(rp, { tracer }))
    const asker = tracer.startSpan('asker')
    const run = await context.with(trace.setSpan(ROOT_CONTEXT, asker), () => rp.run(flow, { id: 'a' }))
    asker.end()
    await run.signal('go')
    await run.result()
    await expect.poll(() => named('run traced').length).toBe(1)
    const [[start], [whole], [step], attempts, inside] = [
      named('start traced'),
      named('run traced'),
      named('step charge'),
      named('attempt charge'),
      named('inside'),
    ] as const
    expect(new Set([start!, whole!, step!, ...attempts, ...inside].map(traceOf))).toEqual(
      new Set([asker.spanContext().traceId]),
    )
    expect(start!.parentSpanContext?.spanId).toBe(asker.spanContext().spanId)
    expect(whole!.parentSpanContext?.spanId).toBe(idOf(start!))
    expect(step!.parentSpanContext?.spanId).toBe(idOf(whole!))
    expect(attempts.map((span) => span.parentSpanContext?.spanId)).toEqual([idOf(step!), idOf(step!)])
    expect(attempts.map((span) => span.attributes['reprise.attempt'])).toEqual([1, 2])
    expect(attempts.map((span) => span.status.message)).toEqual(['busy', undefined])
    expect(inside.map((span) => span.parentSpanContext?.spanId)).toEqual(attempts.map(idOf))
    const { entries } = await history(rp, run.timeline)
    expect((entries[0]!.data as { trace: string }).trace).toBe(`00-${traceOf(start!)}-${idOf(start!)}-01`)
  })

  it('that is resumed elsewhere stays in its trace and is linked; a fork has its own, linked to the first', async () => {
    const world = createWorld()
    const engine = () =>
      createEngine({ store: openMemory({ namespace: 'default', hash: sha256, world }) }, { worker: 'w' })
    const first = engine()
    instrument(first, { tracer })
    await first.run(flow, { id: 'a' })
    await expect.poll(() => named('step charge').length).toBe(1)
    await first.close()
    const second = engine()
    cleanups.push(() => second.close(), instrument(second, { tracer }))
    second.work([flow])
    const run = workflows(second).of(flow).get('a')
    await run.signal('go')
    await run.result()
    const fork = await run.fork('charge', { id: 'b' })
    await fork.signal('go')
    await fork.result()
    await expect
      .poll(() => named('run traced').filter((span) => span.attributes['reprise.timeline'] === fork.timeline).length)
      .toBeGreaterThan(0)
    const [start] = named('start traced')
    const resumed = named('run traced').filter((span) => span.attributes['reprise.resumed'] === true)
    const linked = (span: ReadableSpan) =>
      span.links.map(({ context: at, attributes }) => [at.spanId, attributes?.['reprise.link']])
    const own = resumed.find((span) => span.attributes['reprise.timeline'] === run.timeline)!
    expect([traceOf(own), linked(own)]).toEqual([traceOf(start!), [[idOf(start!), 'resume']]])
    const forked = resumed.find((span) => span.attributes['reprise.timeline'] === fork.timeline)!
    expect(traceOf(forked)).not.toBe(traceOf(start!))
    expect(linked(forked)).toContainEqual([idOf(start!), 'fork'])
  })

  it('that is started over HTTP belongs to the trace of the request', async () => {
    const here = await startServer({ definitions: [flow] })
    cleanups.push(() => here.close(), instrument(here.rp, { tracer }))
    const traceparent = `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01`
    const { status } = await here.ask('/v1/runs', { body: { name: 'traced', id: 'h' }, headers: { traceparent } })
    expect(status).toBe(201)
    const [start] = named('start traced')
    expect([traceOf(start!), start!.parentSpanContext?.spanId]).toEqual(['ab'.repeat(16), 'cd'.repeat(8)])
  })
})

it('a worker outside is given the trace of the attempt that it does', async () => {
  const work = remote<number, number>('traced-squares')
  const squared = workflow('squared', (ctx, n: number) => ctx.step('square', (step) => work(n, step)))
  const here = await startServer({ definitions: [squared] })
  cleanups.push(() => here.close(), instrument(here.rp, { tracer }))
  const traceparent = `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01`
  await here.ask('/v1/runs', { body: { name: 'squared', id: 's', input: 3 }, headers: { traceparent } })
  here.rp.work([squared])
  const { value } = await here.ask('/v1/remote/traced-squares/claim', { body: { waitMs: 10_000 } })
  const [task] = value.tasks
  await here.ask('/v1/remote/traced-squares/results', { body: { results: [{ task: task.task, result: 9 }] } })
  await expect.poll(() => named('attempt square').length).toBe(1)
  const [attempt] = named('attempt square')
  expect(task.traceparent).toBe(`00-${'ab'.repeat(16)}-${idOf(attempt!)}-01`)
})

async function history(rp: Awaited<ReturnType<typeof open>>, timeline: string) {
  const here = await startServer({ rp })
  const { value } = await here.ask(`/v1/timelines/${encodeURIComponent(timeline)}/history`)
  await here.server.close()
  return value as { entries: { data: unknown }[] }
}

it('figures come through the same API', async () => {
  const collected = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({ exporter: collected, exportIntervalMillis: 1_000_000 })
  const meters = new MeterProvider({ readers: [reader] })
  const rp = await open('memory:')
  cleanups.push(
    () => rp.close(),
    () => meters.shutdown(),
  )
  const off = instrument(rp, { tracer, meter: meters.getMeter('test') })
  await (
    await rp.run(
      workflow('quick', () => 1),
      { id: 'q' },
    )
  ).result()
  await reader.forceFlush()
  const names = collected
    .getMetrics()
    .flatMap(({ scopeMetrics }) =>
      scopeMetrics.flatMap(({ metrics: list }) => list.map(({ descriptor }) => descriptor.name)),
    )
  expect(names).toEqual(expect.arrayContaining(['reprise.commits', 'reprise.entries', 'reprise.commit.duration']))
  off()
})
