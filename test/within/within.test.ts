// within(rp, tx): starts, signals, messages and cancellations through the client that holds the application's transaction.

import pg from 'pg'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { itemQueue } from '../../src/layers/job/index.ts'
import { signal, workflow, workflows } from '../../src/layers/workflow/index.ts'
import { type TransactionClient, within } from '../../src/within.ts'
import { temporaryFolder, until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { newSchemaName } from '../support/schema.ts'
import { type StoreUrl, storeUrls } from '../support/store-urls.ts'
import { application, openSqliteFile } from './database.ts'

const paid = signal<{ by: string }>('paid')
const checkout = workflow('checkout', async (ctx, order: { cents: number }) => {
  return { cents: order.cents, paid: await ctx.signal(paid) }
})
const note = workflow('note', async (_ctx, text: string) => text)

interface Connection {
  /** The object that the application passes as its transaction. */
  readonly tx: object
  run(text: string): Promise<unknown>
  close(): Promise<void>
}

async function connect(url: string): Promise<Connection> {
  if (url.startsWith('sqlite:')) {
    const db = openSqliteFile(url.slice('sqlite:'.length))
    return { tx: db, run: async (text) => db.exec(text), close: async () => db.close() }
  }
  const plain = new URL(url)
  plain.searchParams.delete('schema')
  const client = new pg.Client(plain.href)
  await client.connect()
  return { tx: client, run: (text) => client.query(text), close: () => client.end() }
}

describe.each(Object.keys(storeUrls))('within a transaction of the application (%s)', (kind) => {
  let store: StoreUrl
  let rp: Reprise
  let app: Connection
  beforeEach(async () => {
    store = storeUrls[kind]!()
    rp = await open(store.url)
    app = await connect(store.url)
  })
  afterEach(async () => {
    await app.close()
    await rp.close()
    await store.remove()
  })
  const runs = async (of: { readonly prefix: string }) =>
    (await hostOf(rp).list({ prefix: of.prefix })).map(({ timeline }) => timeline.slice(of.prefix.length)).sort()
  const requests = () => hostOf(rp).kernel.store.requests!.list({ limit: 100 })

  it('E3: a start and a signal happen with the commit, and the start can be awaited only after it', async () => {
    await app.run('BEGIN')
    const started = await within(rp, app.tx).run(checkout, { cents: 7 }, { id: 'o1' })
    await within(rp, app.tx).signal(checkout, 'o1', paid, { by: 'card' })
    await expect(started.started()).rejects.toMatchObject({ code: 'NOT_COMMITTED' })
    await app.run('COMMIT')
    const run = await started.started()
    expect(await run.result()).toEqual({ cents: 7, paid: { by: 'card' } })
    expect(started).toMatchObject({ id: 'o1', timeline: 'workflow/checkout/o1' })
  })

  it('E3: after a rollback nothing was started, and the start reports it', async () => {
    await app.run('BEGIN')
    const gone = await within(rp, app.tx).run(note, 'x', { id: 'gone' })
    await app.run('ROLLBACK')
    await app.run('BEGIN')
    const kept = await within(rp, app.tx).run(note, 'y', { id: 'kept' })
    await app.run('COMMIT')
    await kept.started()
    await expect(gone.started()).rejects.toMatchObject({ code: 'NOT_COMMITTED' })
    expect(await runs(note)).toEqual(['kept'])
  })

  it('E3: after a rollback the start reports it, also if another run took the id', async () => {
    await app.run('BEGIN')
    const gone = await within(rp, app.tx).run(note, 'x', { id: 'taken' })
    await app.run('ROLLBACK')
    await (await rp.run(note, 'another', { id: 'taken' })).result()
    await expect(gone.started()).rejects.toMatchObject({ code: 'NOT_COMMITTED' })
  })

  it('E3: of two starts with one id, the second receives the run, or learns that it has another input', async () => {
    const start = async (text: string) => {
      await app.run('BEGIN')
      const started = await within(rp, app.tx).run(note, text, { id: 'one' })
      await app.run('COMMIT')
      return started
    }
    expect(await (await (await start('same')).started()).result()).toBe('same')
    expect(await (await (await start('same')).started()).result()).toBe('same')
    const other = await start('other')
    await until(async () => (await requests()).some(({ problem }) => problem !== null))
    await expect(other.started()).rejects.toMatchObject({ code: 'REQUEST_REFUSED' })
  })

  it('E3: a cancellation and messages with keys happen once', async () => {
    rp.work([checkout])
    const run = await rp.run(checkout, { cents: 1 }, { id: 'c' })
    await app.run('BEGIN')
    await within(rp, app.tx).send('inbox/a', 'hello', { n: 1 }, { key: 'k' })
    await within(rp, app.tx).send('inbox/a', 'hello', { n: 2 }, { key: 'k' })
    await within(rp, app.tx).cancel(checkout, 'c', { reason: 'no stock' })
    await app.run('COMMIT')
    await expect(run.result()).rejects.toMatchObject({
      code: 'CANCELLED',
      message: expect.stringContaining('no stock'),
    })
    const { messages } = await hostOf(rp).inbox('inbox/a' as never, 10)
    expect(messages.map((message) => hostOf(rp).openMessage(message))).toEqual([{ n: 1 }])
  })

  it('E3: a payload is sealed with the keys of the process before it reaches the transaction', async () => {
    await rp.close()
    rp = await open(store.url, { namespace: 'sealed', keys: { current: 'a', keys: { a: new Uint8Array(32).fill(7) } } })
    await app.run('BEGIN')
    const started = await within(rp, app.tx).run(note, 'the secret word', { id: 's', here: false })
    await app.run('COMMIT')
    const [row] = await requests()
    expect(Buffer.from(row!.data as Uint8Array).includes('secret')).toBe(false)
    rp.work([note])
    expect(await (await started.started()).result()).toBe('the secret word')
  })

  it('E3: a rekey is not done while a request waits under an older key', async () => {
    const ring = { a: new Uint8Array(32).fill(7), b: new Uint8Array(32).fill(8) }
    const reopen = async (current: 'a' | 'b') => {
      await rp.close()
      rp = await open(store.url, { namespace: 'rekeyed', keys: { current, keys: ring } })
    }
    await reopen('a')
    await app.run('BEGIN')
    await within(rp, app.tx).run(note, 'sealed with a', { id: 's', here: false })
    await app.run('COMMIT')
    await reopen('b')
    expect(await rp.rekey()).toMatchObject({ isDone: false, left: { a: 1 } })
    rp.work([note])
    await until(async () => (await requests()).length === 0)
    expect(await workflows(rp).of(note).get('s').result()).toBe('sealed with a')
    expect(await rp.rekey()).toMatchObject({ isDone: true, left: {} })
  })

  it('E3: a transaction in another database, or in none, is refused', async () => {
    const call = async (tx: unknown) => await within(rp, tx).run(note, 'x', { id: 'x' })
    await expect(call({})).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    const other = { dialect: kind === 'sqlite' ? 'postgres' : 'sqlite', query: async () => [] }
    await expect(call(other)).rejects.toMatchObject({ code: 'OTHER_DATABASE' })
    const elsewhere = { ...other, dialect: kind }
    await expect(call(elsewhere)).rejects.toMatchObject({ code: 'OTHER_DATABASE' })
    if (kind === 'sqlite') {
      await expect(call(app.tx)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
      const second = { prepare: () => undefined, exec: () => undefined, inTransaction: true }
      await expect(call(second)).rejects.toThrow('a second copy of SQLite')
      const db = openSqliteFile(`${temporaryFolder('other')}/other.db`)
      db.exec('BEGIN')
      await expect(call(db)).rejects.toMatchObject({ code: 'OTHER_DATABASE' })
      db.close()
    } else {
      const pool = new pg.Pool({ connectionString: inject('postgresUrl') })
      await expect(call(pool)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
      await pool.end()
    }
  })

  it('E3: a transaction in a copy of the database, which has the same store id, is refused', async () => {
    const call = async (tx: unknown) => await within(rp, tx).run(note, 'x', { id: 'x' })
    await (await rp.run(note, 'x', { id: 'before' })).result()
    if (kind === 'sqlite') {
      const folder = temporaryFolder('copy')
      await app.run(`VACUUM INTO '${folder}/copy.db'`)
      const copy = openSqliteFile(`${folder}/copy.db`)
      const attached = openSqliteFile(`${folder}/own.db`)
      attached.exec(`ATTACH '${store.url.slice('sqlite:'.length)}' AS store`)
      for (const db of [copy, attached]) {
        db.exec('BEGIN')
        await expect(call(db)).rejects.toMatchObject({ code: 'OTHER_DATABASE' })
        db.exec('ROLLBACK')
        db.close()
      }
      return
    }
    const [first, second] = [newSchemaName(), newSchemaName()]
    const urlOf = (database: string) => Object.assign(new URL(inject('postgresUrl')), { pathname: database }).href
    await app.run(`CREATE DATABASE ${first}`)
    await (await open(urlOf(first))).close()
    await app.run(`CREATE DATABASE ${second} TEMPLATE ${first}`)
    const own = await open(urlOf(first))
    const [copy, same] = [await connect(urlOf(second)), await connect(urlOf(first))]
    await copy.run('BEGIN')
    const inCopy = within(own, copy.tx).run(note, 'x', { id: 'x' })
    await expect(inCopy).rejects.toMatchObject({ code: 'OTHER_DATABASE' })
    await copy.run('ROLLBACK')
    await same.run('BEGIN')
    const started = await within(own, same.tx).run(note, 'x', { id: 'x' })
    await same.run('COMMIT')
    expect(await (await started.started()).result()).toBe('x')
    await Promise.all([own.close(), copy.close(), same.close()])
    for (const database of [second, first]) await app.run(`DROP DATABASE ${database} WITH (FORCE)`)
  })

  if (kind === 'postgres') {
    it('E3: a request is written after a restart of the server, whose place is then read again', async () => {
      const places: unknown[] = []
      await app.run('BEGIN')
      const real = app.tx as pg.Client
      const tx = {
        dialect: kind,
        query: async (text: string, values: readonly unknown[]) => {
          // The first statement has the place from before the restart.
          const given = places.push(values.at(-1)) === 1 ? [...values.slice(0, -1), 'before'] : values
          return (await real.query(text, [...given])).rows
        },
      }
      const started = await within(rp, tx).run(note, 'x', { id: 'x' })
      await app.run('COMMIT')
      expect(await (await started.started()).result()).toBe('x')
      expect(places).toHaveLength(2)
    })
  }

  it('E3: a store in memory, and a set of shards with one in memory, are refused with the reason', async () => {
    const one = storeUrls[kind]!()
    const sharded = await open({ shards: [one.url, 'memory:'] })
    const memory = await open('memory:')
    for (const [each, reason] of [
      [sharded, 'the shards are in memory or of different kinds'],
      [memory, 'this store has no database'],
    ] as const) {
      expect(() => within(each, app.tx)).toThrow(expect.objectContaining({ code: 'STORE_UNSUPPORTED' }))
      expect(() => within(each, app.tx)).toThrow(reason)
    }
    await Promise.all([sharded.close(), memory.close()])
    await one.remove()
  })

  it('E3: each call is one statement in the transaction, also the first of a process', async () => {
    const texts: string[] = []
    const real = app.tx as pg.Client & { prepare?(text: string): { all(...values: never[]): never[] } }
    const query: TransactionClient['query'] = async (text, values) => {
      texts.push(text)
      if (real.prepare) return real.prepare(text).all(...(values as never[]))
      return (await real.query(text, [...values])).rows
    }
    const tx = within(rp, { dialect: kind, query })
    const log = timeline<number, { type: 'added' }>('log', { initial: () => 0, apply: (n) => n + 1 })
    const mails = itemQueue<string>('mails')
    const calls = [
      () => tx.run(note, 'x', { id: 'one' }),
      () => tx.signal(checkout, 'o', paid, { by: 'card' }),
      () => tx.cancel(checkout, 'o'),
      () => tx.send('inbox/a', 'hello', 1),
      () => tx.append(log, 'a', { type: 'added' }),
      () => tx.items(mails, ['a', 'b', 'c']),
    ]
    await app.run('BEGIN')
    for (const [i, call] of calls.entries()) {
      await call()
      expect(texts).toHaveLength(i + 1)
    }
    // A client that sends statements without waiting for their answers is not held up.
    await Promise.all(calls.map((call) => call()))
    expect(texts).toHaveLength(2 * calls.length)
    await app.run('ROLLBACK')
  })

  it('E3: a payload above the size limit is refused in the transaction, and one that SQL wrote is kept with the reason', async () => {
    await rp.close()
    rp = await open(store.url, { limits: { valueBytes: 2000 } })
    await app.run('BEGIN')
    const tx = within(rp, app.tx)
    const refused = { code: 'LIMIT_EXCEEDED' }
    await expect(tx.run(note, 'x'.repeat(2001), { id: 'large' })).rejects.toMatchObject(refused)
    await expect(tx.signal(note, 'a', 'go', 'x'.repeat(2001))).rejects.toMatchObject(refused)
    await expect(tx.send('inbox/a', 'go', 'x'.repeat(2001))).rejects.toMatchObject(refused)
    await tx.run(note, 'x'.repeat(1500), { id: 'small' })
    await app.run('COMMIT')
    const other = await application(store.url)
    await other.start('note', 'written', 'x'.repeat(2001))
    await other.send('inbox/a', 'go', 'x'.repeat(2001))
    await other.close()
    rp.work([note])
    await until(async () => (await requests()).filter(({ problem }) => problem !== null).length === 2)
    expect((await requests()).map(({ problem }) => problem)).toEqual(Array(2).fill(expect.stringContaining('2000')))
    await until(async () => (await runs(note)).length > 0)
    expect(await runs(note)).toEqual(['small'])
  })

  it('E3: a run that a transaction starts is stored with the policies and options of one that is started directly', async () => {
    const options = { attributes: { shop: 7 }, priority: 3, timeout: '1h' } as const
    const kept = workflow('kept', async (_ctx, text: string) => text, {
      checkpoint: { every: 7 },
      retain: { checkpoints: 3 },
    })
    await app.run('BEGIN')
    const enlisted = await within(rp, app.tx).run(kept, 'x', { id: 'within', ...options })
    await app.run('COMMIT')
    await (await enlisted.started()).result()
    await (await rp.run(kept, 'x', { id: 'direct', ...options })).result()
    const of = async (id: string) => {
      const { attributes, priority, queue, status } = (await rp.head(kept.prefix + id))!
      return { attributes, priority, queue, status }
    }
    await expect.poll(() => of('within')).toEqual(await of('direct'))
    expect(JSON.stringify(await of('within'))).toContain('"shop":7')
  })

  it('E3: a request belongs to the namespace of its sender, and workers of others leave it alone', async () => {
    const other = await open(store.url, { namespace: 'other' })
    rp.work([note])
    await app.run('BEGIN')
    await within(other, app.tx).run(note, 'there', { id: 'n', here: false })
    const here = await within(rp, app.tx).run(note, 'here', { id: 'n' })
    await app.run('COMMIT')
    expect(await (await here.started()).result()).toBe('here')
    const waiting = () => hostOf(other).kernel.store.requests!.list({ limit: 10 })
    expect([await requests(), (await waiting()).length]).toEqual([[], 1])
    other.work([note])
    await until(async () => (await waiting()).length === 0)
    expect(await workflows(other).of(note).get('n').result()).toBe('there')
    await other.close()
  })

  it('E3: ids, keys and options that no run can have fail in the transaction, which stays usable', async () => {
    const options: readonly object[] = [
      ...['', '/a', 'a//b', 'a\nb', 's\ud800', 'x'.repeat(505), 5, null].map((id) => ({ id })),
      ...[{ key: '' }, { key: 5 }, { delay: 'soon' }, { delay: -5 }, { timeout: -5 }],
      ...[{ attributes: { a: { b: 1 } } }, { attributes: 5 }, { priority: 'high' }],
    ]
    await app.run('BEGIN')
    const tx = within(rp, app.tx)
    const refused = { code: expect.stringMatching(/^INVALID_/) }
    for (const each of options) await expect(tx.run(note, 'text', each as never)).rejects.toMatchObject(refused)
    for (const id of ['', 'a\nb', 5, undefined]) {
      await expect(tx.signal(note, id as never, 'go')).rejects.toMatchObject(refused)
      await expect(tx.cancel(note, id as never)).rejects.toMatchObject(refused)
    }
    for (const reason of [5, null, {}, []])
      await expect(tx.cancel(note, 'a', { reason: reason as never })).rejects.toMatchObject(refused)
    for (const name of ['', 5, null]) await expect(tx.signal(note, 'a', name as never)).rejects.toMatchObject(refused)
    await expect(tx.signal(note, 'a', 'go', 1, { key: 5 as never })).rejects.toMatchObject(refused)
    await tx.run(note, 'text', { id: 'right' })
    await app.run('COMMIT')
    await until(async () => (await runs(note)).length > 0)
    expect([await runs(note), await requests()]).toEqual([['right'], []])
  })

  it('E3: an input that the definition refuses fails in the transaction', async () => {
    const even = {
      '~standard': {
        ...({ version: 1, vendor: 'test' } as const),
        validate: (value: unknown) =>
          Number(value) % 2 === 0 ? { value: Number(value) } : { issues: [{ message: 'odd' }] },
      },
    }
    const twice = workflow('twice', async (_ctx, n: number) => 2 * n, { input: even })
    await app.run('BEGIN')
    await expect(within(rp, app.tx).run(twice, 3, { id: 'odd' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    const started = await within(rp, app.tx).run(twice, 4, { key: 'even' })
    await app.run('COMMIT')
    expect(await (await started.started()).result()).toBe(8)
    expect(await runs(twice)).toEqual(['even'])
  })

  /** Clients of other packages, by their shape, over the connection of this test: each passes the statement its own way. */
  const shapes: Readonly<Record<string, (query: TransactionClient['query']) => unknown>> = {
    'its own interface': (query) => ({ dialect: kind, query }),
    Kysely: (query) => ({
      isTransaction: true,
      selectFrom: () => undefined,
      executeQuery: async ({ sql, parameters }: { sql: string; parameters: unknown[] }) => ({
        rows: await query(sql, parameters),
      }),
    }),
    Knex: (query) =>
      Object.assign(() => undefined, {
        isTransaction: true,
        raw: async (text: string, values: unknown[]) => {
          let n = 0
          return { rows: await query(kind === 'sqlite' ? text : text.replaceAll('?', () => `$${++n}`), values) }
        },
      }),
    'Prisma 6': (query) => ({ $queryRawUnsafe: (text: string, ...values: unknown[]) => query(text, values) }),
    'Prisma 7': (query) => ({
      $queryRawUnsafe: (text: string, ...values: unknown[]) => query(text, values),
      $transaction: () => undefined,
    }),
    'postgres.js': (query) =>
      Object.assign(() => undefined, {
        savepoint: () => undefined,
        unsafe: (text: string, values: unknown[]) => query(text, values),
      }),
    TypeORM: (query) => ({ queryRunner: { isTransactionActive: true }, query }),
    Drizzle: (query) => ({ rollback: () => undefined, _: { session: { client: { dialect: kind, query } } } }),
  }

  it('E3: a client of Prisma outside of a transaction is refused', () => {
    const nothing = () => undefined
    const client = { $queryRawUnsafe: nothing, $transaction: nothing, $connect: nothing }
    expect(() => within(rp, client)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  })

  it.each(Object.keys(shapes))('E3: a transaction in the shape of %s is understood', async (name) => {
    const query: TransactionClient['query'] = async (text, values) => {
      const client = app.tx as { prepare?: (text: string) => { all(...values: never[]): never[] } } & pg.Client
      if (client.prepare) return client.prepare(text).all(...(values as never[]))
      return (await client.query(text, [...values])).rows
    }
    await app.run('BEGIN')
    const started = await within(rp, shapes[name]!(query)).run(note, name, { id: 'shape' })
    await app.run('COMMIT')
    expect(await (await started.started()).result()).toBe(name)
    expect(await workflows(rp).of(note).get('shape').result()).toBe(name)
  })
})
