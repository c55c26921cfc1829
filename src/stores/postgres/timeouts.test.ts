// Time limits that reach the server: statements that this process abandoned do not run later, and do not pile up.

import { type AddressInfo, connect, createServer } from 'node:net'
import pg from 'pg'
import { afterAll, afterEach, expect, inject, it } from 'vitest'
import { pause } from '../../../test/support/fixture.ts'
import { dropSchema, newSchemaName, query } from '../../../test/support/schema.ts'
import { isReprise } from '../../core/errors.ts'
import type { Store } from '../../core/store/ports.ts'
import type { SqlQuery } from '../../core/store/sql.ts'
import { asTimeline, asWorker, hash, Kit } from '../../testing/conformance/kit.ts'
import { openPostgres } from './index.ts'

const shared = inject('postgresUrl')
const schema = newSchemaName()
const opened: Store[] = []

async function openKit(namespace: string, statementTimeoutMs: number, poolSize = 4): Promise<Kit> {
  const open = async () => {
    const store = await openPostgres(shared, { namespace, schema, hash, poolSize, statementTimeoutMs })
    opened.push(store)
    return store
  }
  return new Kit(await open(), open, { sql: true })
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()))
})
afterAll(() => dropSchema(shared, schema))

/** Our statements that the server is still executing. */
async function running(): Promise<number> {
  const text = `SELECT count(*)::int AS n FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%${schema}%' AND pid <> pg_backend_pid()`
  return (await query(shared, text))[0]!.n as number
}

it('an append and a takeover that were given up while the row was locked do not happen later', async () => {
  const kit = await openKit('locked', 400)
  const writer = await kit.create('a')
  await writer.append('one')
  const before = await kit.head('a')
  const blocker = new pg.Client(shared)
  await blocker.connect()
  await blocker.query('BEGIN')
  await blocker.query(`SELECT 1 FROM "${schema}".timeline WHERE id = 'a' FOR UPDATE`)
  const attempts = [
    writer.commit({ run: writer.run('late') }),
    writer.twin().take({ worker: asWorker('late'), from: 'anyone' }),
    writer.twin().commit({ run: writer.run('late'), status: 'late' }),
  ]
  for (const attempt of await Promise.allSettled(attempts)) {
    expect(attempt.status).toBe('rejected')
    if (attempt.status === 'rejected') expect(isReprise(attempt.reason, 'TIMEOUT', 'STORE_UNREACHABLE')).toBe(true)
  }
  // The server aborts as well, while the lock is still held.
  for (let i = 0; i < 100 && (await running()) > 0; i++) await new Promise((resolve) => setTimeout(resolve, 50))
  expect(await running()).toBe(0)
  await blocker.query('ROLLBACK')
  await blocker.end()
  expect(await kit.head('a')).toEqual(before)
  await writer.append('two')
})

it('a process that computes for longer than the limits takes no answer for a lost one, in a connection or in a statement', async () => {
  const compute = (ms: number) => {
    const until = performance.now() + ms
    while (performance.now() < until);
  }
  const options = { namespace: 'busy', schema, hash, poolSize: 4, statementTimeoutMs: 300, connectTimeoutMs: 300 }
  const store = await openPostgres(shared, options)
  opened.push(store)
  const kit = new Kit(store, async () => store, { sql: true })
  const writer = await kit.create('a')
  // Yields to the event loop now and then, as a pipeline does.
  let isOver = false
  const computing = (async () => {
    for (let i = 0; i < 30 && !isOver; i++) {
      compute(600)
      await new Promise((resolve) => setImmediate(resolve))
    }
  })()
  try {
    // One connection exists; the others are opened now.
    const three = Array.from({ length: 3 }, (_, i) => store.head([asTimeline(`${i}`)]))
    expect(await Promise.all(three)).toEqual([[null], [null], [null]])
    const sql = await writer.commit({ userSql: (each) => each.get('SELECT 1 AS n') })
    expect(sql).toMatchObject({ ok: true, sqlResult: { n: 1 } })
    await writer.append('one')
  } finally {
    isOver = true
    await computing
  }
}, 120_000)

it('reads go on beside commits whose SQL takes long, as many as there are', async () => {
  const kit = await openKit('beside', 300, 5)
  const writers = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((id) => kit.create(id)))
  let isFree = false
  const slow = writers.map((writer) =>
    writer.commit({
      async userSql(sql) {
        while (!isFree) await sql.get('SELECT pg_sleep(0.05)')
      },
    }),
  )
  // Longer than the wait for a connection.
  for (let i = 0; i < 6; i++) {
    await pause(1000)
    expect(await kit.head('a')).toMatchObject({ timeline: 'a' })
  }
  isFree = true
  for (const outcome of await Promise.all(slow)) expect(outcome).toMatchObject({ ok: true })
}, 60_000)

it('user SQL has the time limit of the store, and resets it', async () => {
  const kit = await openKit('long', 300)
  const writer = await kit.create('a')
  const slow = await writer.commit({ userSql: (sql) => sql.get('SELECT 1 AS n') })
  expect(slow).toMatchObject({ ok: true, sqlResult: { n: 1 } })
  const settings = await writer.commit({ userSql: (sql) => sql.get('SHOW statement_timeout') })
  expect(settings).toMatchObject({ ok: true, sqlResult: { statement_timeout: '300ms' } })
  await writer.commit({ userSql: (sql) => sql.run("SET LOCAL statement_timeout = '5s'") })
  const after = await writer.commit({ userSql: (sql) => sql.get('SHOW statement_timeout') })
  expect(after).toMatchObject({ ok: true, sqlResult: { statement_timeout: '300ms' } })
})

it('a pooler that takes no settings at connect is gone through without', async () => {
  const { hostname, port } = new URL(shared)
  let refusals = 0
  const pooler = createServer((client) => {
    client.once('data', (first) => {
      client.on('error', () => undefined)
      if (first.includes('statement_timeout')) {
        refusals += 1
        client.end(errorMessage('08P01', 'unsupported startup parameter: statement_timeout'))
        return
      }
      const upstream = connect(Number(port), hostname)
      upstream.on('error', () => client.destroy())
      upstream.write(first)
      client.pipe(upstream).pipe(client)
    })
  })
  await new Promise<void>((resolve) => pooler.listen(0, '127.0.0.1', resolve))
  const url = new URL(shared)
  url.host = `127.0.0.1:${(pooler.address() as AddressInfo).port}`
  const store = await openPostgres(url.href, { namespace: 'pooled', schema, hash, poolSize: 2 })
  try {
    const kit = new Kit(store, async () => store, {})
    await (await kit.create('a')).append('one')
    expect((await kit.head('a')).seq).toBe(1)
    expect(refusals).toBeGreaterThan(0)
  } finally {
    await store.close()
    pooler.close()
  }
})

/** An ErrorResponse of the protocol. */
function errorMessage(code: string, text: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${text}\0\0`)
  const head = Buffer.alloc(5)
  head.write('E')
  head.writeInt32BE(fields.length + 4, 1)
  return Buffer.concat([head, fields])
}

it('many callers wait for a free connection, however long the line is, and do not get a connection error', async () => {
  // Each takes 30 ms, two at a time: the last one waits many times longer than a server may take to answer.
  const store = await openPostgres(shared, { namespace: 'crowd', schema, hash, poolSize: 2, connectTimeoutMs: 100 })
  opened.push(store)
  const slow: SqlQuery = { parts: ['SELECT pg_sleep(0.03), 1 AS n'], values: [], rowsMax: 10, timeoutMs: 5000 }
  const answers = await Promise.all(Array.from({ length: 40 }, () => store.query!(slow)))
  expect(answers.map(([row]) => row!.n)).toEqual(answers.map(() => 1))
})

it('where no connection becomes free within the statement timeout, waiting callers get STORE_BUSY', async () => {
  const limits = { poolSize: 1, connectTimeoutMs: 100, statementTimeoutMs: 300 }
  const store = await openPostgres(shared, { namespace: 'stalled', schema, hash, ...limits })
  opened.push(store)
  const slow: SqlQuery = { parts: ['SELECT pg_sleep(1.5)'], values: [], rowsMax: 10, timeoutMs: 5000 }
  const held = store.query!(slow)
  await expect(store.head([asTimeline('x')])).rejects.toMatchObject({ code: 'STORE_BUSY' })
  // A user query may take longer than a statement of ours: it has a limit of its own.
  expect(await held).toHaveLength(1)
  expect(await store.head([asTimeline('x')])).toEqual([null])
})
