// Traces of jobs and pipelines, as a collector gets them: a run with its attempts and checkpoints is one trace, over a resume
// and a savepoint, with the trace of the caller; and every span ends, however the run ends.

import { context, ROOT_CONTEXT, SpanStatusCode, trace } from '@opentelemetry/api'
import { afterEach, describe, expect, it } from 'vitest'
import { instrument } from '../../src/adapters/otel/index.ts'
import { remote } from '../../src/adapters/remote/index.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { job } from '../../src/layers/job/index.ts'
import { collectSink, generatedSource, pipeline, sendSink, valueSource } from '../../src/layers/pipeline/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import fc from '../support/properties.ts'
import { idOf, linksOf, parentOf, spans, traceOf } from './spans.ts'
import { startServer } from './support.ts'

const { tracer, named, open, reset } = spans()

const cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  reset()
})

/** Several engines over one store, as several processes are. */
function processes() {
  const world = createWorld()
  return () => {
    const rp = createEngine({ store: openMemory({ namespace: 'default', hash: sha256, world }) }, { worker: 'w' })
    const off = instrument(rp, { tracer })
    cleanups.push(off, () => rp.close())
    return { rp, off }
  }
}

/** Asks within a span of its own. */
async function asking<T>(call: () => Promise<T>): Promise<{ value: T; span: string; trace: string }> {
  const asker = tracer.startSpan('asker')
  const value = await context.with(trace.setSpan(ROOT_CONTEXT, asker), call)
  asker.end()
  return { value, span: asker.spanContext().spanId, trace: asker.spanContext().traceId }
}

const never = () => new Promise<never>(() => undefined)

describe('a run of a job', () => {
  it('is a span in the trace of its caller, with each attempt at an item below', async () => {
    const { rp } = processes()()
    const tries = new Map<string, number>()
    const papers = job('papers', {
      source: ['good', 'slow', 'bad'],
      key: (paper) => paper,
      retry: { attempts: 2, backoff: '1ms' },
      each(paper) {
        tracer.startSpan(`inside ${paper}`).end()
        const times = (tries.get(paper) ?? 0) + 1
        tries.set(paper, times)
        if (paper === 'bad' || (paper === 'slow' && times === 1)) throw new Error(`${paper} fails`)
      },
    })
    const asked = await asking(() => rp.run(papers))
    expect(await asked.value.result()).toMatchObject({ done: 2, dead: 1 })
    const [[start], [run], items] = [named('start papers'), named('run papers'), named('item papers')]
    expect([parentOf(start!), parentOf(run!)]).toEqual([asked.span, idOf(start!)])
    expect(run!.attributes).toMatchObject({
      'reprise.kind': 'job',
      'reprise.left': 'completed',
      'reprise.resumed': false,
    })
    const tried = items.map(({ attributes, status, events }) => [
      ...[attributes['reprise.key'], attributes['reprise.attempt'], attributes['reprise.outcome']],
      ...[status.code === SpanStatusCode.ERROR, events.map(({ name }) => name)],
    ])
    expect(tried).toHaveLength(5)
    expect(tried).toEqual(
      expect.arrayContaining([
        ['good', 1, undefined, false, []],
        ['slow', 1, 'retry', true, ['reprise.retry', 'exception']],
        ['slow', 2, undefined, false, []],
        ['bad', 1, 'retry', true, ['reprise.retry', 'exception']],
        ['bad', 2, 'dead', true, ['reprise.dead', 'exception']],
      ]),
    )
    expect(new Set(items.map(parentOf))).toEqual(new Set([idOf(run!)]))
    expect(new Set([...items, ...named('inside bad')].map(traceOf))).toEqual(new Set([asked.trace]))
    expect(new Set(named('inside bad').map(parentOf)).size).toBe(2)
    expect(open()).toEqual([])
  })

  it('that continues elsewhere stays in its trace, linked to the previous run and to the current caller', async () => {
    const start = processes()
    const first = start()
    let held = true
    const papers = job('papers', {
      source: ['a', 'b'],
      key: (paper) => paper,
      concurrency: 1,
      grace: 0,
      each: (paper) => (paper === 'b' && held ? never() : undefined),
    })
    const asked = await asking(() => first.rp.run(papers))
    await expect.poll(() => asked.value.status().done).toBe(1)
    await asked.value.stop()
    const [before] = named('run papers')
    expect(before!.attributes['reprise.left']).toBe('stopped')
    expect(named('item papers').map(({ attributes }) => attributes['reprise.left'])).toEqual([undefined, 'stopped'])
    held = false
    const again = await asking(() => start().rp.run(papers))
    await again.value.result()
    const [, after] = named('run papers')
    const [, asks] = named('start papers')
    expect(traceOf(after!)).toBe(asked.trace)
    expect(linksOf(after!)).toEqual([
      [idOf(before!), 'resume'],
      [idOf(asks!), 'asked'],
    ])
    expect(parentOf(asks!)).toBe(again.span)
    // A new round is another run: it belongs to its caller, and continues no earlier one.
    const third = await asking(() => start().rp.run(papers))
    await third.value.result()
    const round = named('run papers')[2]!
    expect([traceOf(round), linksOf(round), round.attributes['reprise.resumed']]).toEqual([third.trace, [], false])
  })

  it('that is resumed without a tracer keeps its trace for the next', async () => {
    const start = processes()
    let heldAt: string | null = 'b'
    const papers = job('papers', {
      source: ['a', 'b', 'c'],
      key: (paper) => paper,
      concurrency: 1,
      grace: 0,
      each: (paper) => (paper === heldAt ? never() : undefined),
    })
    const asked = await asking(() => start().rp.run(papers))
    await expect.poll(() => asked.value.status().done).toBe(1)
    await asked.value.stop()
    const untraced = start()
    untraced.off()
    heldAt = 'c'
    const run = await untraced.rp.run(papers)
    await expect.poll(() => run.status().done).toBe(1)
    await run.stop()
    heldAt = null
    await (await start().rp.run(papers)).result()
    const [before, after] = named('run papers')
    expect([traceOf(after!), linksOf(after!)[0]]).toEqual([asked.trace, [idOf(before!), 'resume']])
  })

  it('with batches has a span per call, with its failures as events', async () => {
    const { rp } = processes()()
    const traceparents: unknown[] = []
    const papers = job<string>('papers', {
      source: ['a', 'b', 'c'],
      key: (paper) => paper,
      batch: { size: 3 },
      retry: { attempts: 1 },
      eachBatch(_items, batch) {
        traceparents.push(batch.traceparent)
        batch.fail('b', new Error('no'))
      },
    })
    await (await rp.run(papers)).result()
    const [batch, ...others] = named('batch papers')
    expect(others).toEqual([])
    expect(batch!.attributes['reprise.items']).toBe(3)
    expect(batch!.events[0]).toMatchObject({ name: 'reprise.dead', attributes: { 'reprise.key': 'b' } })
    expect(traceparents).toEqual([`00-${traceOf(batch!)}-${idOf(batch!)}-01`])
  })

  it('hands the trace of an attempt to the worker outside that does the item', async () => {
    const work = remote<number, number>('traced-items')
    const squares = job('squares', { source: [3], key: (n) => String(n), each: (n, item) => work(n, item) })
    const here = await startServer({ definitions: [squares] })
    cleanups.push(() => here.close(), instrument(here.rp, { tracer }))
    const run = await here.rp.run(squares)
    const { value } = await here.ask('/v1/remote/traced-items/claim', { body: { waitMs: 10_000 } })
    const [task] = value.tasks
    await here.ask('/v1/remote/traced-items/results', { body: { results: [{ task: task.task, result: 9 }] } })
    await run.result()
    const [item] = named('item squares')
    expect(task.traceparent).toBe(`00-${traceOf(item!)}-${idOf(item!)}-01`)
  })

  it('returns and stores no traceparent without a tracer', async () => {
    const { rp, off } = processes()()
    off()
    const seen: unknown[] = []
    const papers = job('papers', {
      source: ['a'],
      key: (paper) => paper,
      each: (_, item) => void seen.push(item.traceparent),
    })
    await (await rp.run(papers)).result()
    const { entries } = await hostOf(rp)
      .openTimeline('job/papers' as never, papers.fold)
      .then(async (opened) => {
        const { state } = opened
        await opened.close()
        return { entries: Object.keys(state) }
      })
    expect(seen).toEqual([undefined])
    expect(entries).not.toEqual(expect.arrayContaining(['trace']))
  })
})

describe('a run of a pipeline', () => {
  it('is a span with a span per checkpoint and per attempt of its calls and sends', async () => {
    const { rp } = processes()()
    const sent: unknown[] = []
    const flow = pipeline('flow', (p) => {
      p.from('numbers', valueSource([1, 2]))
        .call(
          'doubled',
          async (n: number, { attempt }) => {
            if (n === 2 && attempt === 1) throw new Error('busy')
            return 2 * n
          },
          { retry: { attempts: 2, backoff: '1ms' } },
        )
        .to(
          'out',
          sendSink(async (_n, { traceparent }) => void sent.push(traceparent)),
        )
    })
    const asked = await asking(() => rp.run(flow))
    await asked.value.result()
    const [[start], [run], checkpoints] = [named('start flow'), named('run flow'), named('checkpoint')]
    expect([parentOf(start!), parentOf(run!), traceOf(run!)]).toEqual([asked.span, idOf(start!), asked.trace])
    expect(run!.attributes).toMatchObject({ 'reprise.kind': 'pipeline', 'reprise.left': 'completed' })
    const last = checkpoints.at(-1)!
    expect(last.attributes).toMatchObject({ 'reprise.outcome': 'published', 'reprise.checkpoint.kind': 'manual' })
    for (const fact of ['bytes', 'added_bytes', 'stall_ms', 'ms']) {
      expect(last.attributes[`reprise.checkpoint.${fact}`], fact).toEqual(expect.any(Number))
    }
    const calls = named('call doubled').map(({ attributes, status }) => [attributes['reprise.attempt'], status.message])
    expect(calls).toHaveLength(3)
    expect(calls).toEqual(
      expect.arrayContaining([
        [1, 'busy'],
        [1, undefined],
        [2, undefined],
      ]),
    )
    const sends = named('call out')
    expect(sent.sort()).toEqual(sends.map((span) => `00-${traceOf(span)}-${idOf(span)}-01`).sort())
    const below = [...checkpoints, ...named('call doubled'), ...sends]
    expect(new Set(below.map(parentOf))).toEqual(new Set([idOf(run!)]))
    expect(open()).toEqual([])
  })

  it('that continues stays in its trace; from a savepoint it has its own; both are linked', async () => {
    const start = processes()
    const out = collectSink<number>()
    const flow = pipeline('flow', (p) => {
      p.from(
        'numbers',
        generatedSource((n) => n),
      ).to('out', out)
    })
    const first = await asking(() => start().rp.run(flow))
    await first.value.started()
    const savepoint = await first.value.savepoint()
    await first.value.stop()
    const again = await asking(() => start().rp.run(flow))
    await (await again.value.started()).stop()
    const back = await asking(() => start().rp.run(flow, { from: savepoint.id }))
    await (await back.value.started()).cancel()
    await expect.poll(() => named('run flow').length).toBe(3)
    const [one, two, three] = named('run flow')
    const asks = named('start flow')
    expect([one, two, three].map((span) => span!.attributes['reprise.left'])).toEqual([
      'stopped',
      'stopped',
      'cancelled',
    ])
    expect([traceOf(one!), traceOf(two!), traceOf(three!)]).toEqual([first.trace, first.trace, back.trace])
    expect(linksOf(two!)).toEqual([
      [idOf(one!), 'resume'],
      [idOf(asks[1]!), 'asked'],
    ])
    expect(linksOf(three!)).toEqual([[idOf(one!), 'savepoint']])
    expect(open()).toEqual([])
  })

  it('shows a checkpoint that failed as such', async () => {
    const { rp } = processes()()
    const flow = pipeline('flow', (p) => {
      p.from('numbers', valueSource([1])).to('out', {
        open: async () => ({
          pending: 0,
          write: () => undefined,
          cut: () => async () => {
            throw new TypeError('cannot prepare')
          },
          commit: async () => undefined,
          rejoin: () => undefined,
          close: async () => undefined,
        }),
      })
    })
    await expect((await rp.run(flow)).result()).rejects.toThrow('cannot prepare')
    const [checkpoint] = named('checkpoint')
    expect([checkpoint!.attributes['reprise.outcome'], checkpoint!.status.message]).toEqual([
      'failed',
      'cannot prepare',
    ])
    expect(named('run flow')[0]!.status.message).toBe('cannot prepare')
    expect(open()).toEqual([])
  })
})

interface Stoppable {
  result(): Promise<unknown>
  cancel?(): Promise<unknown>
  stop?(): Promise<unknown>
}

/** The spans of a call of the user's code. */
const deeds = fc.constantFrom('returns', 'waits', 'throws', 'hangs')

async function deed(what: string): Promise<void> {
  if (what === 'throws') throw new Error('it throws')
  if (what === 'hangs') await never()
  if (what === 'waits') await new Promise((resolve) => setImmediate(resolve))
}

it('no span stays open after a run has stopped, was cancelled, or its process died', async () => {
  const plan = fc.record({
    model: fc.constantFrom('job', 'batches', 'pipeline'),
    ending: fc.constantFrom('stop', 'cancel', 'close', 'die'),
    deeds: fc.array(deeds, { minLength: 1, maxLength: 6 }),
    turns: fc.nat({ max: 12 }),
  })
  await fc.assert(
    fc.asyncProperty(plan, async ({ model, ending, deeds: all, turns }) => {
      const { rp, off } = processes()()
      const act = (n: number) => deed(all[n % all.length]!)
      const calls = async (n: number) => {
        await act(n)
        return n
      }
      const retry = { attempts: 2, backoff: '1ms' } as const
      const source = all.map((_, n) => n)
      const base = { source, key: String, grace: 0, retry, concurrency: 2 } as const
      const definition = {
        job: () => job('j', { ...base, each: act }),
        batches: () => job('j', { ...base, batch: { size: 2 }, eachBatch: ([n]) => act(n!) }),
        pipeline: () =>
          pipeline('p', (p) => {
            p.from(
              'numbers',
              generatedSource((n) => n, { count: 64 }),
            )
              .call('called', calls, { retry, concurrency: 2 })
              .to('sent', sendSink(act, { retry, concurrency: 2 }))
          }),
      }[model]()
      const options = model === 'pipeline' ? { checkpointTimeout: '20ms' } : {}
      const run = (await rp.run(definition as never, undefined as never, options as never)) as Stoppable
      run.result().catch(() => undefined)
      for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve))
      const cancel = async () => await (run.cancel ? run.cancel() : run.stop!()).catch(() => undefined)
      if (ending === 'stop') await run.stop!().catch(() => undefined)
      if (ending === 'cancel') await cancel()
      if (ending === 'die') {
        hostOf(rp).kernel.worker.abandon()
        off()
      } else await rp.close()
      expect(open()).toEqual([])
      // Leftovers of the dead must not outlive the test.
      await cancel()
      expect(open()).toEqual([])
    }),
    { numRuns: 32, seed: 16 },
  )
})
