// The SQL files themselves: PostgreSQL reads each of them with its strictest checks, sql.ts holds their text, and expressions
// that queries share with them are written alike (an index serves only the expression that it was made for).

import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, inject, it } from 'vitest'
import { embedded } from '../../../scripts/sql.mjs'
import { dropSchema, newSchemaName, query } from '../../../test/support/schema.ts'
import { functionName, isAlive, nowMs, operationOf, pastName, riderStatement, sqlFor } from './functions.ts'
import { damagedPast } from './past.ts'
import { headColumns, headRecord, headTables } from './rows.ts'
import * as sql from './sql.ts'
import { dueSince, hasStatus, isFree, isSoundPast } from './tables.ts'

const folder = new URL('sql/', import.meta.url)
// Tables first: the functions name their types.
const isTable = (file: string) => /tables?\.sql$/.test(file)
const files = readdirSync(folder).sort((a, b) => Number(isTable(b)) - Number(isTable(a)) || (a < b ? -1 : 1))
const textOf = (file: string) => readFileSync(new URL(file, folder), 'utf8')

async function load(texts: readonly string[]): Promise<string[]> {
  const url = inject('postgresUrl')
  const schema = newSchemaName()
  const strict = `SET LOCAL check_function_bodies = on; SET LOCAL plpgsql.extra_errors = 'all'; CREATE SCHEMA "${schema}";`
  try {
    await query(url, strict + texts.join('\n').replaceAll('reprise.', `"${schema}".`))
    const made = await query(
      url,
      `SELECT proname FROM pg_proc WHERE pronamespace = '"${schema}"'::regnamespace ORDER BY 1`,
    )
    return made.map(({ proname }) => String(proname))
  } finally {
    await dropSchema(url, schema)
  }
}

describe('the SQL files', () => {
  it('are read by PostgreSQL without a complaint', async () => {
    const texts = files.map(textOf)
    const named = texts.flatMap((text) =>
      [...text.matchAll(/^CREATE (?:OR REPLACE )?FUNCTION reprise\.(\w+) ?\(/gm)].map(([, name]) => name!),
    )
    expect(await load(texts)).toEqual(named.sort())
    expect(named).toContain('commit_one')
  })

  it.each([
    ['a statement that does not parse', 'BEGIN PERFORM FROM WHERE; END'],
    ['a name that is declared nowhere', 'BEGIN v_missing := 1; END'],
    ['a variable that hides a parameter', 'DECLARE p_a integer; BEGIN END'],
  ])('would not be with %s', async (_name, body) => {
    const broken = `CREATE FUNCTION reprise.broken(p_a integer) RETURNS void LANGUAGE plpgsql AS $$ ${body} $$;`
    await expect(load([...files.filter(isTable).map(textOf), broken])).rejects.toThrow()
  })

  it('are embedded: run `npm run build` after a change', () => {
    expect(readFileSync(new URL('sql.ts', import.meta.url), 'utf8')).toBe(embedded())
    expect(Object.values(sql).sort()).toEqual(files.map(textOf).sort())
  })

  it('get the name of the schema, and functions their version', () => {
    expect(sqlFor('"shop"', 'SELECT reprise.head(1) FROM reprise.run (x)')).toBe(
      `SELECT ${functionName('"shop"', 'head')}(1) FROM "shop".run (x)`,
    )
    expect(
      Object.values(sql)
        .map((text) => sqlFor('"shop"', text))
        .join(),
    ).not.toMatch(/\breprise\./)
  })

  it('use the expressions of the queries', () => {
    const s = 'reprise'
    const alike = {
      'past-table.sql': [],
      'request-table.sql': [],
      'tables.sql': [dueSince('timeline'), isFree('timeline'), hasStatus('timeline')],
      'append-functions.sql': [nowMs, operationOf('r'), pastName('m.id'), riderStatement],
      'commit-functions.sql': [nowMs, headColumns, headTables(s), isAlive('p_now')],
      'life-functions.sql': [pastName('t.id'), isSoundPast('v_past'), damagedPast],
      'request-functions.sql': [nowMs, isAlive('v_now')],
      'read-functions.sql': [
        nowMs,
        headColumns,
        headTables(s),
        headRecord,
        dueSince('t'),
        isFree('t'),
        isAlive('v_now'),
      ],
    }
    expect(Object.keys(alike).sort()).toEqual([...files].sort())
    for (const [file, parts] of Object.entries(alike)) {
      for (const part of parts) expect(textOf(file), file).toContain(part)
    }
  })
})
