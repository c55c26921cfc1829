// The file itself: several processes, a full disk, a read-only file, versions, freed space.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../../test/support/fixture.ts'
import { feedStart, type Store } from '../../core/store/ports.ts'
import { runtime } from '../../lib/runtime/index.ts'
import { hasSqlite } from '../../lib/runtime/node.ts'
import {
  asManifest,
  asOperation,
  asTimeline,
  asWorker,
  expectOk,
  hash,
  Kit,
  utf8,
} from '../../testing/conformance/kit.ts'
import { Connection } from './file/connection.ts'
import { loadDriver } from './file/driver.ts'
import { toStoreError } from './file/failure.ts'
import { openFile } from './file/open.ts'
import { openSqlite, type SqliteOptions } from './index.ts'
import { Writer } from './writing/writer.ts'

let directory: string
let file: string
let stores: Store[]

beforeEach(() => {
  directory = temporaryFolder('file')
  file = join(directory, 'inside', 'store.db')
  stores = []
})
afterEach(async () => {
  for (const store of stores) await store.close()
})

async function open(options: Partial<SqliteOptions> = {}): Promise<Store> {
  const store = await openSqlite(file, { namespace: 'default', hash, ...options })
  stores.push(store)
  return store
}

async function openKit(options: Partial<SqliteOptions> = {}): Promise<Kit> {
  return new Kit(await open(options), () => open(options), {})
}

async function connect(): Promise<Connection> {
  mkdirSync(dirname(file), { recursive: true })
  return new Connection(await loadDriver(), file, false)
}

describe('several processes on one file', () => {
  it('may make it in the same moment', async () => {
    const kits = await Promise.all(Array.from({ length: 6 }, () => openKit()))
    await Promise.all(kits.map(async (kit, i) => (await kit.create(`t${i}`)).append('here')))
    expect((await kits[0]!.store.timelines({ limit: 10 })).map((head) => head.seq)).toEqual(Array(6).fill(1))
  })

  it('G1: write at once, lose nothing and leave no gap in the feed', async () => {
    const kits = await Promise.all(Array.from({ length: 4 }, () => openKit()))
    await Promise.all(
      kits.map(async (kit, i) => {
        const writer = await kit.create(`t${i}`)
        for (let n = 0; n < 25; n++) {
          // The user's SQL holds the write lock across a wait: other writers queue for it.
          const userSql = n % 5 === 0 ? { userSql: () => new Promise((resolve) => setTimeout(resolve, 3)) } : {}
          expectOk(await writer.commit({ run: writer.run(`entry ${n}`), ...userSql }))
        }
      }),
    )
    const items = await kits[0]!.readFeed()
    expect(items.length).toBe(100)
    expect(new Set(items.map((item) => item.position)).size).toBe(100)
    expect(await kits[1]!.store.upkeep.inspect()).toEqual([])
  })

  it('G3: the caches of a process are dropped when another has written', async () => {
    const kit = await openKit()
    const a = await kit.create('a')
    await a.append('one')
    const thief = a.twin(await open())
    expectOk(await thief.take({ worker: asWorker('thief'), from: 'anyone' }))
    const refused = await a.commit({ run: a.run('zombie') })
    expect(refused).toMatchObject({ ok: false, code: 'FENCED', head: { owner: 'thief', epoch: 2 } })
  })

  it('STORE_BUSY after the timeout, and it continues once the lock is free', async () => {
    const kit = await openKit({ busyMs: 60 })
    const a = await kit.create('a')
    const holder = await connect()
    holder.exec('BEGIN IMMEDIATE')
    const run = a.run('one')
    await expect(a.commit({ run })).rejects.toMatchObject({ code: 'STORE_BUSY' })
    expect((await kit.head('a')).seq).toBe(0)
    holder.exec('ROLLBACK')
    holder.close()
    expectOk(await a.commit({ run }))
  })

  it('listeners are notified of writes of another process', async () => {
    const listening = await open()
    const heard = new Promise<void>((resolve) => listening.listen(() => resolve()))
    await (await openKit()).create('a')
    await heard
  })
})

describe('a folder that cannot be made', () => {
  it('ends with an error, where nothing can be made', async () => {
    await expect(openSqlite('/dev/null/inside/store.db', { namespace: 'default', hash })).rejects.toThrow()
  })

  it('folders above it are made, however many', async () => {
    file = join(directory, 'a', 'b', 'c', 'store.db')
    await (await openKit()).create('t')
    expect(existsSync(file)).toBe(true)
  })
})

describe('a disk that is full', () => {
  it('STORE_FULL refuses the batch, nothing of it is kept, and writing resumes by itself', async () => {
    const { connection, writer, close } = await openWriter()
    const kit = await openKit()
    const a = await kit.create('a')
    const commit = (text: string) => ({
      operation: kit.operation(),
      guard: a.guard,
      run: a.run(text),
    })
    const pages = Number(connection.get('PRAGMA page_count')!.page_count)
    connection.exec(`PRAGMA max_page_count = ${pages + 2}`)
    const large = commit('x'.repeat(100_000))
    for (let attempt = 0; attempt < 2; attempt++) {
      await expect(writer.commit([large])).rejects.toMatchObject({ code: 'STORE_FULL' })
      expect((await kit.head('a')).seq).toBe(0)
    }
    expectOk((await writer.commit([{ ...commit('small'), run: a.run('small') }]))[0])
    connection.exec('PRAGMA max_page_count = 1000000')
    a.seq = 1
    a.digest = (await kit.head('a')).digest
    expectOk((await writer.commit([commit('x'.repeat(100_000))]))[0])
    expect((await kit.store.read(a.id, 0, 1)).length).toBe(1)
    expect(await kit.store.upkeep.inspect()).toEqual([])
    close()
  })

  /** The writing side alone, so that the test can reach its connection. */
  async function openWriter() {
    const options = { namespace: 'default', hash, isReadOnly: false, busyMs: 1000 }
    const { writer: opened } = await openFile(await loadDriver(), file, options)
    const writer = new Writer({ ...opened!, hash, file, busyMs: 1000, clock: Date.now, onChange: () => {} })
    const close = () => {
      opened!.connection.close()
      opened!.ack.close()
    }
    return { connection: opened!.connection, writer, close }
  }

  it.each([
    ['ENOSPC', 'STORE_FULL'],
    ['EROFS', 'STORE_READ_ONLY'],
    ['EIO', 'STORE_IO'],
  ])('%s of a file beside the database is %s', (code, expected) => {
    expect(toStoreError(Object.assign(new Error('no'), { code }), 'commit', file)).toMatchObject({ code: expected })
  })
})

describe('a store opened to read only', () => {
  it('reads everything, refuses every write, and leaves the files alone', async () => {
    const kit = await openKit()
    const a = await kit.create('a')
    await a.append('one')
    const reading = await open({ readOnly: true })
    expect((await reading.upkeep.facts()).isReadOnly).toBe(true)
    expect((await reading.read(a.id, 0, 1000)).length).toBe(1)
    for (const write of [
      () => reading.commit([]),
      () => reading.retire([]),
      () => reading.upkeep.tidy(0),
      () => reading.blobs.put([{ digest: hash(utf8('x')), bytes: utf8('x') }]),
    ]) {
      await expect(write()).rejects.toMatchObject({ code: 'STORE_READ_ONLY' })
    }
  })

  it('is NOT_FOUND where there is no store', async () => {
    await expect(open({ readOnly: true })).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(existsSync(file)).toBe(false)
  })
})

describe('the version of the schema', () => {
  it('G16: a newer one is refused before any write', async () => {
    await (await open()).close()
    const connection = await connect()
    connection.exec(`UPDATE reprise_meta SET value = 99 WHERE key IN ('schema_version', 'schema_copy')`)
    connection.checkpoint()
    connection.close()
    const before = readFileSync(file)
    await expect(open()).rejects.toMatchObject({ code: 'INCOMPATIBLE_VERSION', data: { version: 99 } })
    await expect(open({ readOnly: true })).rejects.toMatchObject({ code: 'INCOMPATIBLE_VERSION' })
    expect(readFileSync(file).equals(before)).toBe(true)
  })

  it('a database with tables of the user only is taken in, and they stay', async () => {
    const connection = await connect()
    connection.exec('CREATE TABLE ledger (id TEXT); INSERT INTO ledger VALUES (1)')
    connection.close()
    const kit = await openKit()
    const a = await kit.create('a')
    const sqlResult = await a.commit({ userSql: async (sql) => (await sql.all('SELECT id FROM ledger')).length })
    expect(sqlResult).toMatchObject({ ok: true, sqlResult: 1 })
  })

  it('a file that is no database is STORE_DAMAGED and stays as it is', async () => {
    mkdirSync(dirname(file))
    writeFileSync(file, 'this is not a database, it is a text that somebody needs'.repeat(100))
    const before = readFileSync(file)
    await expect(open()).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
    expect(readFileSync(file).equals(before)).toBe(true)
  })
})

describe('settings and facts', () => {
  it('G1: durability is read back from the connection', async () => {
    const store = await open()
    expect((await store.upkeep.facts()).durability).toEqual({ journal_mode: 'wal', synchronous: 'full' })
  })

  it('a database that is not in WAL mode is STORE_DURABILITY', async () => {
    const connection = await connect()
    expect(() => connection.requireDurability()).toThrow(/STORE_DURABILITY/)
    connection.close()
  })

  it('E1: a runtime without files is refused with a code and its name', async () => {
    const refused = loadDriver({ ...runtime, name: 'workerd', files: null })
    await expect(refused).rejects.toMatchObject({ code: 'STORE_UNSUPPORTED', data: { runtime: 'workerd' } })
  })

  it('the driver that is part of Node is used from 22.13 on', () => {
    expect(['20.19.0', '22.12.0', '22.13.0', '24.1.0'].map(hasSqlite)).toEqual([false, false, true, true])
  })
})

describe('riders', () => {
  it.each([
    'BEGIN',
    ' commit',
    '-- x\nROLLBACK',
    '/* x */ pragma synchronous=off',
    ';attach ":memory:" as x',
    'DELETE FROM reprise_log',
  ])('may not say %j', async (text) => {
    const kit = await openKit()
    const a = await kit.create('a')
    const refused = await a.commit({ run: a.run('one'), userSql: (sql) => sql.run(text) })
    expect(refused).toMatchObject({ ok: false, code: 'RIDER_FAILED', cause: { code: 'SQL_REFUSED' } })
    expect((await kit.head('a')).seq).toBe(0)
  })
})

describe('space', () => {
  it('A8.4: trimmed history is freed, runs that share a row stay, and nothing looks damaged', async () => {
    const kit = await openKit()
    const a = await kit.create('a')
    const b = await kit.create('b')
    for (let n = 0; n < 60; n++) {
      const commits = [a, b].map((writer) => ({
        operation: asOperation(`${writer.id}-${n}`),
        guard: writer.guard,
        run: writer.run(`${'x'.repeat(5000)} ${n}`),
      }))
      for (const outcome of await kit.store.commit(commits)) expectOk(outcome)
      for (const [i, writer] of [a, b].entries()) {
        writer.seq += 1
        writer.digest = commits[i]!.run.digest
      }
    }
    const before = (await kit.store.upkeep.facts()).sizeBytes!
    await trimToHead(kit, a)
    expect((await kit.readFeed()).length).toBe(60)
    await trimToHead(kit, b)
    await kit.store.upkeep.tidy(0)
    await kit.store.upkeep.tidy(0)
    await kit.store.close()
    const store = await open()
    expect((await store.upkeep.facts()).sizeBytes).toBeLessThan(before / 2)
    expect(await store.upkeep.inspect()).toEqual([])
    expect((await store.feed(feedStart, {}, 100)).items).toEqual([])
    const later = b.twin(store)
    expectOk(await later.commit({ run: later.run('after') }))
    expect((await store.read(b.id, 0, 1000)).map((run) => run.first)).toEqual([61])
    expect((await store.feed(feedStart, {}, 100)).items.length).toBe(1)
  })

  async function trimToHead(kit: Kit, writer: Awaited<ReturnType<Kit['create']>>): Promise<void> {
    const id = asManifest(`checkpoint of ${writer.id}`)
    const body = utf8('state')
    const record = {
      id,
      seq: writer.seq,
      epoch: writer.epoch,
      digest: writer.digest,
      body,
      bodyDigest: hash(body),
      baseId: null,
      createdAt: 1,
      trigger: 'test',
      label: null,
      isPinned: false,
      foldVersion: '1',
      totalBytes: 5,
      addedBytes: 5,
      verifiedAt: 1,
      invalid: null,
      drilledAt: null,
      drill: null,
    }
    expectOk(await writer.commit({ publish: [record] }))
    expectOk(await writer.commit({ trim: { seq: writer.seq, digest: writer.digest, restsOn: [id] } }))
    expect((await kit.store.read(asTimeline(writer.id), 0, 1000)).length).toBe(0)
  }
})

describe('errors of SQLite about a damaged file', () => {
  it.each([
    [{ errcode: 2067, message: 'UNIQUE constraint failed: reprise_space.name' }],
    [{ errcode: 1, message: 'no such table: reprise_log' }],
    [{ message: 'database disk image is malformed' }],
    [{ message: 'Value is too large to be represented as a JavaScript number: 9007199254740993' }],
  ])('G7: %j is STORE_DAMAGED', ({ message, ...rest }) => {
    const error = Object.assign(new Error(message), rest)
    expect(toStoreError(error, 'read', file)).toMatchObject({ code: 'STORE_DAMAGED' })
  })

  it('other errors pass unchanged', () => {
    const error = new Error('of the program')
    expect(toStoreError(error, 'read', file)).toBe(error)
  })
})
