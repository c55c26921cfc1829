// Values of the user's SQL on each database: the table of docs/guides/sql-values.md, line by line, in a commit's transaction and
// through rp.sql.

import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import type { Sql } from '../../src/core/store/ports.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { runInStore } from '../../src/engine/storage/key-notes.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

interface Line {
  /** As the table shows it. */
  readonly bound: string
  readonly value: unknown
  /** The type of the column, and the value read back; null: refused. */
  readonly sqlite: readonly [type: string, gives: unknown] | null
  readonly postgres: readonly [type: string, gives: unknown]
}

const epoch = new Date(0)
const lines: readonly Line[] = [
  { bound: '`7`', value: 7, sqlite: ['INTEGER', 7], postgres: ['integer', 7] },
  { bound: '`2 ** 40`', value: 2 ** 40, sqlite: ['INTEGER', 2 ** 40], postgres: ['bigint', '1099511627776'] },
  {
    bound: '`2n ** 60n`',
    value: 2n ** 60n,
    sqlite: ['INTEGER', 2n ** 60n],
    postgres: ['bigint', '1152921504606846976'],
  },
  { bound: '`0.5`', value: 0.5, sqlite: ['REAL', 0.5], postgres: ['double precision', 0.5] },
  { bound: "`'0.10'`", value: '0.10', sqlite: ['NUMERIC', 0.1], postgres: ['numeric', '0.10'] },
  { bound: '`true`', value: true, sqlite: ['BOOLEAN', 1], postgres: ['boolean', true] },
  { bound: 'a `Date`', value: epoch, sqlite: ['TEXT', epoch.toISOString()], postgres: ['timestamptz', epoch] },
  { bound: 'JSON as text', value: '{"a":[1]}', sqlite: ['TEXT', '{"a":[1]}'], postgres: ['jsonb', { a: [1] }] },
  { bound: 'an object', value: { a: [1] }, sqlite: null, postgres: ['jsonb', { a: [1] }] },
  {
    bound: 'a `Uint8Array`',
    value: new Uint8Array([1, 2]),
    sqlite: ['BLOB', new Uint8Array([1, 2])],
    postgres: ['bytea', Buffer.from([1, 2])],
  },
  { bound: '`null`, `undefined`', value: null, sqlite: ['TEXT', null], postgres: ['text', null] },
  { bound: '`null`, `undefined`', value: undefined, sqlite: ['TEXT', null], postgres: ['text', null] },
]

/** Values that a driver would store as another: as null, cut, as `{}`, or as the names of parameters. */
const refused: Readonly<Record<string, { readonly value: unknown; readonly only?: 'sqlite' }>> = {
  'an object': { value: {}, only: 'sqlite' },
  'an object without a prototype': { value: Object.create(null), only: 'sqlite' },
  'an array': { value: ['a'], only: 'sqlite' },
  'a URL': { value: new URL('http://localhost/a'), only: 'sqlite' },
  NaN: { value: Number.NaN, only: 'sqlite' },
  'an integer above 64 bits': { value: 2n ** 63n, only: 'sqlite' },
  'a Map': { value: new Map([['a', 1]]) },
  'a Promise': { value: Promise.resolve('late') },
  'a RegExp': { value: /a/ },
  'an Error': { value: new Error('a') },
  'an ArrayBuffer': { value: new Uint8Array([1, 2]).buffer },
  'a Float64Array': { value: new Float64Array([1.5]) },
  'a boxed string': { value: Object('a') },
  'a function': { value: () => 1 },
  'a symbol': { value: Symbol('a') },
  'an invalid Date': { value: new Date(Number.NaN) },
  'a list with an invalid Date': { value: [new Date(Number.NaN)] },
  'text with NUL': { value: 'a\0b' },
}

let turn = 0
const inCommit = <T>(rp: Reprise, work: (sql: Sql) => Promise<T>) => runInStore(hostOf(rp).kernel, work)

it('the table in the guide has these lines', () => {
  const guide = readFileSync(new URL('../../docs/guides/sql-values.md', import.meta.url), 'utf8')
  for (const { bound, sqlite, postgres } of lines) {
    const row = guide.split('\n').find((line) => line.startsWith(`| ${bound} |`))
    expect(row, bound).toBeDefined()
    if (bound !== '`null`, `undefined`') {
      expect(row).toContain(`\`${postgres[0]}\``)
      expect(row).toContain(sqlite ? `\`${sqlite[0]}\`` : 'refused')
    }
  }
})

onEveryStore(
  "values of the user's SQL",
  (world) => {
    it('match the guide, and a value that is too large for a number harms nothing', async () => {
      const w = await world()
      const rp = await w.engine()
      const dialect = w.kind as 'sqlite' | 'postgres'
      for (const line of lines) {
        const table = `values_${process.pid}_${turn++}`
        const insert = (type: string) =>
          inCommit(rp, async (sql) => {
            await sql.run(`CREATE TABLE ${table} (v ${type})`)
            await sql.run(`INSERT INTO ${table} VALUES (?)`, line.value)
            return await sql.get(`SELECT v FROM ${table}`)
          })
        const wanted = line[dialect]
        if (!wanted) {
          await expect(insert('TEXT')).rejects.toThrow()
          continue
        }
        const [type, gives] = wanted
        expect(await insert(type), line.bound).toEqual({ v: gives })
        expect(await rp.sql(`SELECT v FROM ${table}`), line.bound).toEqual([{ v: gives }])
        if (line.value !== null && line.value !== undefined) {
          const [{ n } = { n: 0 }] = await rp.sql(`SELECT count(*) AS n FROM ${table} WHERE v = ?`, [line.value])
          expect(n, line.bound).toBe(dialect === 'sqlite' ? 1 : '1')
        }
      }
      expect(await rp.sql('SELECT 1 = 1 AS v')).toEqual([{ v: dialect === 'sqlite' ? 1 : true }])
      // A driver that abandoned a read in the middle left the connection at an old state.
      const table = `values_${process.pid}_${turn++}`
      await inCommit(rp, (sql) => sql.run(`CREATE TABLE ${table} (v BIGINT)`))
      for (const value of [1, 2n ** 60n, 3])
        await inCommit(rp, (sql) => sql.run(`INSERT INTO ${table} VALUES (?)`, value))
      expect(await rp.sql(`SELECT v FROM ${table} ORDER BY v`)).toHaveLength(3)
      await inCommit(rp, (sql) => sql.run(`DELETE FROM ${table}`))
      expect(await rp.sql(`SELECT v FROM ${table}`)).toEqual([])
      expect((await rp.verify()).ok).toBe(true)
    })

    it('are refused with a code if the driver would store another value, and shift no other value', async () => {
      const w = await world()
      const rp = await w.engine()
      const table = `values_${process.pid}_${turn++}`
      await inCommit(rp, (sql) => sql.run(`CREATE TABLE ${table} (v TEXT, id INTEGER)`))
      const codes: Record<string, unknown> = {}
      const wanted: Record<string, unknown> = {}
      for (const [name, { value, only }] of Object.entries(refused)) {
        if (only && only !== w.kind) continue
        wanted[name] = ['SQL_REFUSED', 'SQL_REFUSED']
        const code = (error: { code?: string; cause?: { code?: string } }) => error.cause?.code ?? error.code
        const insert = (sql: Sql) => sql.run(`INSERT INTO ${table} VALUES (?, ?)`, value, 5)
        codes[name] = [
          await inCommit(rp, insert).then(String, code),
          await rp.sql(`SELECT id FROM ${table} WHERE v = ? AND id = ?`, [value, 5]).then(String, code),
        ]
      }
      expect(codes).toEqual(wanted)
      expect(await rp.sql(`SELECT * FROM ${table}`)).toEqual([])
    })
  },
  ['sqlite', 'postgres'],
)
