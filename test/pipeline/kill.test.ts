// Exactly once, seen from outside: a pipeline is killed with SIGKILL at random moments, and whoever comes next goes on. In the
// end the user's tables are counted by plain SQL: no record is missing, none is there twice, and every window has its sum.
// REPRISE_PIPELINE_KILLS=1000 for a long run.

import { join } from 'node:path'
import { DatabaseSync } from '@photostructure/sqlite'
import pg from 'pg'
import { describe, expect, inject, it } from 'vitest'
import { amount, Child, newFolder, removeFolder } from '../crash/support.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import { dropSchema, newSchemaName } from '../support/schema.ts'

const kills = amount('REPRISE_PIPELINE_KILLS', 2)
const seed = amount('REPRISE_CRASH_SEED', 7)
const records = 1000 + 800 * kills

type Query = (text: string) => Promise<Record<string, unknown>[]>

interface Where {
  readonly url: string
  /** At the end of the names of the user's tables. */
  readonly tables?: string
}

/** What a plain loop over all records gives. */
function expectedTotals(): Map<string, number> {
  const totals = new Map<string, number>()
  for (let n = 0; n < records; n++) {
    const at = n * 7 + ((n * 31) % 50)
    const name = `key-${n % 13}@${Math.floor(at / 1000) * 1000}`
    totals.set(name, (totals.get(name) ?? 0) + n)
  }
  return totals
}

async function audit(query: Query): Promise<void> {
  const [counted] = await query('SELECT count(*) AS all_rows, count(DISTINCT n) AS numbers FROM seen')
  expect({ rows: Number(counted!.all_rows), numbers: Number(counted!.numbers) }).toEqual({
    rows: records,
    numbers: records,
  })
  const found = await query('SELECT name, start_ms, total FROM totals')
  const totals = new Map(found.map(({ name, start_ms, total }) => [`${name}@${start_ms}`, Number(total)]))
  expect(totals.size).toBe(found.length)
  expect(totals).toEqual(expectedTotals())
}

async function killAndAudit(where: Where, query: Query): Promise<void> {
  const random = randomFrom(seed)
  for (let kill = 0; kill < kills; kill++) {
    const child = new Child('pipeline-killed', { ...where, records })
    // Some die while they restore, most while records flow and checkpoints are written.
    if (kill % 4 !== 1) await child.until(() => child.lines.includes('READY'))
    await new Promise((resolve) => setTimeout(resolve, random.below(160)))
    await child.kill()
    expect(child.errors).toBe('')
  }
  const last = new Child('pipeline-killed', { ...where, records })
  await last.ended
  expect(last.errors).toBe('')
  expect(last.lines.at(-1)).toMatch(/^DONE .*"status":"done"/)
  await audit(query)
}

describe.concurrent('B7: a pipeline that is killed again and again', () => {
  it('has every record exactly once in SQLite', async () => {
    const folder = newFolder()
    try {
      const file = join(folder, 'audited.db')
      await killAndAudit({ url: `sqlite:${file}` }, async (text) => {
        const db = new DatabaseSync(file, { readOnly: true })
        try {
          return db.prepare(text).all() as Record<string, unknown>[]
        } finally {
          db.close()
        }
      })
    } finally {
      removeFolder(folder)
    }
  }, 3_600_000)

  it('has every record exactly once in PostgreSQL', async () => {
    const url = inject('postgresUrl')
    const schema = newSchemaName()
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    try {
      const tables = `_${schema}`
      const ours = `${url}${url.includes('?') ? '&' : '?'}schema=${schema}`
      await killAndAudit({ url: ours, tables }, async (text) => {
        return (await client.query(text.replace(/\b(seen|totals)\b/, `$1${tables}`))).rows
      })
    } finally {
      await client.query(`DROP TABLE IF EXISTS "seen_${schema}", "totals_${schema}"`)
      await client.end()
      await dropSchema(url, schema)
    }
  }, 3_600_000)
})
