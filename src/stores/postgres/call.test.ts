// Calls of our functions against a real server: prepared where that works, unprepared where a pooler shares sessions.

import { createServer, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import pg from 'pg'
import { afterAll, afterEach, describe, expect, inject, it } from 'vitest'
import { dropSchema, newSchemaName } from '../../../test/support/schema.ts'
import { originDigest, packEntries } from '../../core/history/entry-run.ts'
import type { Commit, EntryRun, Store } from '../../core/store/ports.ts'
import { asOperation, asTimeline, asWorker, hash, utf8, wholeFeed } from '../../testing/conformance/kit.ts'
import { callText, statementName } from './call.ts'
import { functionName } from './functions.ts'
import { openPostgres } from './index.ts'

const shared = inject('postgresUrl')
const schema = newSchemaName()
const opened: { close(): unknown }[] = []

async function openStore(namespace: string, url = shared, poolSize = 2): Promise<Store> {
  const store = await openPostgres(url, { namespace, schema, hash, poolSize })
  opened.push(store)
  return store
}

afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})
afterAll(() => dropSchema(shared, schema))

function taking(id: string): Commit {
  const create = { digest: originDigest(hash, asTimeline(id)) }
  const take = { worker: asWorker('w'), from: 'anyone' as const, create }
  return { operation: asOperation(`${id}-take`), guard: { timeline: asTimeline(id), epoch: 0 }, take }
}

/** Bytes that differ by sequence are enough here: stores do not check the chain. */
function appending(id: string, seq: number, more: Partial<Commit> = {}): Commit {
  const digest = seq === 0 ? originDigest(hash, asTimeline(id)) : runAt(id, seq - 1).digest
  const guard = { timeline: asTimeline(id), epoch: 1, seq, digest }
  return { operation: asOperation(`${id}-${seq}`), guard, run: runAt(id, seq), ...more }
}

function runAt(id: string, seq: number): EntryRun {
  const draft = { type: 'noted', version: 1, time: 1, data: utf8(`${id} ${seq}`) }
  return packEntries(hash, { before: originDigest(hash, asTimeline(id)), first: seq + 1, epoch: 1 }, [draft])
}

const prepared = "SELECT name FROM pg_prepared_statements WHERE name LIKE 'reprise%' AND name <> 'reprise_rider'"

describe('calls', () => {
  it('are prepared once a connection', async () => {
    const store = await openStore('prepared', shared, 1)
    await store.commit([taking('p/a')])
    for (let seq = 0; seq < 3; seq++) await store.commit([appending('p/a', seq)])
    const [outcome] = await store.commit([appending('p/a', 3, { userSql: (sql) => sql.all(prepared) })])
    const names = ['commit', 'append_one'].map((name, i) =>
      statementName(callText(functionName(`"${schema}"`, name), [5, 10][i]!)),
    )
    expect(outcome).toMatchObject({ ok: true, sqlResult: expect.arrayContaining(names.map((name) => ({ name }))) })
  })

  it('go on when their statements were taken away', async () => {
    const store = await openStore('taken-away', shared, 1)
    await store.commit([taking('t/a')])
    await store.commit([appending('t/a', 0)])
    const takeAway = "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"
    await store.commit([appending('t/a', 1, { userSql: (sql) => sql.run(takeAway) })])
    expect(await store.commit([appending('t/a', 2)])).toMatchObject([{ ok: true, seq: 3, isDuplicate: false }])
    // That session was closed, and in the next one they are prepared as usual.
    const [outcome] = await store.commit([appending('t/a', 3, { userSql: (sql) => sql.all(prepared) })])
    const name = statementName(callText(functionName(`"${schema}"`, 'append_one'), 10))
    expect(outcome).toMatchObject({ ok: true, sqlResult: [{ name }] })
  })

  it('work through a pooler that gives each transaction another session', async () => {
    // Two sessions that take turns, one client: a statement prepared in one is missing in the other at the next call.
    const pooler = await startPooler(shared, 2)
    opened.push(pooler)
    const write = async (store: Store, id: string) => {
      await store.commit([taking(id)])
      for (let seq = 0; seq < 10; seq++) {
        expect(await store.commit([appending(id, seq)])).toMatchObject([{ ok: true, seq: seq + 1, isDuplicate: false }])
      }
    }
    const alone = await openStore('pooled', pooler.url, 1)
    await write(alone, 'pooled/alone')
    // Notifications take a turn as well: on a slow machine each append may get the session of the previous one.
    let others = 0
    while (pooler.misplaced() === 0 && others < 50) await write(alone, `other/${++others}`)
    expect(pooler.misplaced()).toBe(1)
    // And many at a time, in any order.
    const stores = await Promise.all([1, 2, 3].map(() => openStore('pooled', pooler.url)))
    await Promise.all(stores.flatMap((store, i) => [write(store, `pooled/a${i}`), write(store, `pooled/b${i}`)]))
    const heads = await alone.timelines({ prefix: 'pooled/', limit: 10 })
    expect(heads.map((head) => head.seq)).toEqual(Array(7).fill(10))
  })
})

describe('a batch of appends', () => {
  it('is in the feed in the order of the batch, not of the ids', async () => {
    const store = await openStore('batch-order')
    const ids = ['b/z', 'b/a', 'b/m', 'b/"q\\', 'b/0']
    await store.commit(ids.map(taking))
    await store.commit(ids.map((id) => appending(id, 0)))
    expect((await wholeFeed(store)).map((item) => item.timeline)).toEqual(ids)
  })

  it('leaves unsuitable commits to the general path, each in its place', async () => {
    const store = await openStore('batch-mixed')
    const ids = ['m/z', 'm/a', 'm/m', 'm/b']
    await store.commit(ids.map(taking))
    await store.commit([appending('m/a', 0), appending('m/b', 0)])
    // z fits, a is behind its head, m would leave a gap, b was applied already, and x does not exist.
    const batch = [...ids.map((id) => appending(id, id === 'm/m' ? 5 : 0)), appending('m/x', 0)]
    const stale = { ...batch[1]!, operation: asOperation('another') }
    expect(await store.commit(batch.with(1, stale))).toMatchObject([
      { ok: true, seq: 1, isDuplicate: false },
      { ok: false, code: 'CONFLICT', head: { seq: 1 } },
      { ok: false, code: 'CONFLICT', head: { seq: 0 } },
      { ok: true, seq: 1, isDuplicate: true },
      { ok: false, code: 'NOT_FOUND', head: null },
    ])
  })
})

/** A pooler in transaction mode without support for prepared statements: each transaction goes to the next free session. */
async function startPooler(url: string, size: number) {
  const sessions = await Promise.all(Array.from({ length: size }, () => openSession(url)))
  const free = [...sessions]
  const waiting: ((session: Duplex) => void)[] = []
  const take = () => {
    const session = free.shift()
    return session ? Promise.resolve(session) : new Promise<Duplex>((resolve) => waiting.push(resolve))
  }
  const give = (session: Duplex) => {
    const next = waiting.shift()
    if (next) next(session)
    else free.push(session)
  }
  const sockets = new Set<Socket>()
  let misplaced = 0
  const server: Server = createServer((client) => {
    sockets.add(client)
    client.on('error', () => undefined)
    let session: Duplex | null = null
    let writeLock = Promise.resolve()
    const serve = async (request: Buffer) => {
      session ??= await take()
      const { reply, isIdle } = await ask(session, request)
      if (/C(26000|42P05)\0/.test(reply.toString('latin1'))) misplaced += 1
      if (isIdle) give(session)
      if (isIdle) session = null
      client.write(reply)
    }
    let isGreeted = false
    let bytes = Buffer.alloc(0)
    let request: Buffer[] = []
    client.on('data', (piece: Buffer) => {
      bytes = Buffer.concat([bytes, piece])
      for (;;) {
        const start = isGreeted ? 1 : 0
        if (bytes.length < start + 4 || bytes.length < start + bytes.readInt32BE(start)) return
        const message = bytes.subarray(0, start + bytes.readInt32BE(start))
        bytes = bytes.subarray(message.length)
        if (!isGreeted) client.write(greeting)
        // A request ends with Sync or is a simple Query; Terminate concerns the client only.
        else if (message[0] !== 0x58) request.push(message)
        if (isGreeted && (message[0] === 0x53 || message[0] === 0x51)) {
          const whole = Buffer.concat(request)
          request = []
          writeLock = writeLock.then(() => serve(whole))
        }
        isGreeted = true
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const pooled = new URL(url)
  pooled.port = String((server.address() as { port: number }).port)
  return {
    url: pooled.href,
    misplaced: () => misplaced,
    close() {
      server.close()
      for (const socket of [...sockets, ...sessions]) socket.destroy()
    },
  }
}

/** AuthenticationOk, BackendKeyData (an invented process), ReadyForQuery. */
const greeting = Buffer.from('520000000800000000' + '4b0000000c075bcd1500000001' + '5a0000000549', 'hex')

/** A session of the server, past its greeting; from then on the test handles its bytes. */
async function openSession(url: string): Promise<Duplex> {
  const client = new pg.Client(url)
  client.on('error', () => undefined)
  await client.connect()
  const { stream } = (client as unknown as { connection: { stream: Duplex } }).connection
  stream.removeAllListeners('data')
  return stream
}

/** Everything up to ReadyForQuery, and whether the transaction is over. */
function ask(session: Duplex, request: Buffer): Promise<{ reply: Buffer; isIdle: boolean }> {
  return new Promise((resolve) => {
    let reply = Buffer.alloc(0)
    let at = 0
    const read = (piece: Buffer) => {
      reply = Buffer.concat([reply, piece])
      while (at + 5 <= reply.length && at + 1 + reply.readInt32BE(at + 1) <= reply.length) {
        const start = at
        at += 1 + reply.readInt32BE(at + 1)
        if (reply[start] !== 0x5a) continue
        session.off('data', read)
        resolve({ reply, isIdle: reply[start + 5] === 0x49 })
      }
    }
    session.on('data', read)
    session.write(request)
  })
}
