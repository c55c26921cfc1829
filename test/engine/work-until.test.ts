// Work with an end: due work is executed, the rest is released for the next process, and the report names it. Each
// test runs on SQLite and on PostgreSQL; the "next process" is a second engine on the same store.

import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { consumer, job } from '../../src/layers/job/index.ts'
import { queue, schedule, type WorkflowContext, workflow, workflows } from '../../src/layers/workflow/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { faultyStore } from '../../src/testing/faulty-store.ts'
import { slowStore } from '../../src/testing/slow-store.ts'
import { within } from '../../src/within.ts'
import { newGate, temporaryFolder, until } from '../support/fixture.ts'
import { type StoreUrl, storeUrls } from '../support/store-urls.ts'
import { application } from '../within/database.ts'

const quick = { budget: '60s', idle: 1000 } as const

describe.each(Object.keys(storeUrls))('workUntil (%s)', (kind) => {
  let store: StoreUrl
  let opened: Reprise[] = []
  beforeEach(() => {
    store = storeUrls[kind]!()
  })
  afterEach(async () => {
    for (const rp of opened) await rp.close()
    opened = []
    await store.remove()
  })
  const process = async () => {
    const rp = await open(store.url, { housekeeping: false })
    opened.push(rp)
    return rp
  }

  it('executes due work, returns when there is none, and reports when there is work again', async () => {
    const greet = workflow('greet', async (ctx: WorkflowContext, name: string) => {
      const words = await ctx.step('say', () => `hello ${name}`)
      await ctx.sleep('1h')
      return words
    })
    const client = await process()
    const begunAt = Date.now()
    for (const id of ['ann', 'bob', 'cat']) await client.run(greet, id, { id, here: false })
    const worker = await process()
    const report = await worker.workUntil([greet], quick)
    expect(report).toEqual({ done: 3, handedOver: [], nextDueAt: expect.any(Number) })
    const hour = 3_600_000
    expect(report.nextDueAt).toBeGreaterThanOrEqual(begunAt + hour - 60_000)
    expect(report.nextDueAt).toBeLessThanOrEqual(Date.now() + hour + 60_000)
    const heads = await client.list({ prefix: 'workflow/greet/' })
    expect(heads.map(({ owner, status }) => [owner, status])).toEqual(Array(3).fill([null, 'waiting']))
    expect(await worker.workUntil([greet], quick)).toMatchObject({ done: 0, handedOver: [] })
  })

  it('hands a long step over by name, due at once, and the next process executes it', async () => {
    const gate = newGate()
    let isLong = true
    const calls: string[] = []
    const render = workflow('render', async (ctx: WorkflowContext) => {
      await ctx.step('fetch', () => calls.push('fetch'))
      await ctx.step('encode', async ({ key }) => {
        calls.push(`encode ${key}`)
        if (isLong) await gate.opened
      })
      return 'done'
    })
    const client = await process()
    const run = await client.run(render, { id: 'film', here: false })
    const first = await process()
    let report = await first.workUntil([render], { budget: 1500 })
    // On a busy machine, the time may be over before the step.
    while (!calls.some((call) => call.startsWith('encode'))) report = await first.workUntil([render], { budget: 1500 })
    expect(report.done).toBe(0)
    expect(report.handedOver).toEqual([{ timeline: 'workflow/render/film', inFlight: ['step encode'] }])
    expect(report.nextDueAt).toBeLessThanOrEqual(Date.now() + 60_000)
    // The release itself may take longer than the budget there.
    await until(async () => (await client.list({ prefix: 'workflow/render/film' }))[0]!.owner === null)
    isLong = false
    expect(await (await process()).workUntil([render], quick)).toMatchObject({ done: 1, handedOver: [] })
    expect(await run.result()).toBe('done')
    const encodes = calls.filter((call) => call.startsWith('encode'))
    expect(encodes).toHaveLength(2)
    expect(new Set(encodes).size).toBe(1)
    gate.open()
  })

  it('a long step that sends heartbeats with its progress resumes from it in the next process', async () => {
    const gate = newGate()
    const frames: number[] = []
    let isLong = true
    const render = workflow('render', async (ctx: WorkflowContext) =>
      ctx.step('encode', async ({ details, heartbeat }) => {
        for (let frame = (details as number | undefined) ?? 0; frame < 6; frame++) {
          if (frame === 3 && isLong) await gate.opened
          frames.push(frame)
          await heartbeat(frame + 1)
        }
        return 'done'
      }),
    )
    const client = await process()
    const run = await client.run(render, { id: 'film', here: false })
    const first = await process()
    // On a busy machine, the time may be over before the step.
    let report = await first.workUntil([render], { budget: 2000 })
    while (frames.length < 3) report = await first.workUntil([render], { budget: 2000 })
    expect(report.handedOver).toEqual([{ timeline: 'workflow/render/film', inFlight: ['step encode'] }])
    isLong = false
    await (await process()).workUntil([render], quick)
    expect(await run.result()).toBe('done')
    expect(frames).toEqual([0, 1, 2, 3, 4, 5])
    gate.open()
  })

  it('stops between two steps when the time is nearly over, and the next process continues there', async () => {
    const starts: number[] = []
    const step = (i: number) => {
      starts.push(i)
      return new Promise<number>((resolve) => setTimeout(resolve, 10, i))
    }
    const count = workflow('count', async (ctx: WorkflowContext) => {
      for (let i = 0; i < 200; i++) await ctx.step(`step-${i}`, () => step(i))
      return 'done'
    })
    const client = await process()
    const run = await client.run(count, { id: 'one', here: false })
    const first = await process()
    // On a busy machine, the time may be over before the first step.
    let calls = 1
    let report = await first.workUntil([count], { budget: 1000 })
    for (; starts.length === 0; calls++) report = await first.workUntil([count], { budget: 1000 })
    expect(report.handedOver.map(({ timeline }) => timeline)).toEqual(['workflow/count/one'])
    const before = starts.length
    expect(before).toBeGreaterThan(0)
    expect(before).toBeLessThan(200)
    await (await process()).workUntil([count], quick)
    expect(await run.result()).toBe('done')
    // A step that was cut off is started a second time, at most one per call; a completed one is not.
    expect(starts.length).toBeLessThanOrEqual(200 + calls)
    expect(new Set(starts).size).toBe(200)
  })

  it('is due again when the lease of a live owner ends, because that owner may be killed', async () => {
    const gate = newGate()
    const slow = workflow('slow', async (ctx: WorkflowContext) => await ctx.step('wait', () => gate.opened))
    const other = await open(store.url, { housekeeping: false, lease: '40s' })
    opened.push(other)
    const begunAt = Date.now()
    const run = await other.run(slow, { id: 'one' })
    await until(async () => (await other.list({ prefix: 'workflow/slow/' })).some(({ status }) => status === 'running'))
    const report = await (await process()).workUntil([slow], quick)
    expect(report).toEqual({ done: 0, handedOver: [], nextDueAt: expect.any(Number) })
    // The clock of the database and that of this test may differ.
    expect(report.nextDueAt).toBeGreaterThan(begunAt + 39_000)
    expect(report.nextDueAt).toBeLessThan(Date.now() + 41_000)
    gate.open()
    await run.result()
    expect((await (await process()).workUntil([slow], quick)).nextDueAt).toBe(null)
  })

  it('is not due without work, also if the time is over before it counts as idle', async () => {
    const rest = workflow('rest', async () => 'done')
    const worker = await process()
    // On a busy machine, the first claim may not be answered in time: then there may be work.
    await until(async () => (await worker.workUntil([rest], { budget: 1000, idle: '5s' })).nextDueAt === null)
  })

  it('hands over a run that the same process started', async () => {
    const [begun, gate] = [newGate(), newGate()]
    const slow = workflow('slow', async (ctx: WorkflowContext) => {
      await ctx.step('wait', () => {
        begun.open()
        return gate.opened
      })
      return 'done'
    })
    const rp = await process()
    const run = await rp.run(slow, { id: 'mine' })
    await begun.opened
    const report = await rp.workUntil({ budget: 4000 })
    expect(report.handedOver).toEqual([{ timeline: 'workflow/slow/mine', inFlight: ['step wait'] }])
    gate.open()
    await (await process()).workUntil([slow], quick)
    expect(await run.result()).toBe('done')
  })

  it('works on queues, schedules, jobs, consumers, projections and mail, again in each call', async () => {
    const done: string[] = []
    const note = timeline('note', { initial: () => 0, apply: (n: number, _: { type: 'noted' }) => n + 1 })
    const act = async (ctx: WorkflowContext, n: number) => await ctx.step('do', () => void done.push(`queued ${n}`))
    const queued = workflow('queued', act, { queue: queue('narrow', { concurrency: 1 }) })
    const tick = workflow('tick', async (ctx) => await ctx.step('do', () => void done.push('tick')))
    const often = schedule('often', { workflow: tick, every: 100 })
    const papers = job('papers', { source: ['a', 'b'], each: (item) => void done.push(`item ${item}`) })
    const reader = consumer('reader', { from: [note], each: ({ seq }) => void done.push(`note ${seq}`) })
    const all = [queued, often, papers, reader]
    const client = await process()
    const worker = await process()
    const workUntil = async (...wanted: string[]) => {
      while (!wanted.every((each) => done.includes(each))) await worker.workUntil(all, { budget: 3000, idle: 300 })
    }
    const notes = await client.open(note, 'x')
    for (const n of [1, 2]) await client.run(queued, n, { id: `q${n}`, here: false })
    await notes.append({ type: 'noted' })
    await workUntil('queued 1', 'queued 2', 'tick', 'note 1')
    await worker.run(papers)
    await notes.append({ type: 'noted' })
    await workUntil('note 2', 'item a', 'item b')
    expect(done.filter((each) => !/tick/.test(each)).sort()).toEqual([
      'item a',
      'item b',
      'note 1',
      'note 2',
      'queued 1',
      'queued 2',
    ])
  })

  it('counts runs that a request of an application or another run started', async () => {
    const child = workflow('child', async (_ctx: WorkflowContext, n: number) => n)
    const parent = workflow('parent', async (ctx: WorkflowContext) => await ctx.child(child, 1))
    const client = await process()
    const app = await application(store.url)
    for (const id of ['a', 'b']) await app.start('parent', id, null)
    await app.close()
    const report = await (await process()).workUntil([parent, child], quick)
    const results = await Promise.all(['a', 'b'].map((id) => workflows(client).of(parent).get(id).result()))
    expect(results).toEqual([1, 1])
    // A parent may leave memory while its child works, and is claimed again.
    expect(report.done).toBeGreaterThanOrEqual(4)
    expect(await (await process()).workUntil([parent, child], quick)).toMatchObject({ done: 0, handedOver: [] })
  })

  it('is due again for a request that waits for another process, and not for the requests of other definitions', async () => {
    const one = workflow('one', async () => 'done')
    const other = workflow('other', async () => 'done')
    const keys = { current: 'new', keys: { new: new Uint8Array(32).fill(2) } }
    const client = await open(store.url, { housekeeping: false, keys })
    opened.push(client)
    const app = await application(store.url)
    await app.run('BEGIN')
    await within(client, app.tx).run(one, { id: 'a', here: false })
    await app.run('COMMIT')
    await app.close()
    // This process does not have the key of the request.
    const poor = await process()
    const later = await poor.workUntil([one], quick)
    await poor.close()
    expect(later).toMatchObject({ done: 0, nextDueAt: expect.any(Number) })
    expect(await (await process()).workUntil([other], quick)).toMatchObject({ done: 0, nextDueAt: null })
    expect(await client.workUntil([one], quick)).toMatchObject({ done: 1, nextDueAt: null })
  })

  it('applies events to projections, and returns once nothing follows', async () => {
    const box = aggregate('box', {
      initial: () => 0,
      evolve: { filled: (n: number, { by }: { by: number }) => n + by },
      decide: { fill: (_: number, { by }: { by: number }) => ({ type: 'filled' as const, by }) },
    })
    const sum = projection('sum', {
      from: [box],
      initial: () => ({ total: 0 }),
      on: { filled: (state: { total: number }, { by }: { by: number }) => ({ total: state.total + by }) },
    })
    const client = await process()
    const worker = await process()
    for (const by of [2, 3]) {
      await (await client.open(box, 'b')).do('fill', { by })
      expect((await worker.workUntil([box, sum], { budget: '60s', idle: '1s' })).handedOver).toEqual([])
    }
    const view = await client.open(sum)
    await view.catchUp()
    expect(view.state).toEqual({ total: 5 })
  })
})

describe('workUntil on a store that fails', () => {
  const idle = workflow('idle', async (_ctx: WorkflowContext) => 'done')

  it('rejects with the code of a store that has moved', async () => {
    const folder = temporaryFolder(`until-${process.pid}`)
    await using rp = await open(`sqlite:${join(folder, 'a.db')}`, { housekeeping: false })
    renameSync(join(folder, 'a.db'), join(folder, 'b.db'))
    await expect(rp.workUntil([idle], { budget: '60s' })).rejects.toMatchObject({ code: 'STORE_MOVED' })
  })

  it('rejects with the code of a store that never answered a claim, and waits for one that returns', async () => {
    let isAway = true
    let refused = 0
    const away = faultyStore(openMemory({ namespace: 'default', hash: sha256, world: createWorld() }), (method) => {
      if (method !== 'claim' || !isAway) return 'ok'
      refused += 1
      return 'fail-before'
    })
    await using rp = await createEngine({ store: away })
    await rp.run(idle, { id: 'one', here: false })
    await expect(rp.workUntil([idle], { budget: 3000, idle: 100 })).rejects.toMatchObject({ code: 'STORE_IO' })
    refused = 0
    const report = rp.workUntil([idle], { budget: '60s', idle: 100 })
    await until(() => refused > 1)
    isAway = false
    expect(await report).toMatchObject({ done: 1, handedOver: [] })
  })

  it.each(['claim', 'nextDue'])('returns in time when %s is never answered', async (slow) => {
    const never = new Promise(() => undefined)
    let isSlow = false
    const store = slowStore(openMemory({ namespace: 'default', hash: sha256, world: createWorld() }), (method) =>
      isSlow && method === slow ? never : undefined,
    )
    const rp = await createEngine({ store })
    const off = rp.events.on('committed', () => {
      isSlow = true
    })
    await rp.run(idle, { id: 'one', here: false })
    isSlow ||= slow === 'claim'
    const report = await rp.workUntil([idle], { budget: 3000, idle: 100 })
    expect(report.nextDueAt).toBeLessThanOrEqual(Date.now() + 60_000)
    off()
  })
})

describe('workUntil that ends while a timeline is being opened', () => {
  /** Its calls of one method wait while it is slow. */
  const slowEngine = async () => {
    let slow: { readonly method: string; readonly gate: ReturnType<typeof newGate> } | null = null
    const store = slowStore(openMemory({ namespace: 'default', hash: sha256, world: createWorld() }), (method) =>
      method === slow?.method ? slow.gate.opened : undefined,
    )
    const rp = await createEngine({ store })
    const slowDown = (method: string) => {
      const gate = newGate()
      slow = { method, gate }
      return () => {
        slow = null
        gate.open()
      }
    }
    return { rp, slowDown }
  }
  const ownerOf = async (rp: Reprise, prefix: string) => (await rp.list({ prefix })).map(({ owner }) => owner)

  it('releases a consumer that it took too late, and the next call works on it', async () => {
    const { rp, slowDown } = await slowEngine()
    const note = timeline('note', { initial: () => 0, apply: (n: number, _: { type: 'noted' }) => n + 1 })
    const seen: number[] = []
    const reader = consumer('reader', { from: [note], each: ({ seq }) => void seen.push(seq) })
    await (await rp.open(note, 'x')).append({ type: 'noted' })
    const recover = slowDown('commit')
    await rp.workUntil([reader], { budget: 300, idle: 100 })
    recover()
    await until(async () => (await ownerOf(rp, 'job/reader')).includes(null))
    await rp.workUntil([reader], quick)
    expect(seen).toEqual([1])
    await rp.close()
  })

  it('releases a job that it claimed too late, and the next call ends it', async () => {
    const { rp, slowDown } = await slowEngine()
    const [begun, gate] = [newGate(), newGate()]
    const done: string[] = []
    const each = async (item: string) => {
      begun.open()
      await gate.opened
      done.push(item)
    }
    const papers = job('papers', { source: ['a', 'b'], each, concurrency: 1 })
    await rp.run(papers)
    await begun.opened
    await rp.workUntil([papers], { budget: 300 })
    gate.open()
    await until(async () => (await ownerOf(rp, 'job/papers')).includes(null))
    const problems: unknown[] = []
    rp.events.on('problem', (problem) => problems.push(problem))
    const recover = slowDown('head')
    await rp.workUntil([papers], { budget: 300, idle: 100 })
    recover()
    await until(async () => (await ownerOf(rp, 'job/papers')).includes(null))
    await rp.workUntil([papers], quick)
    expect(done.slice(-1)).toEqual(['b'])
    expect(problems).toEqual([])
    await rp.close()
  })
})

it('refuses a short budget, unknown options, and endless work beside it', async () => {
  const idle = workflow('idle', async () => undefined)
  await using rp = await open('memory:')
  await expect(rp.workUntil([idle], { budget: 10 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  await expect(rp.workUntil([idle], { budget: '1s', often: 1 } as never)).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  })
  await expect(rp.workUntil([idle] as never)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  await rp.workUntil([idle], { budget: '1s', idle: 10 })
  expect(() => rp.work([idle])).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  await using endless = await open('memory:')
  endless.work([idle])
  await expect(endless.workUntil([idle], { budget: '1s' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
})
