// A transaction of the application on one shard of a set: its starts, signals and messages reach the timelines of all shards,
// once, if it commits.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import { aggregate, commandTo } from '../../src/layers/events/index.ts'
import { signal, workflow } from '../../src/layers/workflow/index.ts'
import { within } from '../../src/within.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { newSchemaName } from '../support/schema.ts'
import { storeUrls } from '../support/store-urls.ts'
import { type Application, application } from './database.ts'

const paid = signal<number>('paid')
const shipped = signal('shipped')
/** Ends only after `shipped`: a repeated signal to an ended run would be refused. */
const order = workflow('order', async (ctx, cents: number) => {
  const amount = await ctx.signal(paid)
  await ctx.signal(shipped)
  return [cents, amount]
})
const account = aggregate('account', {
  initial: () => 0,
  evolve: { deposited: (s: number, e: { amount: number }) => s + e.amount },
  decide: { deposit: (_, c: { amount: number }) => ({ type: 'deposited' as const, amount: c.amount }) },
})
const names = Array.from({ length: 6 }, (_, n) => `o${n}`)

interface Shards {
  readonly urls: readonly string[]
  remove(): Promise<unknown>
}

const kinds: Readonly<Record<string, () => Promise<Shards>>> = {
  async sqlite() {
    const folder = mkdtempSync(join(tmpdir(), 'reprise-shards-'))
    const urls = ['a', 'b'].map((name) => `sqlite:${join(folder, name)}.db`)
    return { urls, remove: async () => rmSync(folder, { recursive: true, force: true }) }
  },
  async 'postgres, two databases'() {
    const admin = new pg.Client(inject('postgresUrl'))
    await admin.connect()
    const databases = [newSchemaName(), newSchemaName()]
    for (const database of databases) await admin.query(`CREATE DATABASE ${database}`)
    const urls = databases.map((pathname) => Object.assign(new URL(inject('postgresUrl')), { pathname }).href)
    const remove = async () => {
      for (const database of databases) await admin.query(`DROP DATABASE ${database} WITH (FORCE)`)
      await admin.end()
    }
    return { urls, remove }
  },
  // The statement differs by schema, so the database of the transaction is read first.
  async 'postgres, two schemas'() {
    const both = [storeUrls.postgres!(), storeUrls.postgres!()]
    return { urls: both.map(({ url }) => url), remove: () => Promise.all(both.map((each) => each.remove())) }
  },
}

describe.each(Object.keys(kinds))('a transaction on a shard (%s)', (kind) => {
  let shards: Shards
  let rp: Reprise
  let app: Application
  beforeEach(async () => {
    shards = await kinds[kind]!()
    rp = await open({ shards: [...shards.urls] })
    app = await application(shards.urls[0]!)
  })
  afterEach(async () => {
    await app.close()
    await rp.close()
    await shards.remove()
  })
  const requests = () => hostOf(rp).kernel.store.requests!.list({ limit: 100 })
  const placeOf = (timeline: string) => hostOf(rp).kernel.store.shards!.placeOf(timeline as never)

  it('E3: starts, signals, messages and commands reach both shards once, and nothing of a rollback does', async () => {
    const { tx } = app
    const write = async (amount: number, end: string) => {
      await app.run('BEGIN')
      const inside = within(rp, tx)
      for (const name of names) {
        await inside.run(order, amount, { id: `${name}-${amount}`, here: false })
        await inside.signal(order, `${name}-${amount}`, paid, amount, { key: name })
        await inside.signal(order, `${name}-${amount}`, paid, amount + 1, { key: name })
        await inside.send(`inbox/${name}`, 'ordered', amount)
        await inside.send(commandTo(account, name, 'deposit', { amount }))
      }
      await app.run(end)
    }
    await write(7, 'ROLLBACK')
    await write(5, 'COMMIT')
    expect(await requests()).toHaveLength(5 * names.length)
    const places = new Set(names.map((name) => placeOf(`workflow/order/${name}-5`)))
    expect([...places].sort()).toEqual([0, 1])
    rp.work([order, account])
    await until(async () => (await requests()).length === 0)
    const host = hostOf(rp)
    for (const name of names) {
      await expect.poll(async () => (await account.read(rp, name).catch(() => null))?.state).toBe(5)
      const { messages } = await host.inbox(`inbox/${name}` as never, 10)
      expect(messages.map((message) => host.openMessage(message))).toEqual([5])
    }
    const runs = (await host.list({ prefix: order.prefix })).map(({ timeline }) => timeline.slice(order.prefix.length))
    expect(runs.sort()).toEqual(names.map((name) => `${name}-5`))
    for (const name of names) {
      const run = await rp.run(order, 5, { id: `${name}-5` })
      await run.signal(shipped)
      expect(await run.result()).toEqual([5, 5])
    }
  })

  it('E3: a start for another shard is awaited after the commit, and a second start of its id returns its run', async () => {
    const other = names.find((name) => placeOf(`workflow/order/${name}`) === 1 - placeOf(`workflow/order/${names[0]}`))!
    for (const id of [names[0]!, other]) {
      for (let n = 0; n < 2; n++) {
        await app.run('BEGIN')
        const enlisted = await within(rp, app.tx).run(order, 3, { id })
        if (n === 0) await expect(enlisted.started()).rejects.toMatchObject({ code: 'NOT_COMMITTED' })
        await app.run('COMMIT')
        const run = await enlisted.started()
        if (n === 0) await run.signal(paid, 9)
        if (n === 0) await run.signal(shipped)
        expect(await run.result()).toEqual([3, 9])
      }
    }
    expect(await requests()).toEqual([])
  })
})
