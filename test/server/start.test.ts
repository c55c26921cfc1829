// Runs that are started from outside: definitions of the server and of live workers, the schema of their input, and an id under
// which a run starts once.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { open, type Reprise } from '../../src/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { queue, workflow, workflows } from '../../src/layers/workflow/index.ts'
import { until } from '../support/fixture.ts'
import { startServer, type TestServer } from './support.ts'

const order = z.object({ cents: z.number().int().min(1), gift: z.boolean().default(false) })
/** The server has it, and no process works on it. */
const checkout = workflow('checkout', async (_ctx, input) => input, { input: order })
const plain = workflow('plain', async (_ctx, input: { n: number }) => input.n)
const papers = job('papers', { source: ['a'], key: (item: string) => item, each: async () => undefined })
const annFlow = workflow('ann-flow', async () => 1)

/** Only a worker in another process has these. */
const one = queue('one', { concurrency: 1 })
const parcel = workflow('parcel', async (_ctx, input) => input, { input: z.object({ to: z.string() }), queue: one })

describe('starting a run from outside', () => {
  let folder: string
  let served: TestServer
  let worker: Reprise

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'reprise-start-'))
    const url = `sqlite:${join(folder, 'store.db')}`
    const rp = await open(url, { housekeeping: false })
    served = await startServer({ rp, definitions: [checkout, plain, papers, annFlow] })
    worker = await open(url, { housekeeping: false })
    worker.work([parcel])
    await until(async () => (await served.rp.workers()).length > 0)
  })

  afterAll(async () => {
    await worker?.close()
    await served?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  it('lists definitions of the server and of live workers, with schemas, workers and examples', async () => {
    await served.ask('/v1/runs', { body: { name: 'plain', id: 'p-1', input: { n: 7 } } })
    const { status, value } = await served.ask('/v1/definitions', { as: 'reader' })
    expect(status).toBe(200)
    expect(value.definitions).toMatchObject([
      { kind: 'workflow', name: 'ann-flow', isHere: true, workers: 0, schema: null },
      { kind: 'workflow', name: 'checkout', isHere: true, workers: 0, schema: { required: ['cents'] } },
      { kind: 'job', name: 'papers', isHere: true, workers: null, schema: null },
      { kind: 'workflow', name: 'parcel', isHere: false, workers: 1, schema: { required: ['to'] } },
      { kind: 'workflow', name: 'plain', isHere: true, workers: 0, schema: null, example: { n: 7 } },
    ])
    const ann = await served.ask('/v1/definitions', { as: 'ann' })
    expect(ann.value.definitions.map(({ name }: { name: string }) => name)).toEqual(['ann-flow'])
  })

  it('refuses an input that the schema refuses, with the path of each fault, and starts nothing', async () => {
    const { status, value } = await served.ask('/v1/runs', {
      body: { name: 'checkout', id: 'bad', input: { cents: 0 } },
    })
    expect([status, value.code]).toEqual([400, 'INVALID_ARGUMENT'])
    expect(value.data.issues).toMatchObject([{ path: 'cents' }])
    expect(await served.rp.head('workflow/checkout/bad')).toBeNull()
    const away = await served.ask('/v1/runs', { body: { name: 'parcel', id: 'bad', input: {} } })
    expect([away.status, away.value.data.issues]).toEqual([400, [{ path: 'to', message: 'is missing' }]])
    expect(await served.rp.head('workflow/parcel/bad')).toBeNull()
  })

  it('gives a run its input as the schema returns it, and starts one run under an id', async () => {
    const body = { name: 'checkout', id: 'order-1', input: { cents: 5 } }
    for (let n = 0; n < 2; n += 1) expect((await served.ask('/v1/runs', { body })).status).toBe(201)
    const state = await workflows(served.rp).of(checkout).get('order-1').state()
    expect(state.started?.input).toEqual({ cents: 5, gift: false })
    const other = await served.ask('/v1/runs', { body: { ...body, input: { cents: 6 } } })
    expect([other.status, other.value.code]).toEqual([409, 'EXISTS'])
    // Without an input, the run is taken as it is.
    expect((await served.ask('/v1/runs', { body: { name: 'checkout', id: 'order-1' } })).status).toBe(201)
  })

  it('starts a workflow that only a live worker has, in the queue that its definition names', async () => {
    const body = { name: 'parcel', id: 'p-1', input: { to: 'Bern' } }
    expect((await served.ask('/v1/runs', { body, as: 'operator' })).status).toBe(403)
    expect((await served.ask('/v1/runs', { body })).value).toMatchObject({ timeline: 'workflow/parcel/p-1' })
    const { value } = await served.ask('/v1/timelines/workflow%2Fparcel%2Fp-1/result?waitMs=20000')
    expect(value).toMatchObject({ isEnded: true, result: { to: 'Bern' } })
    expect((await workflows(served.rp).of(parcel).get('p-1').state()).started?.queue).toMatchObject({ name: 'one' })
  })

  it('no longer offers a workflow whose last worker is gone', async () => {
    await worker.close()
    const { value } = await served.ask('/v1/definitions')
    expect(value.definitions.map(({ name }: { name: string }) => name)).not.toContain('parcel')
    const refused = await served.ask('/v1/runs', { body: { name: 'parcel', input: { to: 'Bern' } } })
    expect([refused.status, refused.value.code]).toEqual([404, 'NOT_FOUND'])
  })

  it('records a child with an invalid input as a failure that its parent can catch', async () => {
    const parent = workflow('parent', async (ctx, cents: number) => {
      try {
        return await ctx.child(checkout, { cents, gift: false })
      } catch (error) {
        return (error as Error).message
      }
    })
    const run = await served.rp.run(parent, 0, { id: 'with-child' })
    expect(await run.result()).toMatch(/^the input of checkout: cents: /)
  })
})
