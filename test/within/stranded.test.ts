// Requests that no process carries out are visible to an operator: doctor reports them, `dead --requests` lists and discards
// them, `redrive --requests` retries them.

import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import type { Check } from '../../src/operations/health.ts'
import { cli, workFolder } from '../cli/support.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { type StoreUrl, storeUrls } from '../support/store-urls.ts'
import { type Application, application } from './database.ts'

const order = workflow('order', async (_ctx, item: string) => `shipped ${item}`)

describe.each(Object.keys(storeUrls))('stranded requests (%s)', (kind) => {
  const folder = workFolder()
  let store: StoreUrl
  let rp: Reprise
  let app: Application
  beforeEach(async () => {
    store = storeUrls[kind]!()
    rp = await open(store.url, { housekeeping: false })
    app = await application(store.url)
  })
  afterEach(async () => {
    await app.close()
    await rp.close()
    await store.remove()
  })
  afterAll(() => folder.remove())
  const reprise = async (...args: string[]): Promise<{ readonly code: number | null; readonly json: unknown }> => {
    const { code, stdout } = await cli([...args, '--json', '--url', store.url], { cwd: folder.path })
    return { code, json: stdout === '' ? null : JSON.parse(stdout) }
  }
  const doctor = async (name: string) => {
    const { code, json } = await reprise('doctor')
    return { code, found: (json as { readonly checks: readonly Check[] }).checks.filter((each) => each.name === name) }
  }
  const requests = async () => await hostOf(rp).kernel.store.requests!.list({ limit: 10 })
  const table = () => (kind === 'sqlite' ? 'reprise_request' : `"${app.schema}".request`)

  it('a refused one has its reason on doctor and dead, is carried out after a redrive, or removed', async () => {
    rp.events.on('problem', () => undefined)
    await rp.work([order])
    // A run with another input has the id.
    for (const id of ['later', 'never']) await (await rp.run(order, 'a map', { id })).result()
    await app.start('order', 'later', 'a book')
    await app.start('order', 'never', 'a book')
    await until(async () => (await requests()).filter(({ problem }) => problem !== null).length === 2)
    const [later, never] = await requests()
    const { code, found } = await doctor('requests')
    expect(code).not.toBe(0)
    expect(found).toMatchObject([{ state: 'bad', what: expect.stringContaining(later!.problem!) }])
    expect(found[0]!.what).toContain('2 requests')
    const { json } = await reprise('dead', '--requests')
    expect(json).toMatchObject([
      { number: later!.number, verb: 'start', target: 'workflow/order', id: 'later', problem: later!.problem },
      { number: never!.number, id: 'never' },
    ])
    const [first, second] = (json as readonly { readonly name: string }[]).map(({ name }) => name) as [string, string]

    // A number alone is not bound to this store and this request.
    expect((await reprise('dead', '--requests', '--discard', String(never!.number))).code).not.toBe(0)
    expect((await reprise('dead', '--requests', '--discard', second)).json).toEqual({
      discarded: [second],
      missing: [],
    })
    await rp.delete('workflow/order/later')
    expect((await reprise('redrive', '--requests', '--all')).json).toEqual({ redriven: [first], missing: [] })
    await until(async () => (await requests()).length === 0)
    expect(await (await rp.run(order, 'a book', { id: 'later' })).result()).toBe('shipped a book')
    expect(await doctor('requests')).toEqual({ code: 0, found: [] })
    expect((await reprise('redrive', '--requests', second)).code).not.toBe(0)
  }, 120_000)

  it('one that waits for an unknown definition is due work that no worker takes, and can be discarded', async () => {
    await rp.work([order])
    await app.start('nobody', 'one', {})
    expect((await doctor('due work')).found).toEqual([])
    await app.run(`UPDATE ${table()} SET sent_at = sent_at - 120000`)
    const [waiting] = await requests()
    const { found } = await doctor('due work')
    expect(found).toMatchObject([{ state: 'warning', what: expect.stringContaining('workflow/nobody') }])
    const { json } = await reprise('dead', '--requests')
    expect(json).toMatchObject([{ number: waiting!.number, problem: null }])
    await reprise('dead', '--requests', '--discard', (json as [{ readonly name: string }])[0].name)
    expect(await requests()).toEqual([])
  }, 120_000)

  it('wrong use is a usage error', async () => {
    expect((await reprise('redrive', '--requests')).code).toBe(2)
    expect((await reprise('redrive', '--all')).code).toBe(2)
    expect((await reprise('dead', 'order', '--requests')).code).toBe(2)
  }, 120_000)
})
