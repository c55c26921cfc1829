// Heads that are behind: any reader, at any time, sees every timeline as if its head had been written at once.

import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../../../test/support/fixture.ts'
import { equalBytes } from '../../../core/coordinate.ts'
import type { Store } from '../../../core/store/ports.ts'
import { asWorker, expectOk, hash, Kit, message, type Writer } from '../../../testing/conformance/kit.ts'
import { Connection } from '../file/connection.ts'
import { loadDriver } from '../file/driver.ts'
import { openSqlite } from '../index.ts'
import { areHeadsDue, unsettledRowsMax } from './unsettled.ts'

let directory: string
let file: string
let stores: Store[]

beforeEach(() => {
  directory = temporaryFolder('loose')
  file = join(directory, 'store.db')
  stores = []
})
afterEach(async () => {
  for (const store of stores) await store.close()
})

async function openKit(namespace = 'default', readOnly = false): Promise<Kit> {
  const open = async () => {
    const store = await openSqlite(file, { namespace, hash, readOnly })
    stores.push(store)
    return store
  }
  return new Kit(await open(), open, {})
}

async function expectHead(kit: Kit, writer: Writer): Promise<void> {
  const head = await kit.head(writer.id)
  expect({ seq: head.seq, isSame: equalBytes(head.digest, writer.digest) }).toEqual({ seq: writer.seq, isSame: true })
}

async function countRows(sql: string): Promise<number> {
  const connection = new Connection(await loadDriver(), file, true)
  try {
    return Number(connection.get(sql)!.count)
  } finally {
    connection.close()
  }
}

describe('loose rows', () => {
  it('several processes append in any order, in two namespaces, and each sees every head as it is', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ who: fc.nat({ max: 3 }), times: fc.integer({ min: 1, max: unsettledRowsMax + 10 }) }), {
          minLength: 3,
          maxLength: 10,
        }),
        async (steps) => {
          rmSync(file, { force: true })
          for (const end of ['-wal', '-shm', '-ack']) rmSync(file + end, { force: true })
          const kits = [await openKit(), await openKit(), await openKit('other'), await openKit()]
          const writers: Writer[] = []
          for (const [i, kit] of kits.entries()) writers.push(await kit.create(`t${i}`))
          for (const { who, times } of steps) {
            for (let n = 0; n < times; n++) await writers[who]!.append(`entry ${n}`)
            for (const i of [0, 1, 3]) await expectHead(kits[(i + 1) % 2]!, writers[i]!)
            await expectHead(kits[2]!, writers[2]!)
          }
          const late = await openKit()
          for (const i of [0, 1, 3]) await expectHead(late, writers[i]!)
          expect(await late.store.upkeep.inspect()).toEqual([])
          for (const store of stores.splice(0)) await store.close()
        },
      ),
      { numRuns: 6 },
    )
  })

  it('no head is written for an append on its own, all are after some rows, and any other commit settles the log', async () => {
    const kit = await openKit()
    const a = await kit.create('a')
    const heads = () => countRows(`SELECT count(*) AS count FROM reprise_head WHERE hex(state) IN (${known.join()})`)
    const known: string[] = [`'${await stateOf('a')}'`]
    for (let i = 0; i < unsettledRowsMax; i++) await a.append('loose')
    expect(await heads()).toBe(1)
    await a.append('settles')
    expect(await heads()).toBe(0)
    known.push(`'${await stateOf('a')}'`)
    await a.append('loose')
    expect(await heads()).toBe(1)
    await kit.create('b')
    expect(await heads()).toBe(0)
  })

  it('G4: the operation of a loose append is known to the next process: a repetition was applied', async () => {
    const kit = await openKit()
    const a = await kit.create('a')
    await a.append('one')
    const commit = {
      operation: kit.operation(),
      guard: a.guard,
      run: a.run('two'),
    }
    const [first] = await kit.store.commit([commit])
    const other = await openKit()
    const [again] = await other.store.commit([commit])
    expect(expectOk(again)).toEqual({ ...expectOk(first), isDuplicate: true })
    expect((await other.head('a')).operation).toBe(commit.operation)
  })

  it('G3: a takeover continues from loosely appended entries', async () => {
    const kit = await openKit()
    const a = await kit.create('a')
    for (const text of ['one', 'two', 'three']) await a.append(text)
    const thief = a.twin((await openKit()).store)
    expectOk(await thief.take({ worker: asWorker('thief'), from: 'anyone' }))
    await thief.append('four')
    expect((await kit.head('a')).seq).toBe(4)
    const refused = await a.commit({ run: a.run('zombie') })
    expect(refused).toMatchObject({ ok: false, code: 'FENCED' })
  })

  it('G7: a damaged row at the end stops every writer, and owned timelines cannot be read; the rest can', async () => {
    const kit = await openKit()
    const free = await kit.create('free')
    await free.append('one')
    expectOk(await free.commit({ release: true }))
    const owned = await kit.create('owned')
    await owned.append('one')
    for (const store of stores.splice(0)) await store.close()
    const connection = new Connection(await loadDriver(), file, false)
    const last = connection.get('SELECT max(position) AS position, body FROM reprise_log')!
    const body = (last.body as Uint8Array).slice()
    body[body.length - 1]! ^= 1
    connection.run('UPDATE reprise_log SET body = ? WHERE position = ?', body, last.position!)
    connection.close()
    rmSync(`${file}-ack`)
    const after = await openKit()
    expect((await after.head('free')).seq).toBe(1)
    await expect(after.store.head([owned.id])).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
    await expect(after.create('new')).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
    const reading = await openKit('default', true)
    expect((await reading.head('free')).seq).toBe(1)
  })

  it('G7: a row that is missing just above the known end is noticed, and read again after a repair', async () => {
    const kit = await openKit()
    const a = await kit.create('a')
    await a.append('one')
    const other = await openKit()
    await expectHead(other, a)
    for (const text of ['two', 'three']) await a.append(text)
    const connection = new Connection(await loadDriver(), file, false)
    const { position } = connection.get('SELECT max(position) - 1 AS position FROM reprise_log')!
    const { body } = connection.get('SELECT body FROM reprise_log WHERE position = ?', position!)!
    connection.run('DELETE FROM reprise_log WHERE position = ?', position!)
    await expect(other.store.head([a.id])).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
    await expect(other.store.head([a.id])).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
    connection.run('INSERT INTO reprise_log (position, body) VALUES (?, ?)', position!, body!)
    connection.close()
    await expectHead(other, a)
  })

  it('rows that tidy gave back are not missed: the log may start with loose rows', async () => {
    const kit = await openKit()
    const a = await kit.create('a')
    await a.append('one')
    const other = await openKit()
    await expectHead(other, a)
    await kit.store.upkeep.tidy(0)
    expect(await countRows('SELECT min(position) AS count FROM reprise_log')).toBeGreaterThan(1)
    await a.append('two')
    await expectHead(other, a)
    const late = await openKit()
    await expectHead(late, a)
    expect(await late.store.upkeep.inspect()).toEqual([])
    await late.create('b')
  })

  it('G4: an append whose mark cannot be written is durable, and a repetition was applied', async () => {
    const a = await (await openKit()).create('a')
    for (const store of stores.splice(0)) await store.close()
    rmSync(`${file}-ack`)
    mkdirSync(`${file}-ack`)
    const kit = await openKit()
    const again = a.twin(kit.store)
    for (const parts of [{}, { send: [message('b', 'm1')] }]) {
      const commit = again.plan({ ...parts, run: again.run('one') })
      await expect(kit.store.commit([commit])).rejects.toMatchObject({ code: 'STORE_IO' })
      const [outcome] = await kit.store.commit([commit])
      again.accept(commit)
      expect(expectOk(outcome)).toMatchObject({ seq: again.seq, isDuplicate: true })
    }
  })
})

async function stateOf(name: string): Promise<string> {
  const connection = new Connection(await loadDriver(), file, true)
  const sql = `SELECT hex(state) AS state FROM reprise_head JOIN reprise_timeline USING (tid) WHERE name = ?`
  try {
    return String(connection.get(sql, name)!.state)
  } finally {
    connection.close()
  }
}

describe('heads are due', () => {
  const megabyte = 1024 * 1024

  it.each([
    ['after so many rows', unsettledRowsMax, 0, 1],
    ['after 1 MB where few are behind', 1, megabyte, 64],
    ['after 4 KB for each that is behind', 1, 4 * megabyte, 1024],
    ['after 8 MB however many are behind', 1, 8 * megabyte, 100_000],
  ])('%s, and not before', (_, rows, bytes, behind) => {
    expect(areHeadsDue(rows, bytes, behind)).toBe(true)
    const isByRows = rows === unsettledRowsMax
    expect(areHeadsDue(isByRows ? rows - 1 : rows, isByRows ? bytes : bytes - 1, behind)).toBe(false)
  })
})
