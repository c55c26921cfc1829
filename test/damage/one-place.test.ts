// G7, G8: under default settings, one damaged place loses nothing. Every 4 KB page of checkpoint data in a SQLite file, every
// chunk in a directory and every row of PostgreSQL is damaged in turn; the history behind the checkpoints is trimmed. All
// values are read again, equal. A part of the places in every run, another one for each REPRISE_SEED; each place in each way:
// REPRISE_PLACES=all npx vitest run test/damage/one-place.test.ts

import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { toHex } from '../../src/core/coordinate.ts'
import type { ManifestRecord, Store } from '../../src/core/store/ports.ts'
import { createEngine, open } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'
import { pageBytes, pagesOf } from '../support/sqlite-pages.ts'
import { differences, fill, tell } from './one-place-world.ts'
import { copyFolder, filesIn } from './world.ts'

const isFull = process.env.REPRISE_PLACES === 'all'
const hours = 24 * 3_600_000
const quiet = { housekeeping: false } as const

type Way = readonly [string, (bytes: Uint8Array) => void]
const ways: readonly Way[] = [
  [
    'a flipped bit',
    (bytes) => {
      bytes[Math.floor(bytes.length / 2)]! ^= 4
    },
  ],
  ['zeros', (bytes) => bytes.fill(0)],
  [
    'noise',
    (bytes) => {
      for (let i = 0; i < bytes.length; i++) bytes[i] = (i * 197 + (i >> 3) * 31 + 7) & 255
    },
  ],
]

const seed = Number(process.env.REPRISE_SEED ?? 1)

/** All of them, or about this many. */
function some<T>(all: readonly T[], about: number): readonly T[] {
  const step = Math.max(1, Math.floor(all.length / about))
  return isFull ? all : all.filter((_, i) => i % step === seed % step)
}

/** All of them, or the next one in turn. */
function waysOf(place: number): readonly Way[] {
  return isFull ? ways : [ways[place % ways.length]!]
}

async function toldBy(url: string, options: object): Promise<Record<string, string>> {
  const rp = await open(url, { ...quiet, ...options })
  try {
    return await tell(rp)
  } finally {
    await rp.close()
  }
}

describe('one damaged place in files', () => {
  const folder = newFolder(true)
  const [whole, damaged] = [join(folder, 'whole'), join(folder, 'damaged')]
  const places = (root: string) => ({
    inside: [`sqlite:${join(root, 'inside', 'app.db')}`, {}] as const,
    apart: [`sqlite:${join(root, 'apart', 'app.db')}`, { blobs: `file:${join(root, 'apart', 'chunks')}` }] as const,
  })
  const truths: Record<string, Record<string, string>> = {}

  beforeAll(async () => {
    for (const [name, [url, options]] of Object.entries(places(whole))) {
      const rp = await open(url, { ...quiet, ...options })
      await fill(rp)
      truths[name] = await tell(rp)
      await rp.close()
      expect(Object.values(truths[name]!).every((told) => /^[[{]/.test(told))).toBe(true)
    }
  }, hours)
  afterAll(() => removeFolder(folder))

  it('G7 G8: any page of a SQLite file that holds chunks or the catalog: everything is read again', {
    timeout: hours,
  }, async () => {
    const file = join(damaged, 'inside', 'app.db')
    const source = join(whole, 'inside', 'app.db')
    const pages = [...(await pagesOf(source))].filter(([, of]) => /reprise_(chunk|manifest)/.test(of))
    const lost: string[] = []
    for (const [at, [page, of]] of some(pages, 8).entries()) {
      for (const [name, damage] of waysOf(at)) {
        copyFolder(dirname(source), dirname(file))
        const bytes = readFileSync(file)
        damage(bytes.subarray((page - 1) * pageBytes, page * pageBytes))
        writeFileSync(file, bytes)
        const told = await toldBy(...places(damaged).inside)
        lost.push(...differences(truths.inside!, told, `${name} in page ${page} of ${of}`))
      }
    }
    console.log(`${some(pages, 8).length} of ${pages.length} pages damaged, ${lost.length} answers lost`)
    expect(pages.length).toBeGreaterThan(100)
    expect(lost).toEqual([])
  })

  it('G7 G8: any chunk in a directory, damaged or missing: everything is read again', { timeout: hours }, async () => {
    const root = join(whole, 'apart', 'chunks')
    const files = filesIn(root).filter((path) => /[0-9a-f]{64}$/.test(path))
    const lost: string[] = []
    copyFolder(join(whole, 'apart'), join(damaged, 'apart'))
    for (const [at, path] of some(files, 6).entries()) {
      const file = join(damaged, 'apart', 'chunks', path)
      const gone: Way = ['missing', () => rmSync(file)]
      for (const [name, damage] of isFull ? [...ways, gone] : [[...ways, gone][at % 4]!]) {
        const bytes = readFileSync(join(root, path))
        damage(bytes)
        if (name !== 'missing') writeFileSync(file, bytes)
        const told = await toldBy(...places(damaged).apart)
        lost.push(...differences(truths.apart!, told, `${name} in ${path}`))
        writeFileSync(file, readFileSync(join(root, path)))
      }
    }
    console.log(`${some(files, 6).length} of ${files.length} chunks damaged, ${lost.length} answers lost`)
    expect(lost).toEqual([])
  })

  it('G7 G8: a store that is only read is read around the damage, and stays as it is', { timeout: hours }, async () => {
    copyFolder(join(whole, 'apart'), join(damaged, 'apart'))
    const root = join(damaged, 'apart', 'chunks')
    const path = filesIn(root).find((each) => /[0-9a-f]{64}$/.test(each) && !each.includes('ff/ff/'))!
    const bytes = readFileSync(join(root, path))
    bytes[0]! ^= 1
    writeFileSync(join(root, path), bytes)
    const [url, options] = places(damaged).apart
    const rp = await open(url, { ...quiet, ...options, readOnly: true })
    const { ok, healed, faults } = await rp.verify()
    await rp.close()
    expect({ ok, faults, healed: healed.length }).toEqual({ ok: false, faults: [], healed: 1 })
    expect(readFileSync(join(root, path))).toEqual(bytes)
  })

  it('G7: verify with repair puts damaged chunks and damaged parity right', { timeout: hours }, async () => {
    copyFolder(join(whole, 'apart'), join(damaged, 'apart'))
    const root = join(damaged, 'apart', 'chunks')
    const paths = filesIn(root).filter((each) => /[0-9a-f]{64}$/.test(each))
    const isOurs = (path: string) => path.includes('ffffffffffffff')
    for (const path of [paths.find((each) => !isOurs(each))!, paths.find((each) => /ffffffffffffff02/.test(each))!]) {
      const bytes = readFileSync(join(root, path))
      bytes[1]! ^= 1
      writeFileSync(join(root, path), bytes)
      const [url, options] = places(damaged).apart
      const rp = await open(url, { ...quiet, ...options })
      expect((await rp.verify()).healed).toHaveLength(1)
      expect((await rp.verify({ repair: true })).healed).toHaveLength(1)
      expect(await rp.verify()).toMatchObject({ ok: true, healed: [], faults: [] })
      await rp.close()
    }
  })
})

describe('one damaged row of PostgreSQL', () => {
  const url = inject('postgresUrl')
  const schema = newSchemaName()
  const client = new pg.Client(url)
  const own = `${url}${url.includes('?') ? '&' : '?'}schema=${schema}`
  let truth: Record<string, string>

  beforeAll(async () => {
    await client.connect()
    const rp = await open(own, quiet)
    await fill(rp)
    truth = await tell(rp)
    await rp.close()
  }, hours)
  afterAll(async () => {
    await client.end()
    await dropSchema(url, schema)
  })

  const damages = [
    [
      'chunk',
      'digest',
      `UPDATE $t SET bytes = set_byte(bytes, length(bytes) / 2, 255 - get_byte(bytes, length(bytes) / 2))`,
    ],
    ['chunk', 'digest', `DELETE FROM $t`],
    ['manifest', 'id', `UPDATE $t SET body = set_byte(body, length(body) / 2, 255 - get_byte(body, length(body) / 2))`],
    ['manifest', 'id', `UPDATE $t SET body_digest = set_byte(body_digest, 3, 255 - get_byte(body_digest, 3))`],
    ['manifest', 'id', `DELETE FROM $t`],
  ] as const

  for (const [name, key, damage] of damages) {
    it(`G7 G8: any row, ${damage.replace('$t', name).slice(0, 40)}…: everything is read again`, {
      timeout: hours,
    }, async () => {
      const table = `"${schema}"."${name}"`
      const kept = `"${schema}"."kept_${name}"`
      await client.query(`CREATE TABLE IF NOT EXISTS ${kept} AS SELECT * FROM ${table} WHERE false`)
      const keys = (await client.query(`SELECT "${key}" AS key FROM ${table} ORDER BY 1`)).rows
      const lost: string[] = []
      let damaged = 0
      for (const { key: value } of some(keys, 2)) {
        const sql = `${damage.replace('$t', table)} WHERE "${key}" = $1`
        await client.query(`DELETE FROM ${kept}`)
        await client.query(`INSERT INTO ${kept} SELECT * FROM ${table} WHERE "${key}" = $1`, [value])
        // The timelines are also opened and written: a checkpoint may have been replaced by a newer one.
        if ((await client.query(sql, [value])).rowCount === 0) continue
        damaged += 1
        lost.push(...differences(truth, await toldBy(own, {}), `${name} ${String(value).slice(0, 20)}`))
        await client.query(`DELETE FROM ${table} WHERE "${key}" = $1`, [value])
        await client.query(`INSERT INTO ${table} OVERRIDING SYSTEM VALUE SELECT * FROM ${kept}`)
      }
      console.log(`${damaged} of ${keys.length} rows of ${name} damaged, ${lost.length} answers lost`)
      expect(damaged).toBeGreaterThan(0)
      expect(lost).toEqual([])
    })
  }
})

describe('one damaged place in memory', () => {
  it('G7 G8: any chunk and any line of the catalog: everything is read again', { timeout: hours }, async () => {
    const world = createWorld()
    const store = () => openMemory({ namespace: 'x', hash: sha256, world })
    const rp = createEngine({ store: store() })
    await fill(rp)
    const truth = await tell(rp)
    await rp.close()
    const plain = store()
    const lost: string[] = []
    const chunks = (await plain.blobs.list(null, 10_000)).map(({ digest }) => digest)
    for (const [at, digest] of some(chunks, 5).entries()) {
      const [bytes] = await plain.blobs.get([digest])
      await plain.blobs.delete([digest], Number.MAX_SAFE_INTEGER)
      if (at % 2 === 0) await plain.blobs.put([{ digest, bytes: bytes!.map((byte, i) => (i === 0 ? byte ^ 1 : byte)) }])
      lost.push(...differences(truth, await toldByStore(store()), `chunk ${toHex(digest)}`))
      await plain.blobs.delete([digest], Number.MAX_SAFE_INTEGER)
      await plain.blobs.put([{ digest, bytes: bytes! }])
    }
    let lines = 0
    for (const { timeline } of await plain.timelines({ limit: 1000 })) {
      for (const { id } of some(await plain.checkpoints(timeline), 1)) {
        lines += 1
        for (const isGone of isFull ? [false, true] : [lines % 2 === 0]) {
          const bent = bentLine(store(), id, isGone)
          lost.push(...differences(truth, await toldByStore(bent), `line ${id} of ${timeline}`))
        }
      }
    }
    console.log(`${some(chunks, 5).length} chunks, ${lines} lines, ${lost.length} answers lost`)
    expect(lines).toBeGreaterThan(5)
    expect(lost).toEqual([])
  })
})

async function toldByStore(store: Store): Promise<Record<string, string>> {
  const rp = createEngine({ store })
  try {
    return await tell(rp)
  } finally {
    await rp.close()
  }
}

/** One line of a catalog is read damaged, or not at all. */
function bentLine(store: Store, id: string, isGone: boolean): Store {
  const checkpoints: Store['checkpoints'] = async (timeline) => {
    const records = await store.checkpoints(timeline)
    if (isGone) return records.filter((record) => record.id !== id)
    const body = (record: ManifestRecord) => record.body.map((byte, i) => (i === 20 ? byte ^ 1 : byte))
    return records.map((record) => (record.id === id ? { ...record, body: body(record) } : record))
  }
  return new Proxy(store, {
    get(target, name) {
      if (name === 'checkpoints') return checkpoints
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}
