// ctx.transaction on several databases: the SQL runs in the database of the run, and its result is stored there until history
// has it, whichever of them a run of this process used first.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'

it('returns the result of the SQL on each of them, and nothing without a result', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-transaction-shards-'))
  const shards = ['a', 'b', 'c'].map((name) => `sqlite:${join(folder, `${name}.db`)}`)
  const add = workflow('add', async (ctx, n: number) => {
    await ctx.transaction('table', async (db) => void (await db.run('CREATE TABLE IF NOT EXISTS sums (n INTEGER)')))
    await ctx.transaction('add', (db) => db.run('INSERT INTO sums (n) VALUES (?)', n))
    const rows = await ctx.transaction('read', (db) => db.all('SELECT n FROM sums WHERE n = ?', n))
    await ctx.signal('go')
    return rows.map((row) => Number(row.n))
  })
  const ids = Array.from({ length: 9 }, (_, n) => n)
  const rp = await open({ shards, housekeeping: false })
  for (const n of ids) await rp.run(add, n, { id: `r${n}` })
  await rp.close()
  // Another process continues from the tables.
  const later = await open({ shards, housekeeping: false })
  const results = []
  for (const n of ids) {
    const run = await later.run(add, n, { id: `r${n}` })
    await run.signal('go')
    results.push(await run.result())
  }
  expect(results).toEqual(ids.map((n) => [n]))
  await later.close()
  rmSync(folder, { recursive: true, force: true })
})
