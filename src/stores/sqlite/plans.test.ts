// The query plans of all statements of the SQLite store, with statistics and without: none scans a whole table. ANALYZE (which
// user SQL may run) creates statistics, and plans change with them.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { feedStart, type Store } from '../../core/store/ports.ts'
import {
  asManifest,
  asTimeline,
  asWorker,
  hash,
  Kit,
  message,
  utf8,
  type Writer,
  worker,
} from '../../testing/conformance/kit.ts'
import { Connection } from './file/connection.ts'
import { type Database, loadDriver } from './file/driver.ts'
import { openSqlite } from './index.ts'

/** Tables that stay small: namespaces, cursors, workers, and sweep notes. */
const small = /^SCAN (?:CONSTANT|sqlite_schema|reprise_(?:space|cursor|worker|meta)|s\b|json_each|q\b)/

let folder: string
let raw: Database
const texts = new Set<string>()

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'reprise-plans-'))
  const driver = await loadDriver()
  const file = join(folder, 'test.db')
  const prepare = Connection.prototype.prepare
  const spy = vi.spyOn(Connection.prototype, 'prepare').mockImplementation(function (this: Connection, sql: string) {
    texts.add(sql)
    return prepare.call(this, sql)
  })
  const open = () => openSqlite(file, { namespace: 'a', hash })
  const store = await open()
  const kit = new Kit(store, open, { sql: true })
  try {
    await work(kit, store)
  } finally {
    spy.mockRestore()
    await store.close()
  }
  raw = driver.open(file, { isReadOnly: false })
})

afterAll(() => {
  raw?.close()
  rmSync(folder, { recursive: true, force: true })
})

/** The regular work of a store; inspect and facts scan everything on purpose and are excluded. */
async function work(kit: Kit, store: Store): Promise<void> {
  const writers: Writer[] = []
  for (let i = 0; i < 300; i++) writers.push(await kit.create(`many/${i}`, { worker: i % 3 === 0 ? 'w1' : 'w2' }))
  for (let round = 0; round < 3; round++) {
    const commits = writers.map((writer) => writer.plan({ run: writer.run(`${round}`) }))
    await store.commit(commits)
    for (const [i, writer] of writers.entries()) writer.accept(commits[i]!)
  }
  const [a, b] = [writers[0]!, writers[1]!]
  for (const [i, writer] of writers.entries()) {
    await writer.commit({ queue: i % 2 ? 'q' : 'p', wakeup: i % 5 ? 4e12 : 1, attributes: { n: i }, status: 'open' })
    if (i % 10 === 0) await writer.publish(`c${i}`, { verifiedAt: 1 })
  }
  for (let i = 0; i < 40; i++) await kit.send('many/0', `m${i}`)
  await a.commit({ consume: (await store.inbox(a.id, 5)).messages.map(({ id }) => id) })
  await a.commit({ cursors: { reader: feedStart }, send: [message('many/7', 'x')] })
  await a.commit({ cursors: { reader: (await store.feed(feedStart, {}, 5)).next } })
  await b.commit({ marks: [{ id: asManifest('c10'), label: 'x' }], release: true })
  const floor = { seq: 0, digest: b.digest }
  await b.commit({ branch: { archive: asTimeline('many/1~1'), seq: 1, digest: b.digest, floor } })
  const c = writers[10]!
  await c.commit({ trim: { seq: 1, digest: c.digest, restsOn: [asManifest('c10')] } })
  await c.commit({ drop: [asManifest('c10')] })
  await writers[20]!.commit({ drop: [asManifest('c20')] })
  await writers[299]!.commit({ forget: true })
  await store.beat(worker('w9'))
  for (const prefixes of [undefined, ['many/2'], ['none']])
    await store.feed(feedStart, prefixes ? { prefixes } : {}, 50)
  await store.read(a.id, 0, 1e6)
  await store.head([a.id, asTimeline('nobody')])
  for (const query of [
    {},
    { prefix: 'many/2' },
    { prefix: 'many/' },
    { prefix: 'none' },
    { after: a.id },
    { owner: asWorker('w1') },
    { owner: asWorker('w1'), queue: 'q' },
    { parent: asTimeline('many/1~1') },
    { attributes: { n: 7 } },
  ]) {
    await store.timelines({ ...query, limit: 10 })
  }
  await store.claim({ worker: asWorker('w9'), queues: ['q', 'p'], limit: 5 })
  await store.nextDue({ queues: ['q', 'p'] })
  await store.checkpoints(a.id)
  await store.cursors()
  await store.workers()
  await store.retire([asWorker('w1')])
  await store.blobs.put([{ digest: hash(utf8('x')), bytes: utf8('x') }])
  await store.blobs.get([hash(utf8('x'))])
  await store.blobs.list(null, 10)
  await store.blobs.delete([hash(utf8('x'))], 1)
  await store.upkeep.tidy(1)
}

function scans(text: string): string[] {
  const rows = raw.prepare(`EXPLAIN QUERY PLAN ${text}`).all()
  return rows
    .map(({ detail }) => String(detail))
    .filter((detail) => /^SCAN \w+(?! (?:USING|VIRTUAL))/.test(detail) && !small.test(detail))
}

describe('no statement of a SQLite store goes through a whole table', () => {
  const check = () => {
    const ours = [...texts].filter(
      (text) => /reprise_/.test(text) && /^\s*(SELECT|UPDATE|DELETE|INSERT|WITH)/i.test(text),
    )
    expect(ours.length).toBeGreaterThan(40)
    const found = ours.flatMap((text) => scans(text).map((detail) => `${detail}: ${text}`))
    expect(found).toEqual([])
  }

  it('without statistics', check)

  it('with the statistics of the existing rows', () => {
    raw.exec('ANALYZE')
    check()
  })

  it('with those of other files: large tables with few different values, and small ones', () => {
    for (const stat of ['1000000 500000 250000', '1000000 1 1', '10 10 10']) {
      raw.exec(`UPDATE sqlite_stat1 SET stat = '${stat}' WHERE idx IS NOT NULL`)
      raw.exec('ANALYZE sqlite_schema')
      check()
    }
  })

  it('with those of a store that was empty, once it was opened again', async () => {
    raw.exec("UPDATE sqlite_stat1 SET stat = '1 1 1'")
    const store = await openSqlite(join(folder, 'test.db'), { namespace: 'a', hash })
    await store.close()
    raw.close()
    raw = (await loadDriver()).open(join(folder, 'test.db'), { isReadOnly: false })
    check()
  })
})
