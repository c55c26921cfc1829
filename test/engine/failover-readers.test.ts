// Readers of the feed that store results: after a failover to an older copy, no result of lost entries may stay, no entry of
// the copy may be missing, and no reader may report that it has caught up before that.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { open, type Reprise } from '../../src/index.ts'
import {
  aggregate,
  commandTo,
  partitionedProjection,
  processManager,
  projection,
  sqlProjection,
  tableProjection,
} from '../../src/layers/events/index.ts'
import { consumer } from '../../src/layers/job/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { added, counter } from '../support/definitions.ts'
import { hostOf } from '../support/host.ts'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'

interface Ids {
  readonly ids: readonly string[]
}

const withId = (state: Ids, { id }: { id: string }): Ids => ({ ids: [...state.ids, id] })
const account = aggregate('account', {
  initial: (): Ids => ({ ids: [] }),
  evolve: { added: withId },
  decide: { add: (_: Ids, { id }: { id: string }) => ({ type: 'added' as const, id }) },
})
const echo = aggregate('echo', {
  initial: (): Ids => ({ ids: [] }),
  evolve: { heard: withId },
  decide: { hear: (_: Ids, { id }: { id: string }) => ({ type: 'heard' as const, id }) },
})
const from = [account] as const

describe('readers of the feed after a failover of PostgreSQL to an older copy', () => {
  let server: TestPostgres
  const engines: Reprise[] = []
  beforeAll(async () => {
    server = await startPostgres()
  })
  afterAll(async () => {
    await Promise.allSettled(engines.splice(0).map((engine) => engine.close()))
    await server.stop()
  })

  async function engine(namespace: string): Promise<Reprise> {
    const opened = await open(server.url, { namespace, lease: 60_000 })
    engines.push(opened)
    return opened
  }

  async function write(namespace: string, prefix: string, count: number): Promise<string[]> {
    const rp = await open(server.url, { namespace })
    const handle = await rp.open(account, 'x', { takeover: true })
    const ids = Array.from({ length: count }, (_, i) => `${prefix}${i}`)
    await Promise.all(ids.map((id) => handle.do('add', { id })))
    await rp.close()
    return ids
  }

  const listed = { initial: (): Ids => ({ ids: [] }), on: { added: withId } }
  /** Not written before the query: only the memory of the process has it. */
  const checkpoint = { each: '1h' } as const

  it('G12: projections in memory drop lost entries, read the existing ones, and only then have caught up', async () => {
    const ns = 'memory'
    const before = await write(ns, 'p', 1)
    const failover = await server.copy()
    await write(ns, 'a', 40)
    const rp = await engine(ns)
    const problems: unknown[] = []
    rp.events.on('problem', ({ error }) => problems.push(error))
    const whole = await rp.open(projection('whole', { from, ...listed, checkpoint }))
    const parts = await rp.open(partitionedProjection('parts', { from, ...listed, checkpoint, partitions: 2 }))
    expect((await whole.catchUp()).ids).toHaveLength(41)
    await parts.catchUp()
    await failover()
    const after = await write(ns, 'b', 3)
    expect((await whole.catchUp()).ids).toEqual([...before, ...after])
    expect([...(await parts.catchUp()).values()].flatMap(({ ids }) => ids)).toEqual([...before, ...after])
    expect(problems).toContainEqual(expect.objectContaining({ code: 'POSITION_GONE' }))
    expect(whole.status()).toMatchObject([{ isCaughtUp: true, error: null }])
    // The feed grows past its former end: lost entries are not below the new ones.
    const more = await write(ns, 'c', 60)
    expect((await whole.catchUp()).ids).toEqual([...before, ...after, ...more])
    await whole.checkpoint()
    const fresh = await (await engine(ns)).open(projection('whole', { from, ...listed, checkpoint }))
    expect((await fresh.catchUp()).ids).toEqual([...before, ...after, ...more])
  })

  it('G12: a feed that has grown past the position again is recognised by the last read entries', async () => {
    const ns = 'grown'
    const before = await write(ns, 'p', 1)
    const failover = await server.copy()
    await write(ns, 'a', 3)
    const rp = await engine(ns)
    const whole = await rp.open(projection('whole', { from, ...listed, checkpoint }))
    await whole.catchUp()
    await failover()
    const after = await write(ns, 'b', 40)
    expect((await whole.catchUp()).ids).toEqual([...before, ...after])
    await expect(whole.checkpoint()).resolves.toBeUndefined()
  })

  it('G12: results of lost entries are not written into the copy, neither by a checkpoint nor at the end', async () => {
    const ns = 'closing'
    const before = await write(ns, 'p', 1)
    const definition = projection('whole', { from, ...listed, checkpoint })
    const first = await open(server.url, { namespace: ns })
    await (await first.open(definition)).catchUp()
    await first.close()
    const failover = await server.copy()
    await write(ns, 'a', 5)
    const rp = await open(server.url, { namespace: ns })
    const whole = await rp.open(definition)
    expect((await whole.catchUp()).ids).toHaveLength(6)
    await failover()
    await Promise.allSettled([whole.checkpoint(), rp.close()])
    const after = await write(ns, 'b', 30)
    const fresh = await (await engine(ns)).open(definition)
    expect((await fresh.catchUp()).ids).toEqual([...before, ...after])
  })

  it('G12: so do projections into tables and SQL, process managers, consumers and replicas', async () => {
    const ns = 'stored'
    const before = await write(ns, 'p', 1)
    const rows = table<{ readonly id: string }>('rows')
    const into = tableProjection('into', {
      from,
      into: rows,
      on: { added: (tx, { id }) => tx.set(id, { id }) },
    })
    const sql = sqlProjection('sql', {
      from,
      setup: (db) => db.run('CREATE TABLE projected (id text)'),
      on: { added: (db, { id }) => db.run('INSERT INTO projected VALUES ($1)', id) },
    })
    const manager = processManager('copier', { from, on: { added: ({ id }) => commandTo(echo, 'e', 'hear', { id }) } })
    const seen: string[] = []
    const reader = consumer('reader', {
      from,
      each: async ({ data }) => void seen.push(/[abp]\d+/.exec(JSON.stringify(data))![0]),
    })
    const first = await open(server.url, { namespace: ns })
    await (await first.open(counter, 'followed')).append(added(1))
    await (await first.open(sql)).catchUp()
    await first.close()
    const failover = await server.copy()
    await write(ns, 'a', 20)
    const rp = await engine(ns)
    const sqls = await rp.open(sql)
    const tables = await rp.open(into)
    const copier = await rp.open(manager)
    const consuming = await rp.run(reader)
    const other = await open(server.url, { namespace: ns })
    await (await other.open(counter, 'followed')).append(added(10))
    await other.close()
    const replica = await rp.follow(counter, 'followed')
    for (const each of [sqls, tables, copier]) await each.catchUp()
    await expect.poll(() => seen.length).toBe(21)
    expect(replica.state.total).toBe(11)
    await failover()
    const again = await engine(ns)
    await (await again.open(counter, 'followed')).append(added(100))
    const after = await write(ns, 'b', 3)
    const expected = [...before, ...after]
    await tables.catchUp()
    const keys = [...(await rp.open(rows)).keys()]
    expect(keys.sort()).toEqual([...expected].sort())
    await sqls.catchUp()
    const probe = await hostOf(rp).openTimeline(timelineId('probe'), {
      version: '1',
      initial: () => null,
      apply: () => null,
    })
    const { sqlResult } = await probe.write([], { userSql: (db) => db.all('SELECT id FROM projected') })
    expect((sqlResult as { id: string }[]).map(({ id }) => id)).toEqual(expected)
    await copier.catchUp()
    again.work([echo])
    const heard = await again.open(echo, 'e')
    await expect.poll(async () => (await heard.refresh()).ids).toEqual(expect.arrayContaining([...after]))
    await expect.poll(() => seen).toEqual(expect.arrayContaining([...after]))
    await replica.refresh()
    expect(replica.state.total).toBe(101)
    await consuming.stop()
  })

  it('G12: a projection whose own rows went back catches up again, though the feed lost nothing', async () => {
    const ns = 'rows'
    const ids = await write(ns, 'p', 5)
    const sql = sqlProjection('own', {
      from,
      setup: (db) => db.run('CREATE TABLE own (id text)'),
      on: { added: (db, { id }) => db.run('INSERT INTO own VALUES ($1)', id) },
    })
    const failover = await server.copy()
    const rp = await engine(ns)
    const handle = await rp.open(sql)
    await handle.catchUp()
    await failover()
    await handle.catchUp()
    const probe = await hostOf(rp).openTimeline(timelineId('probe'), {
      version: '1',
      initial: () => null,
      apply: () => null,
    })
    const { sqlResult } = await probe.write([], { userSql: (db) => db.all('SELECT id FROM own') })
    expect((sqlResult as { id: string }[]).map(({ id }) => id)).toEqual(ids)
  })
})
