// Searching timelines: the same as looking at every one of them, page by page, while they change.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import { identifyPid, identifyProcess, sha256 } from '../../src/engine/base/platform.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { ledgerOnly } from '../../src/engine/model/definition.ts'
import { open } from '../../src/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { collectSink, pipeline, type Source } from '../../src/layers/pipeline/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { until } from '../support/until.ts'
import { at, startServer, type TestServer } from './support.ts'

let here: TestServer
const made: { id: string; colour: string }[] = []

beforeAll(async () => {
  here = await startServer()
  for (let n = 0; n < 60; n += 1) {
    const colour = ['red', 'green', 'blue'][n % 3]!
    const id = `note/${colour}-${String(n).padStart(3, '0')}`
    await append(id)
    made.push({ id, colour })
  }
  await append('bob/secret-red')
})
afterAll(async () => here.close())

async function append(id: string): Promise<void> {
  const path = `/v1/timelines/${encodeURIComponent(id)}/entries`
  expect((await here.ask(path, { body: { entries: [{ type: 'noted' }] } })).status).toBe(200)
}

/** All pages of it. */
async function all(query: string, limit: number, as = 'owner'): Promise<string[]> {
  const ids: string[] = []
  let last = Number.POSITIVE_INFINITY
  for (let after = ''; ; ) {
    const { value } = await here.ask(
      `/v1/search?${query}&limit=${limit}${after && `&after=${encodeURIComponent(after)}`}`,
      { as },
    )
    for (const { timeline, updatedAt } of value.timelines as { timeline: string; updatedAt: number }[]) {
      expect(updatedAt).toBeLessThanOrEqual(last)
      last = updatedAt
      ids.push(timeline)
    }
    if (value.next === null) return ids
    after = value.next
  }
}

it('gives each match once, the most recently changed first, whatever the size of a page', async () => {
  const newestFirst = [...made].reverse()
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('red', 'green', 'note', 'note%2Fblue', 'red+note'),
      fc.integer({ min: 1, max: 80 }),
      async (text, limit) => {
        const words = decodeURIComponent(text).split('+')
        const wanted = newestFirst.filter(({ id }) => words.every((word) => id.includes(word))).map(({ id }) => id)
        const found = (await all(`text=${text}`, limit)).filter((id) => id !== 'bob/secret-red')
        // Those of one millisecond are in the order of their ids.
        expect([...found].sort()).toEqual([...wanted].sort())
      },
    ),
    { numRuns: 12 },
  )
})

it('sees changes since the last query, and new timelines', async () => {
  await append(made[5]!.id)
  await append('note/late')
  const { value } = await here.ask('/v1/search?text=note&limit=2')
  expect(value.timelines.map(({ timeline }: { timeline: string }) => timeline).sort()).toEqual(
    [made[5]!.id, 'note/late'].sort(),
  )
  expect(value.timelines.find(({ timeline }: { timeline: string }) => timeline === made[5]!.id).seq).toBe(2)
})

it('sees a pipeline that runs and has no checkpoint yet, and one that runs again', async () => {
  const quiet: Source<number> = {
    open: async (_, { signal }) => ({
      partitions: () => [''],
      close: async () => undefined,
      read: () => new Promise((resolve) => signal.addEventListener('abort', () => resolve(null), { once: true })),
    }),
  }
  const flow = pipeline('quiet', (p) => void p.from('nothing', quiet).to('out', collectSink()))
  const found = async () => {
    const { value } = await here.ask('/v1/search?kind=pipeline&status=running')
    return value.timelines.map(({ timeline, seq }: { timeline: string; seq: number }) => [timeline, seq])
  }
  expect(await found()).toEqual([])
  const run = await here.rp.run(flow).started()
  await expect.poll(found).toEqual([['pipeline/quiet', 0]])
  await run.stop()
  await expect.poll(found).toEqual([])
  const again = await here.rp.run(flow).started()
  await expect.poll(found).toEqual([['pipeline/quiet', 1]])
  await again.cancel()
})

it('counts and shows a tenant only its own scope', async () => {
  const { value } = await here.ask('/v1/search?text=red', { as: 'bob' })
  expect(value).toMatchObject({ total: 1, timelines: [{ timeline: 'bob/secret-red' }] })
  expect(Object.values(value.kinds as Record<string, number>).reduce((sum, n) => sum + n, 0)).toBe(1)
  expect((await here.ask('/v1/search', { as: 'ann' })).value).toMatchObject({ total: 0, kinds: {}, statuses: {} })
})

it('refuses a place that it did not give', async () => {
  for (const after of ['x', '1', ':note', '99999999999999999:a']) {
    expect((await here.ask(`/v1/search?after=${encodeURIComponent(after)}`)).status).toBe(400)
  }
})

it('reports when the store has more than can be searched', async () => {
  const small = await startServer({ rp: here.rp, limits: { indexedTimelines: 10 } })
  const { value } = await small.ask('/v1/search')
  expect(value).toMatchObject({ total: 10, isPartial: true })
  await small.server.close()
})

it('finds an attribute by its whole value, and a word anywhere', async () => {
  const greet = workflow('greet', async () => 'hello')
  for (const customer of ['c1', 'c17', 'c170']) await here.rp.run(greet, { id: customer, attributes: { customer } })
  const ids = async (text: string) => (await all(`text=${encodeURIComponent(text)}`, 50)).sort()
  expect(await ids('customer=c17')).toEqual(['workflow/greet/c17'])
  expect(await ids('Customer=C17 greet')).toEqual(['workflow/greet/c17'])
  expect(await ids('customer=c')).toEqual([])
  expect(await ids('c17')).toEqual(['workflow/greet/c17', 'workflow/greet/c170'])
})

it('finds runs by their errors, and counts failed runs and dead letters among those that need a person, by cause', async () => {
  const own = await startServer()
  const pay = workflow('pay', async (ctx, order: string) => {
    await ctx.step('charge', () => Promise.reject(new Error(`card of ${order} declined with 402`)), {
      retry: { attempts: order === 'order-9' ? 5 : 1, backoff: '1h', backoffMax: '1h' },
    })
  })
  const papers = job('papers', {
    source: ['a', 'gone'],
    key: (item: string) => item,
    retry: { attempts: 1 },
    each: async (item) => {
      if (item === 'gone') throw new Error('404 for that paper')
    },
  })
  for (const id of ['order-7', 'order-8']) {
    const run = await own.rp.run(pay, id, { id })
    await run.result().catch(() => undefined)
  }
  await own.rp.run(pay, 'order-9', { id: 'order-9' })
  await own.rp.run(papers).result()
  await until(async () => (await own.rp.head('workflow/pay/order-9'))?.status === 'waiting')
  const found = async (query: string, as = 'owner') => {
    const { value } = await own.ask(`/v1/search?${query}`, { as })
    return { ...value, ids: value.timelines.map(({ timeline }: { timeline: string }) => timeline).sort() }
  }
  const orders = ['workflow/pay/order-7', 'workflow/pay/order-8', 'workflow/pay/order-9']
  // A run that is retried has an error too; a dead letter has one of its own.
  expect((await found('text=Declined')).ids).toEqual(orders)
  expect((await found('text=declined+order-8')).ids).toEqual([orders[1]])
  expect((await found('text=404')).ids).toEqual(['job/papers'])
  const all = await found('')
  expect([all.attention, all.causes]).toEqual([3, []])
  const { ids, causes } = await found('attention=true')
  expect(ids).toEqual(['job/papers', ...orders.slice(0, 2)])
  expect(causes).toMatchObject([
    { error: expect.stringContaining('card of … declined with 402'), count: 2 },
    { error: 'Error: 404 for that paper', count: 1, timeline: 'job/papers' },
  ])
  for (const { times, count } of causes) expect(times.reduce((sum: number, n: number) => sum + n, 0)).toBe(count)
  expect(await found('text=declined', 'bob')).toMatchObject({ ids: [], attention: 0 })
  await own.close()
})

it('counts queues by the heads of now, though the timelines to read come from the index', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-queues-'))
  const url = `sqlite:${join(folder, 'store.db')}`
  const approve = workflow('approve', async (ctx) => await ctx.signal('yes'))
  const worker = await open(url, { housekeeping: false })
  await worker.run(approve, { id: 'one' })
  await until(async () => (await worker.head('workflow/approve/one'))?.status === 'waiting')
  await worker.close()
  const own = await startServer({ url })
  const queues = async () => (await own.ask('/v1/queues')).value.queues
  expect(await queues()).toMatchObject([{ queue: 'workflow/approve', timelines: 1, due: 0, mail: 0 }])
  // Mail is not an entry: the index does not notice it.
  const signal = { name: 'yes', value: true }
  expect((await own.ask(`${at('workflow/approve/one')}/signal`, { body: signal })).status).toBe(200)
  expect(await queues()).toMatchObject([{ queue: 'workflow/approve', timelines: 1, due: 1, mail: 1 }])
  await own.rp.run(approve, { id: 'two' })
  await until(async () => (await queues())[0]?.timelines === 2)
  await own.close()
  rmSync(folder, { recursive: true, force: true })
})

it('shows a timeline briefly, without its state and without the verbs that depend on it', async () => {
  const own = await startServer()
  const greet = workflow('greet', async (ctx) => await ctx.step('say', () => 'hello'))
  await own.rp.run(greet, { id: 'one' }).result()
  const [whole, brief] = await Promise.all([
    own.ask(at('workflow/greet/one')),
    own.ask(`${at('workflow/greet/one')}?brief=true`),
  ])
  expect(whole.value).toMatchObject({ statusLine: { text: expect.any(String) }, summary: expect.any(Object) })
  expect(whole.value.verbs).toContain('fork')
  expect(brief.value).toEqual({
    ...whole.value,
    statusLine: null,
    summary: null,
    verbs: [],
    refuses: brief.value.refuses,
  })
  await own.close()
})

it('finds, shows and counts the program of a killed process by the status that it has now', async () => {
  const child = spawn(process.execPath, ['-e', ''])
  const killed = { ...identifyProcess(), process: identifyPid(child.pid!) }
  await once(child, 'exit')
  const world = createWorld()
  const engineAs = (identity = identifyProcess()) =>
    createEngine(
      { store: openMemory({ namespace: 'default', hash: sha256, world }), identity },
      { worker: 'program', lease: '1h' },
    )
  const gone = engineAs(killed)
  const open = await hostOf(gone).openTimeline(timelineId('exec/build'), ledgerOnly)
  await open.write([{ type: 'started', data: {} }], { status: 'running' })
  // Its lease has not expired, and it never ends.
  const other = await startServer({ rp: engineAs() })
  const found = async (status: string) => {
    const { value } = await other.ask(`/v1/search?status=${status}`)
    const shown = value.timelines.map((each: { timeline: string; status: string }) => `${each.timeline} ${each.status}`)
    return { shown, total: value.total, statuses: value.statuses }
  }
  const nothing = { shown: [], total: 0, statuses: { stopped: 1 } }
  for (let n = 0; n < 2; n++) {
    expect(await found('running')).toEqual(nothing)
    expect(await found('stopped')).toEqual({ ...nothing, shown: ['exec/build stopped'], total: 1 })
  }
  await other.close()
  await gone.close()
})
