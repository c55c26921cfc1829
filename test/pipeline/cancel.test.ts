// A pipeline ends on request, whatever its sinks and calls do: cancel() at once, stop() and close() within checkpointTimeout.
// The next run repeats the hanging work.

import { afterEach, describe, expect, it } from 'vitest'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256, systemClock } from '../../src/engine/base/platform.ts'
import { open, type Reprise } from '../../src/index.ts'
import {
  generatedSource,
  pipeline,
  type Sink,
  type SinkWriter,
  type Source,
  sendSink,
} from '../../src/layers/pipeline/index.ts'
import { act } from '../../src/operations/run-verb.ts'
import { openMemory } from '../../src/stores/memory/index.ts'
import { until } from '../support/fixture.ts'

const opened: Reprise[] = []
afterEach(async () => {
  for (const rp of opened.splice(0)) await rp.close()
})

async function engine(): Promise<Reprise> {
  const rp = await open('memory:')
  opened.push(rp)
  return rp
}

const never = () => new Promise<never>(() => undefined)

/** Gives one, two, three, and then nothing more, without an end. `fails` rejects: so does reading. */
const endless = (fails: Promise<never> = never()): Source<number> => ({
  async open(from, { signal }) {
    let at = Number(from?.get('') ?? 0)
    const ended = new Promise<null>((resolve) => {
      if (signal.aborted) resolve(null)
      signal.addEventListener('abort', () => resolve(null), { once: true })
    })
    return {
      partitions: () => [''],
      close: async () => undefined,
      read() {
        const values = [1, 2, 3].slice(at)
        at = 3
        return values.length > 0 ? { partition: '', values, position: at } : Promise.race([ended, fails])
      },
    }
  },
})

type Method = 'open' | 'prepare' | 'commit'

/** A sink of which one method never returns: in every call, or in this many calls after the first ones. */
function hanging(method: Method, times = Number.POSITIVE_INFINITY, first = 0) {
  const seen = { reached: 0, prepared: 0, isClosed: false }
  let calls = 0
  const pass = async (at: Method) => {
    if (at !== method) return
    calls += 1
    if (calls <= first || seen.reached >= times) return
    seen.reached += 1
    await never()
  }
  const writer: SinkWriter = {
    pending: 0,
    write: () => undefined,
    cut: () => async () => {
      await pass('prepare')
      seen.prepared += 1
      return null
    },
    commit: () => pass('commit'),
    rejoin: () => undefined,
    close: async () => {
      seen.isClosed = true
    },
  }
  const sink: Sink<number> = {
    open: async () => {
      await pass('open')
      return writer
    },
  }
  return { seen, sink }
}

const flowInto = (sink: Sink<number>) => pipeline('flow', (p) => void p.from('numbers', endless()).to('out', sink))

describe('cancel', () => {
  it.each(['open', 'prepare', 'commit'] as const)('ends a run whose sink hangs in %s', async (method) => {
    const rp = await engine()
    const { seen, sink } = hanging(method)
    const run = rp.run(flowInto(sink), { checkpoint: { every: 1 } })
    await until(() => seen.reached > 0)
    expect((await run.cancel()).status).toBe('cancelled')
    expect(seen.isClosed).toBe(method !== 'open')
    const again = await rp.run(flowInto(hanging('open', 0).sink)).started()
    expect(await again.stop()).toMatchObject({ status: 'stopped' })
  })

  it('ends a run that waits for its sends, and the next run sends the rest', async () => {
    const rp = await engine()
    const keys: string[] = []
    let isHung = true
    const signals: AbortSignal[] = []
    const sending = sendSink<number>(async (_, { key, signal }) => {
      keys.push(key)
      signals.push(signal)
      if (isHung) await never()
    })
    const run = await rp.run(flowInto(sending), { checkpoint: { every: 1_000_000 } }).started()
    await until(() => keys.length === 3)
    const asked = run.savepoint()
    asked.catch(() => undefined)
    await until(() => run.status().checkpoints.isUnderWay)
    expect((await run.cancel()).status).toBe('cancelled')
    await expect(asked).rejects.toMatchObject({ code: 'CANCELLED' })
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true])
    isHung = false
    const again = await rp.run(flowInto(sending)).started()
    await until(() => keys.length === 6, again.result())
    expect((await again.stop()).records).toBe(3)
    expect(keys.slice(3).sort()).toEqual(keys.slice(0, 3).sort())
  })

  it('ends a stopping run, and all waits for it', async () => {
    const rp = await engine()
    const { seen, sink } = hanging('prepare')
    const run = await rp.run(flowInto(sink), { checkpoint: { every: 1_000_000 } }).started()
    const stopped = run.stop()
    await until(() => seen.reached > 0)
    expect((await run.cancel()).status).toBe('cancelled')
    expect((await stopped).status).toBe('cancelled')
  })

  it('ends a run that gets a request by mail while it redrives letters', async () => {
    const rp = await engine()
    const { seen, sink } = hanging('prepare', 1, 1)
    let isMended = false
    const flow = pipeline('flow', (p) => {
      p.from('numbers', endless())
        .map((n) => {
          if (n === 2 && !isMended) throw new Error('two is bad')
          return n
        })
        .to('out', sink)
    })
    const run = await rp.run(flow, { checkpoint: { every: 1_000_000 } }).started()
    await until(async () => (await run.deadLetters()).length === 1)
    await run.checkpoint()
    isMended = true
    const [head] = await rp.list({ prefix: 'pipeline/' })
    await act(rp, head!, 'redrive', {})
    await until(() => seen.reached > 0)
    expect((await run.cancel()).status).toBe('cancelled')
  })
})

it('calls that answer at once leave the event loop to others', async () => {
  // Time passes by how often it is looked at, so that the machine does not matter.
  let elapsed = 0
  const clock = { ...systemClock, elapsed: () => (elapsed += 0.1) }
  const rp = createEngine({ store: openMemory({ namespace: 'default', hash: sha256 }), clock })
  opened.push(rp)
  let calls = 0
  const flow = pipeline('flow', (p) => {
    const numbers = generatedSource((n) => n)
    p.from('numbers', numbers)
      .call('counted', async (n) => {
        calls += 1
        return n
      })
      .to(
        'sent',
        sendSink(async () => undefined),
      )
  })
  const run = await rp.run(flow).started()
  let most = 0
  for (let turn = 0; turn < 20; turn++) {
    const before = calls
    await new Promise((resolve) => setImmediate(resolve))
    most = Math.max(most, calls - before)
  }
  await run.cancel()
  expect([calls > 512, most]).toEqual([true, expect.toSatisfy((n: number) => n <= 2048)])
})

describe('checkpointTimeout', () => {
  it('is the time that a stop waits for its savepoint: then the run ends, and the next resumes from the previous one', async () => {
    const rp = await engine()
    const { seen, sink } = hanging('prepare')
    const options = { checkpoint: { every: 1_000_000 }, checkpointTimeout: '50ms' } as const
    const run = await rp.run(flowInto(sink), options).started()
    await expect(run.stop()).rejects.toMatchObject({ code: 'TIMEOUT', message: expect.stringContaining('out') })
    expect(seen).toMatchObject({ isClosed: true, prepared: 0 })
    const again = await rp.run(flowInto(hanging('open', 0).sink)).started()
    await until(() => again.status().records === 3)
    expect(await again.stop()).toMatchObject({ status: 'stopped', records: 3 })
  })

  it('is how long closing waits, and a commit of a sink has no more time than that either', async () => {
    const rp = await open('memory:')
    const { seen, sink } = hanging('commit')
    const options = { checkpoint: { every: 1_000_000 }, checkpointTimeout: '200ms' } as const
    const run = await rp.run(flowInto(sink), options).started()
    const result = run.result()
    result.catch(() => undefined)
    await rp.close()
    expect(seen.isClosed).toBe(true)
    await expect(result).rejects.toMatchObject({ code: 'TIMEOUT' })
  })

  it('gives up a checkpoint that hangs, and the next one is made', async () => {
    const rp = await engine()
    const { seen, sink } = hanging('prepare', 1)
    const failures: unknown[] = []
    rp.events.on('checkpoint-failed', ({ error }) => failures.push((error as { code: string }).code))
    const options = { checkpoint: { every: 1 }, checkpointTimeout: '50ms' } as const
    const run = await rp.run(flowInto(sink), options).started()
    await until(() => run.status().checkpoints.recent.length > 0, run.result())
    expect([seen.prepared > 0, failures[0]]).toEqual([true, 'TIMEOUT'])
    expect((await run.cancel()).status).toBe('cancelled')
  })

  it('is how long a run that failed waits for the checkpoint under way', async () => {
    const rp = await engine()
    const { seen, sink } = hanging('prepare')
    let fail: (error: Error) => void = () => undefined
    const fails = new Promise<never>((_, reject) => {
      fail = reject
    })
    // The source may not be waiting for it yet.
    fails.catch(() => undefined)
    const flow = pipeline('flow', (p) => void p.from('numbers', endless(fails)).to('out', sink))
    const run = rp.run(flow, { checkpoint: { every: 1 }, checkpointTimeout: '50ms' })
    await until(() => seen.reached > 0)
    fail(new Error('cannot read'))
    await expect(run.result()).rejects.toThrow('cannot read')
    expect(seen.isClosed).toBe(true)
  })
})
