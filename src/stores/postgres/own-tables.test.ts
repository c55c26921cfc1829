// The user's SQL cannot change the store's own tables in any way: nothing of such a commit is kept.

import { afterAll, afterEach, beforeAll, expect, inject, it } from 'vitest'
import { dropSchema, newSchemaName, query } from '../../../test/support/schema.ts'
import { isReprise } from '../../core/errors.ts'
import type { Outcome, Sql, Store } from '../../core/store/ports.ts'
import { asTimeline, hash, Kit } from '../../testing/conformance/kit.ts'
import { openPostgres } from './index.ts'

const shared = inject('postgresUrl')
const schema = newSchemaName()
const notes = `${schema}_notes`
const opened: Store[] = []

beforeAll(async () => {
  await query(shared, `CREATE TABLE ${notes} (note text)`)
  await query(
    shared,
    `CREATE FUNCTION ${notes}_sneak(p_text text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE p_text; END $$`,
  )
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()))
})
afterAll(async () => {
  await query(shared, `DROP TABLE ${notes}`)
  await query(shared, `DROP FUNCTION ${notes}_sneak`)
  await dropSchema(shared, schema)
})

async function commitWith(...statements: readonly string[]): Promise<{ outcome: Outcome; kit: Kit }> {
  const store = await openPostgres(shared, { namespace: newSchemaName(), schema, hash, poolSize: 2 })
  opened.push(store)
  const kit = new Kit(store, async () => store, {})
  const writer = await kit.create('a')
  await writer.append('one')
  const userSql = async (sql: Sql) => {
    await sql.run(`INSERT INTO ${notes} VALUES ('kept?')`)
    for (const text of statements) await sql.run(text)
  }
  const guard = { timeline: asTimeline('a'), epoch: (await kit.head('a')).epoch }
  const [outcome] = await store.commit([{ operation: 'op' as never, guard, status: 'changed', userSql }])
  return { outcome: outcome!, kit }
}

const direct = [
  `DELETE FROM ${schema}.run`,
  `DELETE FROM "${schema}" . "run"`,
  `UPDATE ${schema.toUpperCase()}.timeline SET seq = 0`,
  `SELECT * FROM ${schema}.timeline`,
  `TRUNCATE ${schema}.run`,
  `DROP TABLE ${schema}.run`,
]
const sneaking = [
  [`SELECT ${notes}_sneak('DELETE FROM ${schema}.run')`],
  [`SELECT ${notes}_sneak('UPDATE ${schema}.timeline SET seq = 0')`],
  [`SELECT ${notes}_sneak('TRUNCATE ${schema}.run')`],
  [`SELECT ${notes}_sneak('ALTER TABLE ${schema}.run ADD COLUMN mine integer')`],
  [
    `SELECT ${notes}_sneak('CREATE TRIGGER t BEFORE INSERT ON ${schema}.run EXECUTE FUNCTION suppress_redundant_updates_trigger()')`,
  ],
  [`DO $$ BEGIN DELETE FROM ${schema}.run; END $$`],
  [
    `DO $$ BEGIN BEGIN DELETE FROM ${schema}.run; RAISE 'undone'; EXCEPTION WHEN OTHERS THEN DELETE FROM ${schema}.message; DELETE FROM ${schema}.run; END; END $$`,
  ],
  [`SELECT set_config('search_path', '${schema}', true)`, 'DELETE FROM run'],
  [
    `SELECT set_config('search_path', '${schema}', true)`,
    'INSERT INTO worker SELECT * FROM worker WHERE false RETURNING 1',
    'DELETE FROM timeline',
  ],
]

it.each([...direct.map((text) => [text]), ...sneaking].map((texts) => [texts.join('; '), texts] as const))(
  'refuses %s',
  async (_, texts) => {
    const { outcome, kit } = await commitWith(...texts)
    expect(outcome).toMatchObject({ ok: false, code: 'RIDER_FAILED' })
    expect(!outcome.ok && isReprise(outcome.cause, 'SQL_REFUSED')).toBe(true)
    expect(await query(shared, `SELECT * FROM ${notes}`)).toEqual([])
    expect(await kit.head('a')).toMatchObject({ seq: 1, status: '' })
    expect(await kit.store.read(asTimeline('a'), 0, 1e6)).toHaveLength(1)
  },
)

it('leaves the text of literals and comments alone, and names that only begin alike', async () => {
  const { outcome } = await commitWith(
    `INSERT INTO ${notes} VALUES ('see ${schema}.dev') -- ${schema}.run`,
    `CREATE TABLE IF NOT EXISTS ${notes}_more (a int)`,
    `INSERT INTO ${notes}_more SELECT x.a FROM ${notes}_more x`,
    `DROP TABLE ${notes}_more`,
    `DELETE FROM ${notes}`,
  )
  expect(outcome).toMatchObject({ ok: true })
})
