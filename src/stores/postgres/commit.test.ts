// The reads of the general commit: only rows that it names, however large the tables have become since its plans were
// made.

import { afterAll, afterEach, expect, inject, it } from 'vitest'
import { dropSchema, newSchemaName } from '../../../test/support/schema.ts'
import { originDigest } from '../../core/history/entry-run.ts'
import type { Commit, Store } from '../../core/store/ports.ts'
import { asMessage, asOperation, asTimeline, asWorker, hash, utf8 } from '../../testing/conformance/kit.ts'
import { openPostgres } from './index.ts'

const shared = inject('postgresUrl')
const schema = newSchemaName()
const opened: Store[] = []

afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()))
})
afterAll(() => dropSchema(shared, schema))

const taking = (id: string): Commit => {
  const create = { digest: originDigest(hash, asTimeline(id)) }
  const take = { worker: asWorker('w'), from: 'anyone' as const, create }
  const guard = { timeline: asTimeline(id), epoch: 0 }
  return { operation: asOperation(`take ${id}`), guard, take, attributes: { kind: 'note' }, queue: 'q' }
}

const sending = (id: string, to: string): Pick<Commit, 'send'> => {
  return { send: [{ id: asMessage(id), to: asTimeline(to), kind: 'k', data: utf8('hi') }] }
}

/** Rows of the table of heads that the session has read. */
const looked = `SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) AS rows FROM pg_stat_xact_user_tables
  WHERE schemaname = '${schema}' AND relname = 'timeline'`

it.each([
  ['makes a timeline', (): Commit => taking('note/new')],
  ['sends a message', (): Commit => ({ ...taking('note/sender'), ...sending('late', 'note/7') })],
])('a commit that %s reads a few rows of a table that has grown', async (_, commit) => {
  // One session, so that the plans from when the tables were small are still cached.
  const store = await openPostgres(shared, { namespace: `grown ${_}`, schema, hash, poolSize: 1 })
  opened.push(store)
  for (let i = 0; i < 10; i++) {
    await store.commit([taking(`note/${i}`)])
    await store.commit([{ operation: asOperation(`early ${i}`), guard: null, ...sending(`early ${i}`, 'note/3') }])
  }
  await store.commit(Array.from({ length: 990 }, (_, i) => taking(`note/${i + 10}`)))
  const rows = async (commit: Commit): Promise<number> => {
    const [outcome] = await store.commit([{ ...commit, userSql: (sql) => sql.all(looked) }])
    return Number((outcome as unknown as { sqlResult: [{ rows: string }] }).sqlResult[0].rows)
  }
  const before = await rows(taking('note/before'))
  const after = await rows(commit())
  // Now and then the server adds up its counts and starts again from zero.
  expect(after < before ? after : after - before).toBeLessThan(40)
})
