// G16: a process that upgrades the schema of a store is killed before SQL statements of the upgrade: before every third one,
// with REPRISE_SWEEP=all before every one. The store then has the
// old schema with every row as it was, or the new schema complete: the upgrade is one transaction, needs no note, and the next
// process that opens the store for writing repeats it.

import { spawnSync } from 'node:child_process'
import { copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, inject, it } from 'vitest'
import { sha256 } from '../../src/engine/base/platform.ts'
import { openPostgres } from '../../src/stores/postgres/index.ts'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { openSqlite } from '../../src/stores/sqlite/index.ts'
import { dropSchema, newSchemaName, query } from '../support/schema.ts'
import { newFolder, programPath, removeFolder } from './support.ts'

const golden = fileURLToPath(new URL('../golden/store-1/', import.meta.url))
const server = inject('postgresUrl')
const step = process.env.REPRISE_SWEEP === 'all' ? 1 : 3
const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

interface OldStore {
  /** How a child opens it. */
  readonly where: object
  /** Everything in it, as text. */
  content(): Promise<string>
  upgrade(): Promise<void>
}

async function sqlite(): Promise<OldStore> {
  const folder = newFolder(true)
  cleanups.push(() => removeFolder(folder))
  const file = join(folder, 'store.db')
  copyFileSync(join(golden, 'store.db'), file)
  const driver = await loadDriver()
  return {
    where: { file },
    async content() {
      const database = driver.open(file, { isReadOnly: false })
      const all = (sql: string) => database.prepare(sql).all()
      const tables = all(`SELECT name, sql FROM sqlite_schema ORDER BY name`)
      const rows = tables
        .filter(({ sql }) => String(sql).startsWith('CREATE TABLE'))
        .map(({ name }) => [name, all(`SELECT * FROM ${name}`)])
      database.close()
      return JSON.stringify([tables, rows])
    },
    upgrade: async () => await (await openSqlite(file, { namespace: 'default', hash: sha256 })).close(),
  }
}

async function postgres(): Promise<OldStore> {
  const schema = newSchemaName()
  cleanups.push(() => dropSchema(server, schema))
  await query(server, readFileSync(join(golden, 'postgres.sql'), 'utf8').replaceAll('golden_store', schema))
  return {
    where: { url: server, schema },
    async content() {
      // A killed process's transaction is open until the server has noticed: the lock of an upgrade waits for its end.
      const lock = `SELECT pg_advisory_xact_lock(hashtextextended('reprise' || '"${schema}"', 0))`
      await query(server, lock)
      const tables = await query(
        server,
        `SELECT relname AS name FROM pg_class WHERE relnamespace = '"${schema}"'::regnamespace AND relkind = 'r' ORDER BY 1`,
      )
      const rows: unknown[] = []
      for (const { name } of tables) {
        // Without the times of the upgrade, and without the base of the feed: each opening raises it where it is too low, in a
        // transaction of its own.
        const row = `to_jsonb(x) - 'retired_at' - 'updated_at' - 'pos_base'`
        rows.push(await query(server, `SELECT (${row})::text AS row FROM "${schema}"."${name}" x ORDER BY 1`))
      }
      const functions = `SELECT proname FROM pg_proc WHERE pronamespace = '"${schema}"'::regnamespace ORDER BY 1`
      const indexes = `SELECT indexdef FROM pg_indexes WHERE schemaname = '${schema}' ORDER BY 1`
      const made = [await query(server, functions), await query(server, indexes)]
      return JSON.stringify([tables, rows, made]).replaceAll(schema, 'the-schema')
    },
    upgrade: async () => await (await openPostgres(server, { namespace: 'default', schema, hash: sha256 })).close(),
  }
}

it.each([
  ['SQLite', sqlite],
  ['PostgreSQL', postgres],
])(
  'an upgrade of %s that is killed at any statement leaves the old schema or the new one, and is repeated',
  async (_, make) => {
    const whole = await make()
    const old = await whole.content()
    await whole.upgrade()
    const upgraded = await whole.content()
    expect(upgraded).not.toBe(old)
    const found = new Set<string>()
    for (let statements = 1; ; statements += step) {
      const store = await make()
      const options = JSON.stringify({ ...store.where, statements })
      const child = spawnSync(process.execPath, [programPath('upgrade-killed'), options], { encoding: 'utf8' })
      const content = await store.content()
      expect([old, upgraded].indexOf(content), `killed at statement ${statements}`).not.toBe(-1)
      found.add(content)
      await store.upgrade()
      expect(await store.content()).toBe(upgraded)
      if (child.signal === 'SIGKILL') continue
      expect([child.status, child.stderr]).toEqual([0, ''])
      // It executed fewer statements than were needed for the kill, and the last kill was before one of them.
      expect(Math.ceil(Number(child.stdout) / step)).toBe(Math.ceil((statements - 1) / step))
      expect(statements).toBeGreaterThan(5)
      break
    }
    expect(found).toEqual(new Set([old, upgraded]))
  },
)
