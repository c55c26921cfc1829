// npm run golden -- NAME: keeps a store with everything in it, as the build in dist (or REPRISE_GOLDEN_DIST) writes it, in
// test/golden/NAME: a SQLite file, the same in PostgreSQL as a dump, an export, a backup, and the digests of its heads. All
// stores share answers.json. A store is never written twice. Needs pg_dump of the server's version or newer.

import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { expect, inject, it } from 'vitest'
import type * as Open from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/index.ts'
import { dropSchema } from '../support/schema.ts'
import { ask, define, fill, type Package } from './world.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const name = process.env.REPRISE_GOLDEN ?? ''
const dist = process.env.REPRISE_GOLDEN_DIST ?? join(root, 'dist')
const layers = ['events', 'table', 'save', 'workflow', 'job', 'agent']

it('records a golden store', async () => {
  expect(name).toMatch(/^store-[0-9]+$/)
  const target = join(root, 'test/golden', name)
  expect(existsSync(target), `${target} is there, and is never written again`).toBe(false)
  const entries = ['index.js', ...layers.map((layer) => `layers/${layer}/index.js`)]
  const modules = await Promise.all(entries.map((entry) => import(pathToFileURL(join(dist, entry)).href)))
  const m: Package = Object.assign({}, ...modules)
  const { createEngine, openStore } = (await import(pathToFileURL(join(dist, 'engine/api/open.js')).href)) as typeof Open
  // Independent of the machine: a kept store must not contain the place where it was made.
  const identity = { host: 'golden', process: 'golden' }
  const open = async (url: string) =>
    createEngine({ store: await openStore(url, {}), identity, isGone: () => false }, { worker: 'golden' })
  const make = async (url: string, last?: (rp: Reprise) => Promise<unknown>) => {
    const rp = await open(url)
    await fill(rp, define(m))
    await rp.close()
    const again = await open(url)
    const answers = await ask(again, define(m))
    await last?.(again)
    await again.close()
    return answers
  }
  const folder = mkdtempSync(join(tmpdir(), 'reprise-golden-'))
  const schema = 'golden_store'
  try {
    const sqlite = await make(`sqlite:${join(folder, 'store.db')}`, async (rp) => {
      const { seq } = (await rp.head('table/rows'))!
      await rp.export({ timeline: 'table/rows', seq }, join(folder, 'rows.rp'))
      await rp.backup(join(folder, 'all.rpb'))
    })
    const url = new URL(inject('postgresUrl'))
    url.searchParams.set('schema', schema)
    const postgres = await make(url.href)
    const dump = spawnSync(
      'pg_dump',
      ['--inserts', '--no-owner', '--no-privileges', '-n', schema, inject('postgresUrl')],
      { encoding: 'utf8', maxBuffer: 2 ** 28 },
    )
    expect(dump.status, dump.stderr).toBe(0)
    mkdirSync(target)
    for (const each of ['store.db', 'rows.rp', 'all.rpb']) copyFileSync(join(folder, each), join(target, each))
    writeFileSync(join(target, 'postgres.sql'), dump.stdout.replace(/^(\\|--).*\n/gm, '').replace(/\n{2,}/g, '\n'))
    const { heads, ...answers } = sqlite
    // The answers are those of every golden store: only the digests of heads differ.
    expect(answers).toEqual(JSON.parse(readFileSync(join(root, 'test/golden/answers.json'), 'utf8')))
    const others = { sqlite: heads, postgres: postgres.heads }
    writeFileSync(join(target, 'heads.json'), `${JSON.stringify(others, null, 1)}\n`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
    await dropSchema(inject('postgresUrl'), schema)
  }
})

it('every golden store is complete', () => {
  expect(existsSync(join(root, 'test/golden/store-1/heads.json'))).toBe(true)
})
