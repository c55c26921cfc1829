// The command line's time limit for calls of its store: a dead store is reported with its code, and a call that is slow
// because of the user's own code is not mistaken for a dead store.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { pause } from '../../test/support/fixture.ts'
import { pipeline, sqlSink, valueSource } from '../layers/pipeline/index.ts'
import { openEngine } from './store.ts'

const folder = mkdtempSync(join(tmpdir(), 'reprise-cli-store-'))
afterEach(() => rmSync(folder, { recursive: true, force: true }))

it('SQL of a sink may take longer than a store has for an answer: it goes through once', async () => {
  const url = `sqlite:${join(folder, 'a.db')}`
  const engine = await openEngine({ url, create: true, timeoutMs: 1000 })
  let calls = 0
  const slow = sqlSink<number>({
    setup: 'CREATE TABLE IF NOT EXISTS numbers (n INTEGER)',
    async write(sql, all) {
      calls += 1
      await pause(2500)
      for (const n of all) await sql.run('INSERT INTO numbers VALUES (?)', n)
    },
  })
  const drawn = pipeline('numbers', (p) => {
    p.from('numbers', valueSource([1, 2, 3])).to('rows', slow)
  })
  expect(await engine.run(drawn).result()).toMatchObject({ status: 'completed', records: 3 })
  expect(calls).toBe(1)
  expect(await engine.sql('SELECT n FROM numbers ORDER BY n')).toHaveLength(3)
  await engine.close()
})
