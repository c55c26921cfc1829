// The functions of PostgreSQL in an application's hands: rights of their own, every isolation level, and no waiting for other
// transactions.

import pg from 'pg'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { hostOf } from '../support/host.ts'
import { type StoreUrl, storeUrls } from '../support/store-urls.ts'

const note = workflow('note', async (_ctx, text: string) => text)

describe('the functions for applications (postgres)', () => {
  let store: StoreUrl
  let rp: Reprise
  let schema: string
  let clients: pg.Client[] = []
  beforeEach(async () => {
    store = storeUrls.postgres!()
    schema = new URL(store.url).searchParams.get('schema')!
    rp = await open(store.url)
  })
  afterEach(async () => {
    for (const client of clients) await client.end()
    clients = []
    await rp.close()
    await store.remove()
  })
  const connect = async () => {
    const client = new pg.Client(inject('postgresUrl'))
    await client.connect()
    clients.push(client)
    return client
  }
  const runs = async () =>
    (await hostOf(rp).list({ prefix: note.prefix })).map(({ timeline }) => timeline.slice(note.prefix.length)).sort()
  const result = (id: string) => workflows(rp).of(note).get(id).result()
  const start = (id: string, text: string) =>
    `SELECT "${schema}".start('note', '${JSON.stringify(text)}', id => '${id}')`

  it('E3: a role with EXECUTE on one function can start, and can do nothing else', async () => {
    const app = await connect()
    const role = `${schema}_app`
    await app.query(`CREATE ROLE "${role}"`)
    try {
      await app.query(`GRANT USAGE ON SCHEMA "${schema}" TO "${role}"`)
      await app.query(`SET ROLE "${role}"`)
      await expect(app.query(start('r', 'refused'))).rejects.toMatchObject({ code: '42501' })
      await app.query('RESET ROLE')
      await app.query(`GRANT EXECUTE ON FUNCTION "${schema}".start TO "${role}"`)
      await app.query(`SET ROLE "${role}"`)
      await app.query(start('r', 'allowed'))
      const refused = [
        `SELECT "${schema}".signal('note', 'r', 'go')`,
        `SELECT "${schema}".cancel('note', 'r')`,
        `SELECT "${schema}".send('inbox/a', 'hello')`,
        `SELECT "${schema}".enlist('default', 'send', 'mail', 'a', 'b', NULL, NULL, NULL, NULL, NULL)`,
        `SELECT * FROM "${schema}".request`,
        `DELETE FROM "${schema}".request`,
        `SELECT * FROM "${schema}".timeline`,
        `CREATE TABLE "${schema}".mine (id text)`,
      ]
      for (const text of refused) await expect(app.query(text), text).rejects.toMatchObject({ code: '42501' })
      rp.work([note])
      await expect.poll(runs).toEqual(['r'])
    } finally {
      await app.query('RESET ROLE')
      await app.query(`DROP OWNED BY "${role}"`)
      await app.query(`DROP ROLE "${role}"`)
    }
  })

  it.each(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'])(
    'E3: transactions at %s do not wait for each other, and both commit',
    async (level) => {
      rp.work([note])
      const [one, two] = [await connect(), await connect()]
      for (const client of [one, two]) {
        await client.query(`SET lock_timeout = '2s'; BEGIN ISOLATION LEVEL ${level}`)
      }
      await one.query(start('one', 'one'))
      await one.query(start('shared', 'same'))
      await two.query(start('two', 'two'))
      await two.query(start('shared', 'same'))
      const [{ pid }] = (await two.query('SELECT pg_backend_pid() AS pid')).rows as [{ pid: number }]
      await two.query('COMMIT')
      // No lock outlives the transaction: SIReadLock marks reads of serializable transactions, and blocks nothing.
      const locks = `SELECT locktype FROM pg_locks WHERE pid = $1 AND mode <> 'SIReadLock'`
      expect((await one.query(locks, [pid])).rows).toEqual([])
      // The first transaction is still open, and holds nothing that workers or others would wait for.
      await expect.poll(runs).toEqual(['shared', 'two'])
      await one.query('COMMIT')
      await expect.poll(runs).toEqual(['one', 'shared', 'two'])
      await expect.poll(() => hostOf(rp).kernel.store.requests!.list({ limit: 10 })).toEqual([])
      expect(await result('shared')).toBe('same')
    },
  )
})
