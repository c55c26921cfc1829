// Tables and columns whose names have capitals: the same `setup` and the same `row` serve every database.

import { afterAll, expect, inject, it } from 'vitest'
import { pipeline, rowSink, valueSource } from '../../src/layers/pipeline/index.ts'
import { newSchemaName, query } from '../support/schema.ts'
import { onEveryStore } from '../support/worlds.ts'

const suffix = newSchemaName()
const tables = [`Plain_${suffix}`, `Quoted_${suffix}`]
afterAll(async () => {
  for (const table of tables) {
    for (const name of [table, `"${table}"`]) await query(inject('postgresUrl'), `DROP TABLE IF EXISTS ${name}`)
  }
})

onEveryStore(
  'rows',
  (world) => {
    it.each([
      ['not quoted in setup', (name: string) => name],
      ['quoted in setup', (name: string) => `"${name}"`],
    ])('writes to names with capitals that are %s', async (how, quote) => {
      const rp = await (await world()).engine()
      const table = how.startsWith('not') ? tables[0]! : tables[1]!
      const totals = pipeline(`totals-${suffix}`, (p) => {
        p.from('numbers', valueSource([1, 2, 1])).to(
          'rows',
          rowSink<number>({
            table,
            key: ['customerId'],
            row: (n) => ({ customerId: n, Cents: 10 * n }),
            setup: `CREATE TABLE IF NOT EXISTS ${quote(table)} (${quote('customerId')} INTEGER PRIMARY KEY, ${quote('Cents')} INTEGER)`,
          }),
        )
      })
      expect((await rp.run(totals).result()).status).toBe('completed')
      const found = await rp.sql(
        `SELECT ${quote('customerId')} AS id, ${quote('Cents')} AS cents FROM ${quote(table)} ORDER BY 1`,
      )
      expect(found.map(({ id, cents }) => [Number(id), Number(cents)])).toEqual([
        [1, 10],
        [2, 20],
      ])
    })
  },
  ['sqlite', 'postgres'],
)
