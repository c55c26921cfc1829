// Folds and similar functions (`evolve`, handlers of projections, reactions of process managers) are refused the clock, chance
// and the outside (A5.1): during development, and in every drill. All other code gets the originals.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import net from 'node:net'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { isReprise, keyed, open, type Reprise, timeline } from '../../src/index.ts'
import { aggregate, processManager, projection, sqlProjection, tableProjection } from '../../src/layers/events/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { temporaryFolder } from '../support/fixture.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function engine(guardFolds?: boolean): Promise<Reprise> {
  const rp = await open('memory:', guardFolds === undefined ? {} : { guardFolds })
  cleanups.push(() => rp.close().catch(() => undefined))
  return rp
}

const sources: Record<string, () => unknown> = {
  'Date.now': () => Date.now(),
  Date: () => new Date().toISOString(),
  'Math.random': () => Math.random(),
  'performance.now': () => performance.now(),
  'performance.timeOrigin': () => performance.timeOrigin,
  'process.hrtime': () => process.hrtime(),
  'process.hrtime.bigint': () => process.hrtime.bigint(),
  'process.uptime': () => process.uptime(),
  'Intl.DateTimeFormat': () => new Intl.DateTimeFormat('en').format(),
  'crypto.randomUUID': () => crypto.randomUUID(),
  'crypto.getRandomValues': () => crypto.getRandomValues(new Uint8Array(1)),
  'crypto.subtle.digest': () => crypto.subtle.digest('SHA-256', new Uint8Array(1)),
  'os.hostname': () => hostname(),
  'fs.readFileSync': () => readFileSync('package.json'),
  'net.connect': () => net.connect(1),
  setTimeout: () => setTimeout(() => undefined, 1),
  fetch: () => fetch('http://localhost:1'),
}

const failure = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error) => error,
  )

function expectRefused(error: unknown, call: string): void {
  const found = findCode(error)
  expect(found?.message).toContain(call)
  expect(found?.data.at).toMatch(/pure\.test\.ts:\d+:\d+/)
}

function findCode(error: unknown) {
  for (let each = error; each instanceof Error; each = each.cause) if (isReprise(each, 'NON_DETERMINISTIC')) return each
  return null
}

describe('a fold', () => {
  it.each(Object.entries(sources))(
    'that calls %s is refused with the line, and nothing is written',
    async (name, ask) => {
      const impure = timeline('impure', {
        initial: () => ({ seen: '' }),
        apply: (_, entry: { type: 'a'; bad: boolean }) => ({ seen: entry.bad ? String(ask()) : 'fine' }),
      })
      const rp = await engine()
      const open = await rp.open(impure, 'one')
      await open.append({ type: 'a', bad: false })
      expectRefused(await failure(open.append({ type: 'a', bad: true })), name)
      expect(open.coordinate.seq).toBe(1)
      await open.append({ type: 'a', bad: false })
      expect(open.state.seen).toBe('fine')
      expect(typeof Date.now()).toBe('number')
    },
  )

  it('is refused also when it catches the error: unguarded it would have gone on with something else', async () => {
    const sly = timeline('sly', {
      initial: () => ({ at: 0 }),
      apply(_, __: { type: 'a' }) {
        try {
          return { at: Date.now() }
        } catch {
          return { at: 1 }
        }
      },
    })
    const open = await (await engine()).open(sly, 'one')
    expectRefused(await failure(open.append({ type: 'a' })), 'Date.now')
    expectRefused(await failure(open.append({ type: 'a' })), 'Date.now')
  })

  it('may use dates that are given, and read the time of its entry', async () => {
    const fair = timeline('fair', {
      initial: () => ({ at: '' }),
      apply: (_, __: { type: 'a' }, info) => ({
        at: new Date(info.time).toISOString() + Intl.DateTimeFormat('en').format(5),
      }),
    })
    const open = await (await engine()).open(fair, 'one')
    await open.append({ type: 'a' })
    expect(open.state.at).toMatch(/^20/)
  })

  it.each(['initial', 'in place'])('is refused in each of its parts: %s', async (part) => {
    const impure = timeline('impure', {
      initial: () => ({ at: part === 'initial' ? Date.now() : 0, items: keyed<number>() }),
      apply(state, _: { type: 'a' }) {
        state.items.set('a', part === 'in place' ? Date.now() : 0)
      },
    })
    const rp = await engine()
    expectRefused(await failure(rp.open(impure, 'one').then((open) => open.append({ type: 'a' }))), 'Date.now')
  })

  it('is refused in its upcasters and in the migrations of its state', async () => {
    const folder = temporaryFolder('pure')
    const url = `sqlite:${join(folder, 'a.db')}`
    const old = timeline('t', { initial: () => ({ n: 0 }), apply: (s, _: { type: 'a' }) => ({ n: s.n + 1 }) })
    const first = await open(url)
    const written = await first.open(old, 'one')
    await written.append({ type: 'a' })
    await written.checkpoint()
    await written.append({ type: 'a' })
    await first.close()
    const base = { initial: () => ({ n: 0 }), apply: (s: { n: number }, _: { type: 'a' }) => s, version: '2' }
    const upcasters = { a: { version: 2, from: { 1: (data: unknown) => ({ ...(data as object), at: Date.now() }) } } }
    const migrations = { '1': (state: { n: number }) => ({ n: state.n + Math.random() }) }
    for (const [changed, call] of [
      [timeline('t', { ...base, upcasters }), 'Date.now'],
      [timeline('t', { ...base, migrations }), 'Math.random'],
    ] as const) {
      const rp = await open(url)
      cleanups.push(() => rp.close())
      expectRefused(await failure(rp.open(changed, 'one')), call)
    }
  })

  it('is not guarded in production, and is in every drill', async () => {
    const before = process.env.NODE_ENV
    process.env.NODE_ENV = 'production'
    cleanups.push(() => {
      process.env.NODE_ENV = before
    })
    const impure = timeline('impure', {
      initial: () => ({ at: 0 }),
      apply: (_, __: { type: 'a' }) => ({ at: Date.now() }),
    })
    const native = Date
    const rp = await engine()
    const open = await rp.open(impure, 'one')
    await open.append({ type: 'a' })
    expect(globalThis.Date).toBe(native)
    const [result] = (await rp.drill()).results
    expect(result).toMatchObject({
      ok: false,
      note: expect.stringContaining('Date.now was called by apply of impure/one@1 (a)'),
    })
    // Concurrent work is not disturbed.
    const [, seq] = await Promise.all([rp.drill(), open.append({ type: 'a' }).then(() => open.coordinate.seq)])
    expect(seq).toBe(2)
    expect(globalThis.Date).toBe(native)
  })

  it('leaves no trace when the last engine has closed', async () => {
    const before = [
      Date,
      Math.random,
      net.Socket.prototype.connect,
      Object.getOwnPropertyDescriptor(performance, 'now'),
    ]
    const rp = await engine()
    await (await rp.open(timeline('t', { initial: () => 0, apply: (n, _: { type: 'a' }) => n + 1 }), 'x')).append({
      type: 'a',
    })
    expect(Date).not.toBe(before[0])
    await rp.close()
    expect([
      Date,
      Math.random,
      net.Socket.prototype.connect,
      Object.getOwnPropertyDescriptor(performance, 'now'),
    ]).toEqual(before)
    expect(Object.hasOwn(net.Socket.prototype, 'write')).toBe(false)
  })
})

describe('functions similar to a fold', () => {
  const account = (ask: (() => unknown) | null) =>
    aggregate('account', {
      initial: () => ({ balance: 0, seen: '' }),
      evolve: {
        deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount, seen: ask ? String(ask()) : '' }),
      },
      // Decided once, then recorded: a command may read the clock.
      decide: { deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount, at: Date.now() }) },
    })

  it('evolve: each command fails for itself, also in a batch', async () => {
    const open = await (await engine()).open(
      account(() => Math.random()),
      'ann',
    )
    const results = await Promise.all([1, 2].map((amount) => failure(open.do('deposit', { amount }))))
    for (const error of results) expectRefused(error, 'Math.random')
    const fine = await (await engine()).open(account(null), 'ann')
    await fine.do('deposit', { amount: 5 })
    expect(fine.state.balance).toBe(5)
  })

  const from = [account(null)] as const
  const handlers = {
    memory: projection('p', { from, initial: () => 0, on: { deposited: () => Date.now() } }),
    table: tableProjection('p', {
      from,
      into: table<number>('t'),
      on: { deposited: (tx) => void tx.set('a', Date.now()) },
    }),
    sql: sqlProjection('p', {
      from,
      setup: (sql) => sql.run('CREATE TABLE IF NOT EXISTS seen (at INTEGER)'),
      on: {
        async deposited(sql) {
          await sql.all('SELECT * FROM seen')
          await sql.run('INSERT INTO seen VALUES (?)', Date.now())
        },
      },
    }),
    'process manager': processManager('p', {
      from,
      on: { deposited: () => (Date.now() > 0 ? undefined : undefined) },
    }),
  }

  it.each(Object.entries(handlers))('a handler of a projection or process: %s', async (kind, bad) => {
    const rp = kind === 'sql' ? await onFile() : await engine()
    const told = new Promise((resolve) => rp.events.on('problem', ({ error }) => findCode(error) && resolve(error)))
    await (await rp.open(from[0], 'ann')).do('deposit', { amount: 5 })
    await rp.open(bad as typeof handlers.memory)
    expectRefused(await told, 'Date.now')
  })

  it('a handler with SQL may wait for its statements, and the store continues', async () => {
    const rp = await onFile()
    const good = sqlProjection('good', {
      from,
      setup: (sql) => sql.run('CREATE TABLE sums (amount INTEGER)'),
      on: {
        async deposited(sql, { amount }) {
          const rows = await sql.all('SELECT * FROM sums')
          await sql.run('INSERT INTO sums VALUES (?)', amount + rows.length)
        },
      },
    })
    const ann = await rp.open(from[0], 'ann')
    await ann.do('deposit', { amount: 5 })
    await ann.do('deposit', { amount: 5 })
    const handle = await rp.open(good)
    await handle.catchUp()
    expect(handle.status()[0]).toMatchObject({ applied: 2 })
  })
})

async function onFile(): Promise<Reprise> {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-pure-'))
  const rp = await open(`sqlite:${join(folder, 'a.db')}`)
  cleanups.push(
    () => rmSync(folder, { recursive: true, force: true }),
    () => rp.close(),
  )
  return rp
}
