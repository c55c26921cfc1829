// kill -9 of applications and workers while orders commit with their starts and messages: afterwards each order has one run,
// one message and one handled item of a job, and no run, message or item lacks its order.

import type { ChildProcess } from 'node:child_process'
import pg from 'pg'
import { afterEach, describe, expect, inject, it } from 'vitest'
import { shardsUrl } from '../../src/engine/storage/open-store.ts'
import { open } from '../../src/index.ts'
import { pause, until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { programPath } from '../support/programs.ts'
import { storeUrls } from '../support/store-urls.ts'
import { startWorker } from '../support/worker-process.ts'
import { openSqliteFile } from './database.ts'

/** Each kills an application and a worker. REPRISE_WITHIN_KILLS=200 for more. */
const rounds = Math.ceil(Number(process.env.REPRISE_WITHIN_KILLS ?? 4) / 2)
let children: ChildProcess[] = []
afterEach(() => {
  for (const child of children) child.kill('SIGKILL')
  children = []
})

/** In a set of shards, applications write on the first one. Items are handled on the shard of their consumer's timeline. */
function storesOf(kind: string) {
  const stores = (kind.endsWith('shards') ? ['first', 'second'] : ['only']).map(() => storeUrls[kind.split(' ')[0]!]!())
  const urls = stores.map(({ url }) => url)
  const remove = async () => {
    for (const store of stores) await store.remove()
  }
  return { application: urls[0]!, urls, url: urls.length > 1 ? shardsUrl(urls) : urls[0]!, remove }
}

const kinds = Object.keys(storeUrls).flatMap((kind) => [kind, `${kind} shards`])

/** PostgreSQL: a table in the server that all tests share. */
function tableOf(url: string, what: 'orders' | 'items'): string {
  return url.startsWith('sqlite:') ? `${what}_of_kill` : `"${new URL(url).searchParams.get('schema')}_${what}"`
}

async function orders(url: string): Promise<(text: string) => Promise<string[]>> {
  if (url.startsWith('sqlite:')) {
    const db = openSqliteFile(url.slice('sqlite:'.length))
    return async (text) =>
      db
        .prepare(text)
        .all()
        .map((row) => String((row as { id?: unknown }).id))
  }
  return async (text) => {
    const client = new pg.Client(inject('postgresUrl'))
    await client.connect()
    const { rows } = await client.query(text.replace('orders_of_kill', tableOf(url, 'orders')))
    await client.end()
    return rows.map(({ id }) => String(id))
  }
}

describe.each(kinds)('applications and workers that are killed (%s)', (kind) => {
  it('E3, G5: each committed order has one run, one message and one handled item', {
    timeout: 180_000 + rounds * 60_000,
  }, async () => {
    const { url, urls, application, remove } = storesOf(kind)
    await (await open(url)).close()
    const query = await orders(application)
    await query('CREATE TABLE orders_of_kill (id TEXT PRIMARY KEY)')
    const items = tableOf(application, 'items')
    const isOneDatabase = urls.length === 1 || kind.startsWith('postgres')
    const everywhere = isOneDatabase ? [query] : [query, await orders(urls[1]!)]
    for (const each of everywhere) await each(`CREATE TABLE ${items} (id TEXT)`)
    for (let round = 0; round < rounds; round++) {
      const both = await Promise.all([
        startWorker(programPath('within-worker'), [url, items], children),
        startWorker(programPath('within-application'), [application, `a${round}`], children),
      ])
      await pause(60 + 35 * (round % 6))
      for (const child of round % 2 ? both : both.reverse()) child.kill('SIGKILL')
    }
    const rp = await open(url)
    await startWorker(programPath('within-worker'), [url, items], children)
    await until(async () => (await hostOf(rp).kernel.store.requests!.list({ limit: 1 })).length === 0)
    const committed = (await query('SELECT id FROM orders_of_kill')).sort()
    const handled = async () => (await Promise.all(everywhere.map((each) => each(`SELECT id FROM ${items}`)))).flat()
    await until(async () => (await handled()).length >= committed.length)
    expect((await handled()).sort()).toEqual(committed)
    const runs = (await hostOf(rp).list({ prefix: 'workflow/order/' })).map(({ timeline }) => timeline.split('/')[2])
    const { messages } = await hostOf(rp).inbox('inbox/orders' as never, 1_000_000)
    expect(committed.length).toBeGreaterThan(0)
    expect(runs.sort()).toEqual(committed)
    expect(messages.map((message) => hostOf(rp).openMessage(message)).sort()).toEqual(committed)
    await rp.close()
    for (const child of children) child.kill('SIGKILL')
    await query('DROP TABLE orders_of_kill')
    for (const each of everywhere) await each(`DROP TABLE ${items}`)
    await remove()
  })
})
