// G7, G8: bits flipped in the rows of a PostgreSQL store, in every column that holds bytes: aggregates, tables, paged tables,
// projections and saves return the written values, or refuse by name. One store serves all trials: an UPDATE damages a row, and
// afterwards all rows are restored. More: REPRISE_ENTITY_FLIPS=20000 npx vitest run test/entities/damage-rows.test.ts

import pg from 'pg'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import type { Store } from '../../src/core/store/ports.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { openPostgres } from '../../src/stores/postgres/index.ts'
import { engineOver } from '../damage/world.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import { dropSchema, newSchemaName } from '../support/schema.ts'
import { fill, hours, judge, readersOf, report, seed, trials, type Verdict } from './damage-world.ts'
import { flipped } from './support.ts'

const url = inject('postgresUrl')
const schema = newSchemaName()
const client = new pg.Client(url)
let store: Store
let truths: readonly string[]
let tables: readonly string[] = []

interface Column {
  readonly table: string
  readonly column: string
}

beforeAll(async () => {
  await client.connect()
  await client.query('SET synchronous_commit = off')
  store = await openPostgres(url, { namespace: 'default', schema, hash: sha256 })
  const rp = engineOver(keptOpen(store), 1)
  await fill(rp)
  await rp.close()
  await keepRows()
  truths = await answers(async (read) => (await read()).text)
  await mend()
}, hours)
afterAll(async () => {
  await client.end()
  await store.close()
  await dropSchema(url, schema)
})

/** An engine closes its store; this one stays open for the next. */
function keptOpen(held: Store): Store {
  return new Proxy(held, {
    get(target, name) {
      if (name === 'close') return async () => undefined
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}

/** A new engine without caches, like another process. */
async function answers<T>(
  take: (read: ReturnType<typeof readersOf>[number], index: number) => Promise<T>,
): Promise<T[]> {
  const rp = engineOver(keptOpen(store), 2)
  const all: T[] = []
  try {
    for (const [i, read] of readersOf(rp).entries()) all.push(await take(read, i))
  } finally {
    await rp.close().catch(() => undefined)
  }
  return all
}

const verdicts = () => answers<Verdict>((read, i) => judge(read, truths[i]!))

/** Every column that holds bytes. */
async function columnsOfBytes(): Promise<Column[]> {
  const sql = `SELECT table_name AS table, column_name AS column FROM information_schema.columns
    WHERE table_schema = $1 AND data_type = 'bytea' AND table_name = ANY($2) ORDER BY 1, 2`
  const columns: Column[] = (await client.query(sql, [schema, tables])).rows
  const used: Column[] = []
  for (const column of columns) if ((await rowsOf(column)).length > 0) used.push(column)
  return used
}

async function rowsOf({ table, column }: Column): Promise<{ readonly row: string; readonly bytes: Buffer }[]> {
  const sql = `SELECT ctid::text AS row, "${column}" AS bytes FROM "${schema}"."${table}"
    WHERE length("${column}") > 0 ORDER BY 2`
  return (await client.query(sql)).rows
}

async function put({ table, column }: Column, row: string, bytes: Uint8Array): Promise<void> {
  const sql = `UPDATE "${schema}"."${table}" SET "${column}" = $2 WHERE ctid = $1::tid`
  expect((await client.query(sql, [row, bytes])).rowCount).toBe(1)
}

/** All rows aside, since opening writes too: owners, marks of damaged checkpoints, workers, checkpoints made anew. */
async function keepRows(): Promise<void> {
  const sql = `SELECT tablename AS name FROM pg_tables WHERE schemaname = $1 AND tablename NOT IN ('meta', 'namespace')`
  tables = (await client.query(sql, [schema])).rows.map(({ name }) => name)
  const copies = tables.map((name) => `CREATE TABLE "${schema}"."kept_${name}" AS SELECT * FROM "${schema}"."${name}"`)
  await client.query(copies.join(';'))
}

async function mend(): Promise<void> {
  // A generated column takes no value: the server computes it.
  const sql = `SELECT table_name AS name, string_agg('"' || column_name || '"', ', ') AS columns
    FROM information_schema.columns WHERE table_schema = $1 AND is_generated = 'NEVER' GROUP BY 1`
  const columns = new Map((await client.query(sql, [schema])).rows.map((row) => [row.name, row.columns]))
  const again = tables.map(
    (name) => `DELETE FROM "${schema}"."${name}"; INSERT INTO "${schema}"."${name}" (${columns.get(name)})
      OVERRIDING SYSTEM VALUE SELECT ${columns.get(name)} FROM "${schema}"."kept_${name}"`,
  )
  await client.query(`BEGIN; ${again.join(';')}; COMMIT`)
}

const nameOf = ({ table, column }: Column) => `${table}.${column}`

it('G7 G8: one bit flipped in a row of a store (postgres): the written value, or refused by name', {
  timeout: hours,
}, async () => {
  const count = trials(48)
  const random = randomFrom(seed)
  const seen = new Map<string, number>()
  const columns = await columnsOfBytes()
  const wrong: string[] = []
  for (let trial = 0; trial < count; trial++) {
    // Columns alike, else nearly all trials would meet a chunk.
    const column = columns[trial % columns.length]!
    const rows = await rowsOf(column)
    const { row, bytes } = rows[random.below(rows.length)]!
    const [offset, bit] = [random.below(bytes.length), random.below(8)]
    await put(column, row, flipped(bytes, offset, bit))
    const found = await verdicts()
    await mend()
    if (trial % 500 === 499) for (const table of tables) await client.query(`VACUUM "${schema}"."${table}"`)
    for (const verdict of found) {
      seen.set(verdict.slice(0, 40), (seen.get(verdict.slice(0, 40)) ?? 0) + 1)
      if (verdict.startsWith('WRONG'))
        wrong.push(`seed ${seed}, trial ${trial}, ${nameOf(column)} byte ${offset} bit ${bit}: ${verdict}`)
    }
  }
  report(`${count} damaged rows (postgres; ${columns.map(nameOf).join(', ')})`, seen)
  expect(wrong.slice(0, 5), `${wrong.length} got through`).toEqual([])
  // Put back, all is as it was: no trial stood on the damage of another.
  expect(await verdicts()).toEqual(truths.map(() => 'equal'))
  expect([...seen.keys()].some((word) => word.startsWith('refused'))).toBe(true)
  expect(seen.get('equal, by another way')).toBeGreaterThan(0)
})
