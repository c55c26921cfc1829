// Work that does not advance has its reason with its timeline, whatever its model: `ls`, `show`, `doctor` and the metrics read it
// from there. The note counts failures in a row over processes, and is removed with the first success.

import { expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { collectSink, pipeline, type Source } from '../../src/layers/pipeline/index.ts'
import { controller, informer, resource } from '../../src/layers/resource/index.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { failingTimelines } from '../../src/operations/failures.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { Metrics } from '../../src/server/metrics.ts'
import { pause, until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const soon = { backoff: 1, backoffMax: 5, jitter: 0 }

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }) },
})

/** The failure note as another process reads it; null: no note. */
async function noted(rp: Reprise, timeline: string) {
  return (
    (await failingTimelines(rp)).find(
      (each) => each.timeline === timeline || each.timeline.startsWith(`${timeline}@`),
    ) ?? null
  )
}

async function untilNoted(rp: Reprise, timeline: string, attempts = 1) {
  await until(async () => ((await noted(rp, timeline))?.attempts ?? 0) >= attempts)
  return (await noted(rp, timeline))!
}

async function untilClear(rp: Reprise, timeline: string): Promise<void> {
  await until(async () => (await noted(rp, timeline)) === null)
}

onEveryStore('failure notes', (world) => {
  it('a pipeline that failed has its reason, counted over processes, until a run makes a checkpoint', async () => {
    const w = await world()
    const watcher = await w.engine()
    let isMended = false
    const items: Source<number> = {
      async open() {
        if (!isMended) throw new Error('no such topic')
        let left = 3
        return {
          partitions: () => ['0'],
          close: async () => undefined,
          read: async () => (left-- > 0 ? { partition: '0', values: [left], position: left } : null),
        }
      },
    }
    const flow = pipeline('flow', (p) => void p.from('items', items).to('out', collectSink<number>()))
    for (let n = 1; n <= 2; n++) {
      const rp = await w.engine()
      await expect((await rp.run(flow)).result()).rejects.toThrow('no such topic')
      await rp.close()
      expect(await noted(watcher, 'pipeline/flow')).toMatchObject({ reason: 'no such topic', attempts: n, code: null })
    }
    await declareKinds(watcher)
    const [bad] = (await checkStore(watcher)).filter(({ state }) => state === 'bad')
    expect(bad).toMatchObject({ name: 'work' })
    expect(bad!.what).toMatch(/^pipeline\/flow failed 2 times in a row since .*: no such topic$/)
    const metrics = new Metrics(hostOf(watcher).kernel.events, Date.now)
    expect(await metrics.write(watcher)).toContain('reprise_failing_timelines{kind="pipeline"} 1')
    metrics.close()
    isMended = true
    expect(await (await watcher.run(flow)).result()).toMatchObject({ status: 'completed' })
    await untilClear(watcher, 'pipeline/flow')
  })

  it('a shared pipeline whose code changed has the reason with every task, and no note once the code is back', async () => {
    const w = await world()
    const endless: Source<number> = {
      partitions: async () => ['0', '1'],
      async open(_, { signal, partitions }) {
        const own = partitions ?? ['0', '1']
        let n = 0
        return {
          partitions: () => own,
          close: async () => undefined,
          async read() {
            await pause(5)
            if (signal.aborted) return null
            n += 1
            return { partition: own[0]!, values: [n], position: n }
          },
        }
      },
    }
    const draw = (sink: string) =>
      pipeline('shared', (p) => void p.from('items', endless).to(sink, collectSink<number>()), {
        checkpoint: { every: '20ms' },
      })
    const tasks = ['pipeline/shared/@0', 'pipeline/shared/@1']
    const first = await w.engine()
    first.work([draw('out')])
    await until(async () => (await first.list({ prefix: 'pipeline/shared' })).filter(({ seq }) => seq > 0).length >= 2)
    await first.close()
    const second = await w.engine()
    second.work([draw('results')])
    for (const task of tasks) expect((await untilNoted(second, task, 2)).reason).toContain('out')
    await second.close()
    const third = await w.engine()
    third.work([draw('out')])
    for (const task of tasks) await untilClear(third, task)
  })

  it('a job whose source fails, and that is run again', async () => {
    const rp = await (await world()).engine()
    let isMended = false
    const papers = job('papers', {
      source: async function* () {
        if (!isMended) throw new Error('the list is gone')
        yield 'a'
      },
      each: async () => undefined,
      retry: { attempts: 1 },
    })
    await expect((await rp.run(papers)).result()).rejects.toThrow('the list is gone')
    expect(await noted(rp, 'job/papers')).toMatchObject({
      reason: expect.stringContaining('the list is gone'),
      attempts: 1,
    })
    isMended = true
    await (await rp.run(papers)).result()
    await untilClear(rp, 'job/papers')
  })

  it('a projection that stopped at a poisonous event, and is resumed', async () => {
    const w = await world()
    const rp = await w.engine()
    let isMended = false
    const sums = projection('sums', {
      from: [account],
      initial: () => ({ sum: 0 }),
      on: {
        deposited: (s, e) => {
          if (!isMended) throw new Error('unlucky')
          return { sum: s.sum + e.amount }
        },
      },
    })
    const a = await rp.open(account, 'ann')
    await a.do('deposit', { amount: 13 })
    const p = await rp.open(sums)
    await expect(p.catchUp()).rejects.toThrow('unlucky')
    const { timeline, reason } = await untilNoted(await w.engine(), 'projection/sums')
    expect([timeline, reason]).toEqual([
      expect.stringMatching(/^projection\/sums@/),
      expect.stringContaining('unlucky'),
    ])
    isMended = true
    p.resume()
    await p.catchUp()
    await untilClear(rp, 'projection/sums')
  })

  it('a controller and an informer whose handlers fail again and again', async () => {
    const rp = await (await world()).engine()
    const sites = resource<{ n: number }>('sites')
    let isMended = false
    const fail = async () => {
      if (!isMended) throw new Error('no quota')
    }
    const objects = await rp.open(sites)
    await objects.create({ name: 'a', spec: { n: 1 } })
    await rp.open(controller('scaler', { watch: [sites], retry: { ...soon, attempts: 1e6 }, reconcile: fail }))
    await rp.open(informer('mailer', { of: sites, retry: { ...soon, attempts: 1e6 }, handle: fail }))
    for (const timeline of ['controller/scaler', 'informer/mailer']) {
      expect((await untilNoted(rp, timeline, 2)).reason).toBe('no quota')
    }
    isMended = true
    for (const timeline of ['controller/scaler', 'informer/mailer']) await untilClear(rp, timeline)
  })

  it('a session whose model fails, and is resumed', async () => {
    const rp = await (await world()).engine()
    let isMended = false
    const support = agent('support', {
      initial: () => ({}),
      model: () => {
        if (!isMended) throw new Error('quota used up')
        return { content: 'hello' }
      },
    })
    const session = await rp.open(support, 'ann')
    await expect(session.turn('hi')).rejects.toThrow('quota used up')
    expect(await noted(rp, 'agent/support/ann')).toMatchObject({ reason: expect.stringContaining('quota used up') })
    isMended = true
    await session.resume()
    await untilClear(rp, 'agent/support/ann')
  })

  it('another owner, an abort and a close are no failures; a fork starts without the note', async () => {
    const w = await world()
    const [rp, other] = [await w.engine(), await w.engine()]
    const { failures } = hostOf(rp).kernel
    const a = await rp.open(account, 'ann')
    await a.do('deposit', { amount: 1 })
    await expect(other.open(account, 'bob').then(() => other.open(account, 'ann'))).resolves.toBeDefined()
    await failures.failed('events/account/ann', new Error('x'.repeat(5000)))
    const { reason } = (await noted(rp, 'events/account/ann'))!
    expect(reason).toHaveLength(300)
    expect(reason).toMatch(/x…$/)
    await rp.fork({ timeline: 'events/account/ann', seq: 1 }, 'events/account/fork')
    expect(await noted(rp, 'events/account/fork')).toBeNull()
    failures.succeeded('events/account/ann')
    await untilClear(rp, 'events/account/ann')
  })
})

it('with an encryption key the reason is sealed, and read with the key alone', async () => {
  const { createEngine } = await import('../../src/engine/api/open.ts')
  const { createWorld, openMemory } = await import('../../src/stores/memory/index.ts')
  const { sha256 } = await import('../../src/engine/base/platform.ts')
  const one = createWorld()
  const keys = { current: 'k', keys: { k: new Uint8Array(32).fill(7) } }
  const rp = createEngine({ store: await openMemory({ namespace: 'default', hash: sha256, world: one }) }, { keys })
  const a = await rp.open(account, 'ann')
  await a.do('deposit', { amount: 1 })
  await hostOf(rp).kernel.failures.failed('events/account/ann', new Error('card 4242'))
  expect((await noted(rp, 'events/account/ann'))!.reason).toBe('card 4242')
  const [head] = await (await openMemory({ namespace: 'default', hash: sha256, world: one })).head([
    'events/account/ann' as never,
  ])
  expect(JSON.stringify(head!.attributes)).not.toContain('4242')
})
