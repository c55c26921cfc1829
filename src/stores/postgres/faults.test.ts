// The PostgreSQL store under concurrency and faults: many writers, connections cut, the server killed, versions and
// settings that do not fit. Tests that kill a server start their own.

import { afterAll, afterEach, describe, expect, inject, it } from 'vitest'
import { newGate, pause } from '../../../test/support/fixture.ts'
import { startPostgres } from '../../../test/support/postgres.ts'
import { dropSchema, newSchemaName, query } from '../../../test/support/schema.ts'
import type { Digest } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import { originDigest, packEntries, unpackEntries, verifyEntries } from '../../core/history/entry-run.ts'
import { type Commit, type FeedItem, feedStart, type Outcome, type Store } from '../../core/store/ports.ts'
import { asOperation, asTimeline, asWorker, hash, utf8 } from '../../testing/conformance/kit.ts'
import { openPostgres } from './index.ts'
import { schemaVersion } from './tables.ts'

const shared = inject('postgresUrl')
const schema = newSchemaName()
const opened: Store[] = []

async function openStore(namespace: string, url = shared, more: { schema?: string; connectTimeoutMs?: number } = {}) {
  const store = await openPostgres(url, { namespace, schema, hash, poolSize: 4, ...more })
  opened.push(store)
  return store
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()))
})
afterAll(() => dropSchema(shared, schema))

/** One timeline's owner: retries with the same operation id until it has an answer, as the engine does. */
class Owner {
  readonly id: string
  readonly store: Store
  seq = 0
  epoch = 0
  digest: Digest
  acknowledged: string[] = []
  #operations = 0

  constructor(store: Store, id: string) {
    this.store = store
    this.id = id
    this.digest = originDigest(hash, asTimeline(id))
  }

  async take(): Promise<void> {
    const create = { digest: this.digest }
    const take = { worker: asWorker('w'), from: 'anyone' as const, create }
    await this.#settle({ ...this.#guarded(), take })
    this.epoch += 1
  }

  plan(text: string): Commit {
    const draft = { type: 'noted', version: 1, time: 1, data: utf8(text) }
    const run = packEntries(hash, { before: this.digest, first: this.seq + 1, epoch: this.epoch }, [draft])
    return { ...this.#guarded(), run }
  }

  async append(text: string): Promise<void> {
    const commit = this.plan(text)
    await this.#settle(commit)
    this.accept(commit, text)
  }

  accept({ run }: Commit, text: string): void {
    this.seq += 1
    this.digest = run!.digest
    this.acknowledged.push(text)
  }

  #guarded() {
    this.#operations += 1
    const operation = asOperation(`${this.id}-${this.#operations}`)
    return {
      operation,
      guard: { timeline: asTimeline(this.id), epoch: this.epoch, seq: this.seq, digest: this.digest },
    }
  }

  async #settle(commit: Commit): Promise<Outcome> {
    for (;;) {
      try {
        const [outcome] = await this.store.commit([commit])
        expect(outcome).toMatchObject({ ok: true })
        return outcome!
      } catch (error) {
        if (!isReprise(error, 'STORE_UNREACHABLE', 'STORE_IO', 'STORE_BUSY', 'TIMEOUT')) throw error
        await pause(20)
      }
    }
  }
}

/** The stored history of a timeline, its chain checked. */
async function textsOf(store: Store, id: string): Promise<string[]> {
  const texts: string[] = []
  let before = { seq: 0, digest: originDigest(hash, asTimeline(id)) }
  for (;;) {
    const runs = await store.read(asTimeline(id), before.seq, 100_000)
    if (runs.length === 0) return texts
    for (const run of runs) {
      verifyEntries(hash, id, run, before)
      for (const entry of unpackEntries(run)) texts.push(new TextDecoder().decode(entry.data))
      before = { seq: run.first + run.count - 1, digest: run.digest }
    }
  }
}

async function readFeed(store: Store, isDone: () => boolean): Promise<FeedItem[]> {
  const items: FeedItem[] = []
  let after = feedStart
  for (;;) {
    const wasDone = isDone()
    const page = await store.feed(after, {}, 7)
    items.push(...page.items)
    after = page.next
    if (wasDone && page.isEnd) return items
  }
}

describe('many writers', () => {
  it('a feed that is read while 8 writers commit misses nothing, repeats nothing and keeps each timeline in order', async () => {
    const stores = await Promise.all(Array.from({ length: 8 }, () => openStore('feed')))
    const owners = stores.map((store, i) => new Owner(store, `feed/${i}`))
    const others = stores.map((store, i) => new Owner(store, `feed/other-${i}`))
    await Promise.all([...owners, ...others].map((owner) => owner.take()))
    let isDone = false
    const reading = readFeed(stores[0]!, () => isDone)
    await Promise.all(
      owners.map(async (owner, i) => {
        const other = others[i]!
        for (let n = 0; n < 60; n++) {
          if (n % 3 > 0) {
            await owner.append(`${n}`)
            continue
          }
          const commits = [owner.plan(`${n}`), other.plan(`${n}`)]
          const outcomes = await owner.store.commit(commits)
          expect(outcomes.every((outcome) => outcome.ok)).toBe(true)
          owner.accept(commits[0]!, `${n}`)
          other.accept(commits[1]!, `${n}`)
        }
      }),
    )
    isDone = true
    const items = await reading
    expect(items.length).toBe(8 * 60 + 8 * 20)
    expect(new Set(items.map((item) => item.position)).size).toBe(items.length)
    for (const { id, seq } of [...owners, ...others]) {
      const firsts = items.filter((item) => item.timeline === id).map((item) => item.run.first)
      expect(firsts).toEqual(Array.from({ length: seq }, (_, i) => i + 1))
    }
  })

  it('a commit under way elsewhere holds the feed back, and then nothing of it is missed', async () => {
    const store = await openStore('held')
    const [slow, fast] = [new Owner(store, 'held/slow'), new Owner(store, 'held/fast')]
    await slow.take()
    await fast.take()
    const { opened: gate, open: letGo } = newGate()
    const { opened: withSql, open: hasUserSql } = newGate()
    const commit = slow.plan('slow')
    const userSql = async (sql: Parameters<NonNullable<Commit['userSql']>>[0]) => {
      await sql.run('SELECT pg_current_xact_id()')
      hasUserSql()
      await gate
    }
    const pending = store.commit([{ ...commit, userSql }])
    await withSql
    await fast.append('fast')
    const page = await store.feed(feedStart, {}, 10)
    expect(page).toMatchObject({ items: [], isEnd: false })
    letGo()
    expect(await pending).toMatchObject([{ ok: true }])
    const items = await readFeed(store, () => true)
    expect(items.map((item) => item.timeline).sort()).toEqual(['held/fast', 'held/slow'])
  })

  it('G3: of two stores that take each other over, only the last owner writes', async () => {
    const [a, b] = [await openStore('fence'), await openStore('fence')]
    const first = new Owner(a, 'fence/x')
    await first.take()
    await first.append('one')
    const second = new Owner(b, 'fence/x')
    Object.assign(second, { seq: first.seq, epoch: first.epoch, digest: first.digest })
    await second.take()
    const [stale] = await a.commit([first.plan('zombie')])
    expect(stale).toMatchObject({ ok: false, code: 'FENCED', head: { epoch: 2 } })
    await second.append('two')
    expect(await textsOf(a, 'fence/x')).toEqual(['one', 'two'])
  })

  it('SQL that swallows the failure of its statement is RIDER_FAILED, never a silent rollback', async () => {
    const store = await openStore('swallow')
    const owner = new Owner(store, 'swallow/x')
    await owner.take()
    const userSql: Commit['userSql'] = (sql) => sql.run('SELECT 1 / ?', 0).catch(() => 'never mind')
    expect(await store.commit([{ ...owner.plan('x'), userSql }])).toMatchObject([{ ok: false, code: 'RIDER_FAILED' }])
    expect(await textsOf(store, 'swallow/x')).toEqual([])
    await owner.append('y')
  })

  it('leaves no state in its connections but statements it can do without, so that a pooler in transaction mode may stand between', async () => {
    const store = await openPostgres(shared, { namespace: 'stateless', schema, hash, poolSize: 1 })
    opened.push(store)
    const owner = new Owner(store, 'stateless/x')
    await owner.take()
    await owner.append('one')
    await store.commit([owner.plan('two'), { ...new Owner(store, 'stateless/y').plan('z') }])
    await store.claim({ worker: asWorker('w'), queues: ['q'], limit: 1 })
    await store.feed(feedStart, {}, 10)
    const look = `SELECT 'prepared ' || name AS left_over FROM pg_prepared_statements WHERE name NOT LIKE 'reprise%'
      UNION ALL SELECT 'listens to ' || pg_listening_channels()
      UNION ALL SELECT 'set ' || name FROM pg_settings WHERE source = 'session' AND name <> 'idle_in_transaction_session_timeout'
      UNION ALL SELECT 'lock' FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
      UNION ALL SELECT 'temporary ' || relname FROM pg_class WHERE relpersistence = 't'`
    const head = (await store.head([asTimeline('stateless/x')]))[0]!
    const guard = { timeline: head.timeline, epoch: head.epoch }
    const [outcome] = await store.commit([{ operation: asOperation('look'), guard, userSql: (sql) => sql.all(look) }])
    expect(outcome).toMatchObject({ ok: true, sqlResult: [] })
  })

  it('8 processes that open a new schema in the same moment make it once', async () => {
    const fresh = newSchemaName()
    try {
      const stores = await Promise.all(Array.from({ length: 8 }, () => openStore('new', shared, { schema: fresh })))
      const facts = await Promise.all(stores.map((store) => store.upkeep.facts()))
      expect(facts.map((fact) => fact.schemaVersion)).toEqual(Array(8).fill(schemaVersion))
      expect(await query(shared, `SELECT count(*)::int AS count FROM "${fresh}".namespace`)).toEqual([{ count: 1 }])
    } finally {
      await dropSchema(shared, fresh)
    }
  })

  it('crossing messages between two timelines from two stores all arrive, whichever locks first', async () => {
    const [a, b] = [await openStore('cross'), await openStore('cross')]
    const [x, y] = [new Owner(a, 'cross/x'), new Owner(b, 'cross/y')]
    await x.take()
    await y.take()
    const send = async (owner: Owner, to: string) => {
      for (let n = 0; n < 40; n++) {
        const message = { id: `${owner.id}-${n}` as never, to: asTimeline(to), kind: 'k', data: utf8('m') }
        const commit = { ...owner.plan(`${n}`), send: [message] }
        expect(await owner.store.commit([commit])).toMatchObject([{ ok: true }])
        owner.accept(commit, `${n}`)
      }
    }
    await Promise.all([send(x, 'cross/y'), send(y, 'cross/x')])
    expect((await a.head([asTimeline('cross/x'), asTimeline('cross/y')])).map((head) => head?.mail)).toEqual([40, 40])
    expect(await a.upkeep.inspect()).toEqual([])
  })
})

describe('faults', () => {
  it('G1 G4: PostgreSQL killed and restarted under load loses nothing and doubles nothing', async (context) => {
    const server = await startPostgres()
    if (!server.isOurs) return context.skip('a given server is not killed')
    try {
      const stores = await Promise.all([1, 2, 3].map(() => openStore('kill', server.url)))
      const owners = stores.flatMap((store, i) => [0, 1].map((n) => new Owner(store, `kill/${i}-${n}`)))
      await Promise.all(owners.map((owner) => owner.take()))
      let isOver = false
      const work = owners.map(async (owner) => {
        for (let n = 0; !isOver; n++) await owner.append(`${owner.id}:${n}`)
      })
      const total = () => owners.reduce((sum, owner) => sum + owner.seq, 0)
      const progress = async () => {
        for (const goal = total() + 30; total() < goal; ) await new Promise((resolve) => setTimeout(resolve, 5))
      }
      for (let kill = 0; kill < 4; kill++) {
        await progress()
        await server.kill()
        await server.restart()
      }
      await progress()
      isOver = true
      await Promise.all(work)
      for (const owner of owners) expect(await textsOf(stores[0]!, owner.id)).toEqual(owner.acknowledged)
      const items = await readFeed(stores[0]!, () => true)
      expect(items.length).toBe(total())
    } finally {
      await Promise.all(opened.splice(0).map((store) => store.close()))
      await server.stop()
    }
  })

  it('G4: connections cut in the middle lose nothing and double nothing', async () => {
    const store = await openStore('cut')
    const owners = [0, 1, 2].map((n) => new Owner(store, `cut/${n}`))
    await Promise.all(owners.map((owner) => owner.take()))
    let isOver = false
    const work = owners.map(async (owner) => {
      for (let n = 0; !isOver; n++) await owner.append(`${n}`)
    })
    const cut = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
      WHERE application_name = 'reprise' AND pid <> pg_backend_pid() AND query LIKE '%"${schema}".append%'`
    for (let n = 0; n < 10; n++) {
      await pause(25)
      await query(shared, cut)
    }
    isOver = true
    await Promise.all(work)
    for (const owner of owners) expect(await textsOf(store, owner.id)).toEqual(owner.acknowledged)
  })

  it('a server that is gone is STORE_UNREACHABLE, and the store works again when it is back', async (context) => {
    const server = await startPostgres()
    if (!server.isOurs) return context.skip('a given server is not killed')
    try {
      const store = await openStore('gone', server.url, { connectTimeoutMs: 300 })
      const owner = new Owner(store, 'gone/x')
      await owner.take()
      await server.kill()
      await expect(store.head([asTimeline('gone/x')])).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
      await expect(store.commit([owner.plan('x')])).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
      const opening = openPostgres(server.url, { namespace: 'x', hash, connectTimeoutMs: 200 })
      await expect(opening).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
      await server.restart()
      await owner.append('back')
      expect(await textsOf(store, 'gone/x')).toEqual(['back'])
    } finally {
      await Promise.all(opened.splice(0).map((store) => store.close()))
      await server.stop()
    }
  })

  it('a server without fsync is refused unless the URL accepts the loss of commits', async (context) => {
    const server = await startPostgres({ fsync: 'off' })
    if (!server.isOurs) return context.skip('a given server keeps its settings')
    try {
      await expect(openStore('x', server.url)).rejects.toMatchObject({
        code: 'STORE_DURABILITY',
        data: { fsync: 'off' },
      })
      const store = await openStore('x', `${server.url}?durability=relaxed`)
      expect((await store.upkeep.facts()).durability).toMatchObject({ fsync: 'off', synchronous_commit: 'on' })
    } finally {
      await Promise.all(opened.splice(0).map((store) => store.close()))
      await server.stop()
    }
  })
})

describe('the schema', () => {
  it('G16: of a newer version is refused before any write', async () => {
    const newer = newSchemaName()
    try {
      await (await openStore('a', shared, { schema: newer })).close()
      await query(shared, `UPDATE "${newer}".meta SET version = 99`)
      await expect(openStore('b', shared, { schema: newer })).rejects.toMatchObject({
        code: 'INCOMPATIBLE_VERSION',
        data: { found: 99 },
      })
      expect(await query(shared, `SELECT name FROM "${newer}".namespace`)).toEqual([{ name: 'a' }])
    } finally {
      await dropSchema(shared, newer)
    }
  })

  it.each(['', 'A', '1a', 'a-b', 'a"; DROP SCHEMA public; --', 'a'.repeat(42)])('named %j is refused', async (name) => {
    await expect(openStore('a', shared, { schema: name })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })

  it('positions in the feed keep growing when a dump is restored into a younger cluster', async () => {
    const store = await openStore('restored')
    const owners = ['restored/y', 'restored/x'].map((id) => new Owner(store, id))
    for (const owner of owners) {
      await owner.take()
      await owner.append('before')
    }
    // As after a restore: the rows come from transactions that this cluster has not reached.
    const ns = `ns = (SELECT id FROM "${schema}".namespace WHERE name = 'restored')`
    await query(shared, `UPDATE "${schema}".run SET pos = pos + 1000000000 WHERE ${ns}`)
    await query(shared, `UPDATE "${schema}".timeline SET last_pos = last_pos + 1000000000 WHERE ${ns}`)
    await store.close()
    const again = await openStore('restored')
    const end = (await again.feed(feedStart, {}, 100)).next
    const owned = owners.map(({ id, seq, epoch, digest }) =>
      Object.assign(new Owner(again, id), { seq, epoch, digest }),
    )
    const late = new Owner(again, 'restored/z')
    await late.take()
    for (const owner of [...owned, late]) await owner.append('after')
    // Any running transaction on this server delays the feed until it ends.
    const fed: string[] = []
    for (let from = end; fed.length < 3; ) {
      const { items, next } = await again.feed(from, {}, 100)
      fed.push(...items.map(({ timeline }) => timeline))
      from = next
    }
    expect(fed).toEqual(['restored/y', 'restored/x', 'restored/z'])
  })
})
