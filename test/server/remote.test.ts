// Work that is done by outside programs: steps of workflows and items of jobs, claimed over HTTP, with servers and workers that
// disappear at any moment. Acknowledged work is never handed out again; other work is.

import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { remote } from '../../src/adapters/remote/index.ts'
import { timelineId } from '../../src/core/coordinate.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { ledgerOnly } from '../../src/engine/model/definition.ts'
import { job } from '../../src/layers/job/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { at, startServer, type TestServer } from './support.ts'

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function served(options: Parameters<typeof startServer>[0] = {}): Promise<TestServer> {
  const here = await startServer(options)
  cleanups.push(() => here.close())
  return here
}

interface Handed {
  readonly task: string
  readonly key: string
  readonly attempt: number
  readonly input: unknown
}

async function claim(here: TestServer, queue: string, body: object = {}): Promise<Handed[]> {
  const { value } = await here.ask(`/v1/remote/${queue}/claim`, { body: { waitMs: 5000, ...body } })
  return value.tasks
}

const settle = async (here: TestServer, queue: string, ...results: object[]) =>
  (await here.ask(`/v1/remote/${queue}/results`, { body: { results } })).value

describe('a step of a workflow', () => {
  const charge = remote<{ cents: number }, { paid: number }>('charge')
  const checkout = workflow('remote-checkout', async (ctx, order: { cents: number }) => {
    const paid = await ctx.step('charge', (step) => charge(order, step), { retry: { attempts: 3, backoff: '1ms' } })
    return { ...paid, id: ctx.id }
  })

  it('is done by a worker outside, under the key of the step, and its run is started and awaited over HTTP', async () => {
    const here = await served({ definitions: [checkout] })
    here.rp.work([checkout])
    const body = { name: 'remote-checkout', input: { cents: 7 } }
    const started = await here.ask('/v1/runs', { body, key: 'order-1' })
    expect([started.status, started.value.kind]).toEqual([201, 'workflow'])
    expect((await here.ask('/v1/runs', { body, key: 'order-1' })).value.timeline).toBe(started.value.timeline)
    const path = at(started.value.timeline)
    expect((await here.ask(`${path}/result`)).value).toMatchObject({ isEnded: false })
    const [task] = await claim(here, 'charge')
    expect(task).toMatchObject({ key: expect.stringMatching(/^charge-[0-9a-f]{32}$/), attempt: 1, input: { cents: 7 } })
    expect((await here.ask('/v1/remote')).value.queues).toEqual([{ queue: 'charge', waiting: 0, claimed: 1 }])
    const beat = await here.ask('/v1/remote/charge/heartbeat', { body: { tasks: [task!.task, 'other'] } })
    expect(beat.value).toEqual({ alive: [task!.task], lost: ['other'] })
    expect(await settle(here, 'charge', { task: task!.task, result: { paid: 7 } })).toEqual({
      settled: [task!.task],
      lost: [],
    })
    const ended = await here.ask(`${path}/result?waitMs=5000`)
    expect(ended.value).toMatchObject({ status: 'completed', isEnded: true, result: { paid: 7 } })
    // The answer was lost: a repetition returns the same.
    expect((await settle(here, 'charge', { task: task!.task, result: { paid: 7 } })).settled).toEqual([task!.task])
  })

  it('fails as reported by the worker, and is retried or given up', async () => {
    const here = await served({ definitions: [checkout] })
    const one = await here.rp.run(checkout, { cents: 1 })
    const [first] = await claim(here, 'charge')
    await settle(here, 'charge', { task: first!.task, error: 'the bank is closed' })
    const [second] = await claim(here, 'charge')
    expect(second).toMatchObject({ key: first!.key, attempt: 2 })
    await settle(here, 'charge', { task: second!.task, error: 'no such card', retry: false })
    await expect(one.result()).rejects.toThrow('no such card')
    const told = await here.ask(`${at(one.timeline)}/result`)
    expect(told.value).toMatchObject({
      status: 'failed',
      isEnded: true,
      error: { message: expect.stringContaining('no such card') },
    })
  })

  it('that was acknowledged is not handed out again by the next process, though this one died before it was recorded', async () => {
    const world = createWorld()
    const engine = () =>
      createEngine({ store: openMemory({ namespace: 'default', hash: sha256, world }) }, { worker: 'w' })
    const dead = await served({ rp: engine(), definitions: [checkout] })
    const run = await dead.rp.run(checkout, { cents: 3 }, { id: 'dies' })
    const [task] = await claim(dead, 'charge')
    // Acknowledged by another server, which dies before it marks the task: the step hears of it when the task is due again.
    const other = await startServer({ rp: engine() })
    cleanups.push(() => other.close())
    const outcome = timelineId(`reprise/requests/outcomes/charge/${task!.task.split('.')[0]}`)
    const entry = { type: 'settled', data: { kind: 'done', result: { paid: 3 } } }
    await hostOf(other.rp).create(outcome, ledgerOnly, [entry], { release: true, status: 'ended' })
    expect(await claim(other, 'charge', { waitMs: 0 })).toEqual([])
    const taken = workflows(dead.rp).of(checkout).get('dies')
    await dead.ask('/v1/remote/charge/heartbeat', { body: { tasks: [task!.task], ttlMs: 1000 } })
    // Its worker is gone too: the next claim finds the result instead of the work.
    while (!(await taken.status()).isEnded) expect(await claim(other, 'charge', { waitMs: 100 })).toEqual([])
    expect(await taken.result()).toMatchObject({ paid: 3 })
    expect(run.timeline).toBe(taken.timeline)
  })
})

describe('items of a job', () => {
  it('are claimed in batches, acknowledged, failed and left: at most the batch in flight is repeated', async () => {
    const here = await served()
    const total = 40
    const done = new Map<string, number>()
    const work = remote<{ id: string }>('index')
    const papers = job('remote-papers', {
      source: [...Array(total).keys()].map((n) => ({ id: `p${n}` })),
      key: (paper) => paper.id,
      concurrency: 10,
      retry: { attempts: 2, backoff: '1ms' },
      each: (paper, ctx) => work(paper, ctx),
    })
    const run = here.rp.run(papers)
    let isLeft = false
    while (done.size < total) {
      const tasks = await claim(here, 'index', { max: 10, ttlMs: 1000 })
      const results = tasks.map(({ task, attempt, input }) => {
        const { id } = input as { id: string }
        if (id === 'p7' && attempt === 1) return { task, error: 'busy' }
        return { task, result: id }
      })
      // One batch is lost with its worker, once.
      if (!isLeft && done.size > 10) {
        isLeft = true
        continue
      }
      const { settled } = await settle(here, 'index', ...results)
      for (const { task, result } of results) {
        if (result !== undefined && settled.includes(task)) done.set(result, (done.get(result) ?? 0) + 1)
      }
    }
    expect([...done.values()].every((times) => times === 1)).toBe(true)
    expect(await run.result()).toMatchObject({ done: total, failed: 0, retried: 1 })
  }, 15_000)

  it('may be entries that a program appended: the job runs in the server', async () => {
    const here = await served()
    const entries = [1, 2, 3].map((n) => ({ type: 'order', data: { n } }))
    await here.ask(`${at('shop/orders')}/entries`, { body: { entries }, key: 'k' })
    const start = () => here.ask('/v1/remote/orders/job', { body: { from: ['shop/orders'], attempts: 1 } })
    expect((await start()).value).toEqual({ job: 'job/orders', isNew: true })
    expect((await start()).value.isNew).toBe(false)
    const other = await here.ask('/v1/remote/orders/job', { body: { from: ['shop/others'] } })
    expect(other.value.code).toBe('EXISTS')
    const tasks: Handed[] = []
    while (tasks.length < 3) tasks.push(...(await claim(here, 'orders', { max: 10 })))
    const outcome = ({ task, input }: Handed) =>
      (input as { data: { n: number } }).data.n === 2 ? { task, error: 'sold out', retry: false } : { task, result: 1 }
    expect((await settle(here, 'orders', ...tasks.map(outcome))).settled).toHaveLength(3)
    await expect.poll(async () => (await here.ask(`${at('job/orders')}/dead-letters`)).value.letters.length).toBe(1)
  })
})

describe('a token', () => {
  it('reaches only the queues of its scopes', async () => {
    const here = await served()
    for (const [path, body] of [
      ['claim', {}],
      ['heartbeat', { tasks: ['x'] }],
      ['results', { results: [{ task: 'x' }] }],
      ['job', { from: ['ann/x'] }],
    ] as const) {
      const { status, value } = await here.ask(`/v1/remote/secret/${path}`, { as: 'ann', body })
      expect([path, status, value.code]).toEqual([path, 404, 'NOT_FOUND'])
    }
    expect((await here.ask('/v1/remote', { as: 'ann' })).value).toEqual({ queues: [] })
  })
})

it('in any order of claims, lost workers, results and failures each task ends once, with the acknowledged result', async () => {
  const here = await served()
  let round = 0
  await fc.assert(
    fc.asyncProperty(fc.array(fc.constantFrom('done', 'fail', 'twice', 'late'), { maxLength: 12 }), async (steps) => {
      round += 1
      const queue = `any-${round}`
      const work = remote<number, string>(queue)
      const ended: string[] = []
      const { signal } = new AbortController()
      const calls = steps.map((_, n) =>
        work(n, { key: `${queue}/${n}`, attempt: 1, signal }).then(
          (result) => ended.push(`${n}:${result}`),
          (error: Error) => ended.push(`${n}:${error.message}`),
        ),
      )
      const wanted: string[] = []
      const seen = new Set<number>()
      while (seen.size < steps.length) {
        const [task] = await claim(here, queue)
        const n = task!.input as number
        const how = steps[n]!
        expect(seen.has(n)).toBe(false)
        seen.add(n)
        const good = { task: task!.task, result: 'ok' }
        if (how === 'fail') await settle(here, queue, { task: task!.task, error: 'no' })
        else await settle(here, queue, good)
        if (how === 'twice') expect((await settle(here, queue, good)).settled).toEqual([task!.task])
        if (how === 'late')
          expect((await settle(here, queue, { task: `${task!.task}x`, result: 1 })).settled).toEqual([])
        wanted.push(how === 'fail' ? `${n}:no` : `${n}:ok`)
      }
      await Promise.all(calls)
      expect(ended.sort()).toEqual(wanted.sort())
      await expect.poll(async () => (await here.ask('/v1/remote')).value.queues).toEqual([])
    }),
    { numRuns: 15, seed: 5 },
  )
})
