// docs/formats/requests.md is the promise to programs that write requests in SQL: the page and the databases agree.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { expect, inject, it } from 'vitest'
import { open } from '../../src/index.ts'
import { storeUrls } from '../support/store-urls.ts'
import { openSqliteFile } from './database.ts'

const page = readFileSync(fileURLToPath(new URL('../../docs/formats/requests.md', import.meta.url)), 'utf8')

it('E3: the functions of PostgreSQL are those of the page', async () => {
  const { url, remove } = storeUrls.postgres!()
  await (await open(url)).close()
  const client = new pg.Client(inject('postgresUrl'))
  await client.connect()
  const { rows } = await client.query(
    `SELECT p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ') ' || pg_get_function_result(p.oid) AS text,
        p.pronargs - p.pronargdefaults AS required
      FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
      WHERE n.nspname = $1 AND p.proname = ANY ('{start,signal,cancel,send}')`,
    [new URL(url).searchParams.get('schema')],
  )
  await client.end()
  await remove()
  const documented = [...page.matchAll(/^(?:start|signal|cancel|send)\(.*$/gm)].map(([line]) => line)
  expect(rows.map(({ text }) => text).sort()).toEqual(documented.sort())
  const required = Object.fromEntries(rows.map((row) => [row.text.split('(')[0], row.required]))
  expect(required).toEqual({ start: 1, signal: 3, cancel: 2, send: 2 })
})

it('E3: the columns of the table of SQLite are those of the page', async () => {
  const { url, remove } = storeUrls.sqlite!()
  await (await open(url)).close()
  const db = openSqliteFile(url.slice('sqlite:'.length))
  const columns = db.prepare("SELECT name FROM pragma_table_info('reprise_request') ORDER BY cid").all()
  db.close()
  await remove()
  const documented = [...page.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => ({ name: name! }))
  expect(columns).toEqual(documented)
})
