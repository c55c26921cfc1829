// Exactly once, seen from outside: processes with several pipelines each are killed with SIGKILL at random moments, and the
// next process continues. In the end plain SQL counts the user's tables: no record is missing or duplicated, and every window
// has its sum. REPRISE_PIPELINE_KILLS=200 or 1000 processes for a long run.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from '@photostructure/sqlite'
import pg from 'pg'
import { describe, expect, inject, it } from 'vitest'
import { amount, Child, newFolder, removeFolder } from '../crash/support.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import { wrongIn } from '../support/outside.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'

/**
 * The number of processes; a start is most of the cost of a cycle, so each runs several pipelines, and a kill meets each at
 * another place.
 */
const kills = amount('REPRISE_PIPELINE_KILLS', 20)
const pipelines = 5
const seed = amount('REPRISE_CRASH_SEED', 7)
const records = 1000 + 200 * kills

type Query = (text: string) => Promise<Record<string, unknown>[]>

interface Where {
  readonly url: string
  /** At the end of the names of the user's tables. */
  readonly tables?: string
}

/** The result of a plain loop over all records. */
function expectedTotals(): Map<string, number> {
  const totals = new Map<string, number>()
  for (let n = 0; n < records; n++) {
    const at = n * 7 + ((n * 31) % 50)
    const name = `key-${n % 13}@${Math.floor(at / 1000) * 1000}`
    totals.set(name, (totals.get(name) ?? 0) + n)
  }
  return totals
}

async function audit(query: Query, number: number): Promise<void> {
  const [counted] = await query(`SELECT count(*) AS all_rows, count(DISTINCT n) AS numbers FROM seen_${number}`)
  expect({ rows: Number(counted!.all_rows), numbers: Number(counted!.numbers) }).toEqual({
    rows: records,
    numbers: records,
  })
  const found = await query(`SELECT name, start_ms, total FROM totals_${number}`)
  const totals = new Map(found.map(({ name, start_ms, total }) => [`${name}@${start_ms}`, Number(total)]))
  expect(totals.size).toBe(found.length)
  expect(totals).toEqual(expectedTotals())
}

async function killAndAudit(where: Where, query: Query): Promise<void> {
  const random = randomFrom(seed)
  const folder = newFolder()
  const given = { ...where, records, pipelines, sent: join(folder, 'sent') }
  for (let kill = 0; kill < kills; kill++) {
    const child = new Child('pipeline-killed', given)
    // Some die while they restore, most while records flow and checkpoints are written.
    if (kill % 4 !== 1) await child.until(() => child.lines.includes('READY'))
    await new Promise((resolve) => setTimeout(resolve, random.below(160)))
    await child.kill()
    expect(child.errors).toBe('')
  }
  const last = new Child('pipeline-killed', given)
  await last.ended
  expect(last.errors).toBe('')
  expect(last.lines.at(-1)).toBe(`DONE ${JSON.stringify(Array(pipelines).fill('completed'))}`)
  for (let number = 0; number < pipelines; number++) await audit(query, number)
  // A receiver that honours keys has each record once, whatever was sent again.
  const sent = readFileSync(given.sent, 'utf8').split('\n').slice(0, -1)
  expect(new Set(sent).size).toBe(records / 5)
  expect(sent.length).toBeGreaterThan(records / 5)
  expect(wrongIn(given.sent)).toBeNull()
  removeFolder(folder)
}

describe.concurrent('B7, C8 (exactly once): a pipeline that is killed again and again', () => {
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
        return (await client.query(text.replace(/\b((seen|totals)_\d+)\b/, `$1${tables}`))).rows
      })
    } finally {
      for (let number = 0; number < pipelines; number++) {
        await client.query(`DROP TABLE IF EXISTS "seen_${number}_${schema}", "totals_${number}_${schema}"`)
      }
      await client.end()
      await dropSchema(url, schema)
    }
  }, 3_600_000)
})
