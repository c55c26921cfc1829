// Presence against a real server: how a dead worker differs from one that lost its connection, the effect of a pooler
// or a restart of the server, and the settings by which the server notices a dead host.

import { existsSync, readFileSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { afterAll, afterEach, describe, expect, inject, it } from 'vitest'
import { pause } from '../../../test/support/fixture.ts'
import { startPostgres } from '../../../test/support/postgres.ts'
import { dropSchema, newSchemaName, query } from '../../../test/support/schema.ts'
import type { Store } from '../../core/store/ports.ts'
import { asWorker, hash, until, worker } from '../../testing/conformance/kit.ts'
import { openPostgres } from './index.ts'
import { lockOf } from './presence.ts'

const shared = inject('postgresUrl')
const schema = newSchemaName()
const opened: { close(): unknown }[] = []
let namespaces = 0

async function openStore(namespace: string, url = shared): Promise<Store> {
  const store = await openPostgres(url, { namespace, schema, hash, poolSize: 2 })
  opened.push(store)
  return store
}

afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})
afterAll(() => dropSchema(shared, schema))

const freshNamespace = () => `presence-${++namespaces}`
/** The sessions that hold the lock of a worker of this schema. */
const held = (url = shared) =>
  query(
    url,
    `SELECT w.id, l.pid, a.client_port AS port FROM "${schema}".worker w JOIN pg_locks l ON l.locktype = 'advisory'
       AND ((l.classid::bigint << 32) | l.objid::bigint) = ${lockOf(`"${schema}"`, 'w.ns', 'w.id')}
     JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.granted AND w.retired_at IS NULL AND l.mode = 'ExclusiveLock'`,
  )
const heldBy = async (id: string, url = shared) => (await held(url)).filter((row) => row.id === id)
const rowOf = async (store: Store, id: string) => (await store.workers()).find((row) => row.id === id)!
const presenceOf = async (id: string, url = shared) =>
  (await query(url, `SELECT presence FROM "${schema}".worker WHERE id = '${id}'`))[0]?.presence ?? null

describe('presence', () => {
  it('outlives a session that broke while the process is alive: it is held again in a new one', async () => {
    const namespace = freshNamespace()
    const [alive, looker] = [await openStore(namespace), await openStore(namespace)]
    await alive.beat(worker('broken'))
    await until(async () => (await presenceOf('broken')) !== null, 'the lock is held')
    const [before] = await heldBy('broken')
    await query(shared, `SELECT pg_terminate_backend(${before!.pid})`)
    await until(async () => (await heldBy('broken')).some((row) => row.pid !== before!.pid), 'it is held again')
    await until(async () => (await presenceOf('broken')) !== null, 'its row says so')
    expect((await rowOf(looker, 'broken')).isGone).toBe(false)
    await alive.close()
    await until(async () => (await rowOf(looker, 'broken')).isGone, 'and now it is gone')
  })

  it('is given up with the worker: another identity of the same process has its own', async () => {
    const store = await openStore(freshNamespace())
    await store.beat(worker('first'))
    await until(async () => (await presenceOf('first')) !== null, 'the lock is held')
    await store.retire([asWorker('first')])
    await store.beat(worker('second'))
    await until(async () => (await presenceOf('second')) !== null, 'the next lock is held')
    expect((await heldBy('second')).length).toBe(1)
    await query(shared, `UPDATE "${schema}".worker SET retired_at = NULL WHERE id = 'first'`)
    await until(async () => (await heldBy('first')).length === 0, 'and the first one is not')
  })

  it('is not claimed behind a pooler, where no session is ours alone: the lease decides', async () => {
    const namespace = freshNamespace()
    const pooler = await startPooler(shared)
    opened.push(pooler)
    const [pooled, looker] = [await openStore(namespace, pooler.url), await openStore(namespace)]
    await pooled.beat(worker('pooled'))
    await looker.beat(worker('direct'))
    await until(async () => (await presenceOf('direct')) !== null, 'a direct one has presence')
    await pause(300)
    expect(await presenceOf('pooled')).toBe(null)
    await pooled.close()
    await pause(100)
    expect(await rowOf(looker, 'pooled')).toMatchObject({ isGone: false, isAlive: true })
  })

  if (process.env.REPRISE_TEST_POSTGRES)
    console.log('presence: not all of it, the server was given and must not be killed')
  else if (!existsSync('/proc/net/tcp')) console.log('presence: keepalive is not looked at, there is no /proc/net/tcp')

  it.skipIf(!existsSync('/proc/net/tcp') || process.env.REPRISE_TEST_POSTGRES)(
    'asks the server to notice a dead host within seconds, in this session',
    async () => {
      const store = await openStore(freshNamespace())
      await store.beat(worker('probed'))
      await until(async () => (await presenceOf('probed')) !== null, 'the lock is held')
      const [session] = await heldBy('probed')
      // The kernel shows which timer a connection waits for (2 is keepalive), and for how many hundredths of a second.
      const hex = (port: unknown) => Number(port).toString(16).toUpperCase().padStart(4, '0')
      const timerOf = () =>
        readFileSync('/proc/net/tcp', 'utf8')
          .split('\n')
          .map((text) => text.trim().split(/\s+/))
          .find(
            ([, local, remote]) => local?.endsWith(hex(new URL(shared).port)) && remote?.endsWith(hex(session!.port)),
          )!
          .at(5)!
          .split(':')
          .map((text) => Number.parseInt(text, 16))
      await until(async () => timerOf()[0] === 2, 'the keepalive timer runs')
      expect(timerOf()[1]).toBeLessThanOrEqual(200)
    },
  )

  it.skipIf(process.env.REPRISE_TEST_POSTGRES)(
    'of a server that restarted says nothing: nobody is gone until they are back, and they come back',
    async () => {
      const server = await startPostgres()
      try {
        const namespace = freshNamespace()
        const [alive, looker] = [await openStore(namespace, server.url), await openStore(namespace, server.url)]
        const silent = await openStore(namespace, server.url)
        await alive.beat(worker('alive'))
        await silent.beat(worker('silent'))
        await until(async () => (await held(server.url)).length === 2, 'both are there')
        await until(async () => (await presenceOf('silent', server.url)) !== null, 'and their rows say so')
        await server.kill()
        await silent.close()
        await server.restart()
        const first = await looker.workers()
        expect(first.map((row) => [row.id, row.isGone])).toEqual([
          ['alive', false],
          ['silent', false],
        ])
        await until(async () => (await held(server.url)).length === 1, 'the live one is there again')
        expect((await rowOf(looker, 'alive')).isGone).toBe(false)
        expect((await rowOf(looker, 'silent')).isGone).toBe(false)
        for (const each of opened.splice(0)) await each.close()
      } finally {
        await server.stop()
      }
    },
  )
})

/** Forwards everything except the number of the server's process, like a pooler with cancel keys of its own. */
async function startPooler(url: string): Promise<{ readonly url: string; close(): void }> {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  const server: Server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        client.destroy()
        upstream.destroy()
      })
    }
    client.pipe(upstream)
    let isGreeted = false
    upstream.on('data', (bytes: Buffer) => {
      // BackendKeyData: the letter K, a length, the process, the key. The greeting arrives in one piece on loopback.
      for (let at = 0; !isGreeted && at + 9 <= bytes.length; at += 1 + bytes.readInt32BE(at + 1)) {
        if (bytes[at] !== 0x4b) continue
        bytes.writeInt32BE(123_456_789, at + 5)
        isGreeted = true
      }
      client.write(bytes)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const pooled = new URL(url)
  pooled.port = String((server.address() as { port: number }).port)
  return {
    url: pooled.href,
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
