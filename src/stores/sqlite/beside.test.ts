// One process works while another removes rows of the log, with the other's statements exactly in between; and rows that an
// older release left in the wrong place are reported.

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../../test/support/fixture.ts'
import type { Store } from '../../core/store/ports.ts'
import { asTimeline, hash, Kit } from '../../testing/conformance/kit.ts'
import { Connection } from './file/connection.ts'
import { type Driver, loadDriver } from './file/driver.ts'
import { openSqlite, type SqliteOptions } from './index.ts'
import { insertAtEnd } from './log/log-end.ts'
import { compactedRow, readFrames } from './log/log-row.ts'

let file: string
let directory: string
let stores: Store[]

beforeEach(() => {
  directory = temporaryFolder('beside')
  file = join(directory, 'store.db')
  stores = []
})
afterEach(async () => {
  for (const store of stores) await store.close()
})

async function openKit(options: Partial<SqliteOptions> = {}): Promise<Kit> {
  const open = async () => {
    const store = await openSqlite(file, { namespace: 'default', hash, ...options })
    stores.push(store)
    return store
  }
  return new Kit(await open(), open, {})
}

describe('a state of the file that was read before', () => {
  it('is trusted only until the next write', async () => {
    const kit = await openKit()
    const writer = await kit.create('one')
    const other = await kit.open()
    const id = asTimeline('one')
    for (let n = 0; n < 12; n++) {
      // Twice: the second time it is answered from the cache.
      for (const _ of [1, 2]) {
        const [head] = await other.head([id])
        const runs = await other.read(id, 0, 1 << 20)
        expect([head!.seq, runs.length]).toEqual([n, n])
        if (n > 0) expect([runs.at(-1)!.digest, head!.digest]).toEqual([writer.digest, writer.digest])
      }
      await writer.append(`entry ${n}`)
    }
  })
})

/** Calls `happens` right before each statement that matches. */
async function interrupted(pattern: RegExp, happens: () => void): Promise<Driver> {
  const driver = await loadDriver()
  const meanwhile = (sql: string) => {
    if (pattern.test(sql)) happens()
  }
  return {
    name: driver.name,
    open(path, options) {
      const database = driver.open(path, options)
      return {
        exec: (sql) => database.exec(sql),
        close: () => database.close(),
        prepare(sql) {
          const statement = database.prepare(sql)
          const after = <Result>(work: () => Result) => {
            meanwhile(sql)
            return work()
          }
          return {
            run: (...values) => after(() => statement.run(...values)),
            get: (...values) => after(() => statement.get(...values)),
            all: (...values) => after(() => statement.all(...values)),
            iterate: (...values) => after(() => statement.iterate(...values)),
            setReadBigInts: (isOn) => statement.setReadBigInts(isOn),
          }
        },
      }
    },
  }
}

async function raw(): Promise<Connection> {
  return new Connection(await loadDriver(), file, false)
}

/** Removes rows as tidy does. */
function giveBack(connection: Connection, to: number): void {
  connection.exec('BEGIN IMMEDIATE')
  connection.run('DELETE FROM reprise_log WHERE position < ?', to)
  connection.run(`INSERT OR REPLACE INTO reprise_meta (key, value) VALUES ('log_start', ?)`, to)
  connection.exec('COMMIT')
}

describe('while another process gives rows back', () => {
  it('G7: a file opens, though the acknowledged row goes in this moment', async () => {
    const kit = await openKit()
    for (const id of ['a', 'b', 'c']) await kit.create(id)
    for (const store of stores.splice(0)) await store.close()
    const other = await raw()
    // Another process, which is slow with its marks, has written one more row.
    other.run(insertAtEnd, 4, new Uint8Array([1, ...markOf(4)]))
    const driver = await interrupted(/^SELECT body FROM reprise_log/, () => giveBack(other, 4))
    expect((await openKit({ driver })).store).toBeDefined()
    other.close()
  })

  it('G7: verify finds no row missing that went between two looks', async () => {
    const kit = await openKit()
    for (let i = 1; i <= 12; i++) await kit.create(`t${i}`)
    const other = await raw()
    let first = 1
    const driver = await interrupted(/^BEGIN$/, () => {
      if (first < 12) giveBack(other, ++first)
    })
    const looking = await openKit({ driver })
    expect(await looking.store.upkeep.inspect()).toEqual([])
    expect(first).toBeGreaterThan(4)
    other.close()
  })

  it('G1: an append whose place was taken and given back finds the end of the log', async () => {
    const kit = await openKit()
    const other = await openKit()
    const connection = await raw()
    const a = await (await openKit()).create('a')
    for (const id of ['b', 'c', 'd']) await other.create(id)
    giveBack(connection, 4)
    connection.close()
    await a.append('one')
    expect((await kit.head('a')).seq).toBe(1)
    expect((await kit.readFeed()).length).toBe(1)
    expect(await kit.store.upkeep.inspect()).toEqual([])
  })
})

describe('rows that are where no row may be', () => {
  it('an older release left one before the start of the log: verify reports it, and tidy does not remove it', async () => {
    const kit = await openKit()
    const a = await kit.create('a')
    for (const id of ['b', 'c', 'd']) await kit.create(id)
    await kit.store.upkeep.tidy(0)
    const connection = await raw()
    connection.run('INSERT INTO reprise_log (position, body) VALUES (2, ?)', new Uint8Array([1, ...markOf(2)]))
    const told = [{ where: 'log row 2', what: expect.stringMatching(/before the start of the log.* there$/) }]
    expect(await kit.store.upkeep.inspect()).toEqual(told)
    await a.append('goes on')
    for (const id of ['e', 'f']) await kit.create(id)
    await kit.store.upkeep.tidy(0)
    expect(await kit.store.upkeep.inspect()).toEqual(told)
    const late = await openKit()
    expect((await late.head('a')).seq).toBe(1)
    connection.close()
  })

  it('entries in such a row are reported', async () => {
    const kit = await openKit()
    const a = await kit.create('a')
    await a.append('one')
    for (const id of ['b', 'c', 'd']) await kit.create(id)
    const connection = await raw()
    const rows = connection.all('SELECT position, body FROM reprise_log ORDER BY position')
    const frames = rows.flatMap(({ position, body }) => [...readFrames(position as number, body as Uint8Array)])
    connection.run(`INSERT OR REPLACE INTO reprise_meta (key, value) VALUES ('log_start', 2)`)
    connection.run('UPDATE reprise_log SET body = ? WHERE position = 1', compactedRow(1, frames.slice(0, 1)))
    const found = (await kit.store.upkeep.inspect()).filter(({ where }) => where === 'log row 1')
    expect(found).toEqual([{ where: 'log row 1', what: expect.stringMatching(/wrote it there, with .*a@1$/) }])
    connection.close()
  })

  it('G7: a log whose end is gone is damaged: it never starts again from below', async () => {
    const kit = await openKit()
    const a = await kit.create('a')
    for (const id of ['b', 'c', 'd']) await kit.create(id)
    await kit.store.upkeep.tidy(0)
    for (const store of stores.splice(0)) await store.close()
    const connection = await raw()
    connection.exec('DELETE FROM reprise_log')
    connection.close()
    rmSync(`${file}-ack`)
    const after = await openKit()
    await expect(a.twin(after.store).commit({ run: a.run('lost') })).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
    await expect(after.create('e')).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  })

  it('the statement takes the next position and no other, and no tables but its own', async () => {
    const kit = await openKit()
    await kit.create('a')
    const connection = await raw()
    const place = (position: number) => connection.run(insertAtEnd, position, new Uint8Array([1, ...markOf(position)]))
    for (const position of [-1, 0, 1, 3, 4, 2 ** 40]) expect(() => place(position)).toThrow('datatype mismatch')
    expect(place(2)).toBe(1)
    connection.exec(`UPDATE reprise_meta SET value = 99 WHERE key IN ('schema_version', 'schema_copy')`)
    expect(() => place(3)).toThrow('datatype mismatch')
    connection.close()
  })
})

/** The mark of an empty row: log-row.ts. */
function markOf(position: number): number[] {
  const mark = Math.imul((position % 2 ** 32) ^ 1, 0x9e3779b1) ^ Math.floor(position / 2 ** 32)
  return [0, 1, 2, 3].map((i) => (mark >>> (8 * i)) & 0xff)
}
