// Examples of `reprise/kysely`.

import assert from 'node:assert/strict'
import { kysely } from 'reprise/kysely'
import { workflow } from 'reprise/workflow'
import { example } from './example.ts'

interface Database {
  readonly books: { readonly title: string; readonly copies: number }
}

export default [
  example(
    ['kysely'],
    async (rp) => {
      const buy = workflow('buy', async (ctx, title: string) => {
        await ctx.transaction('create', (sql) => sql.run('CREATE TABLE books (title TEXT, copies INTEGER)'))
        return await ctx.transaction('insert', async (sql) => {
          const db = kysely<Database>(sql)
          await db.insertInto('books').values({ title, copies: 2 }).execute()
          return await db.selectFrom('books').selectAll().execute()
        })
      })
      const run = await rp.run(buy, 'Dune')
      assert.deepEqual(await run.result(), [{ title: 'Dune', copies: 2 }])
    },
    'sqlite',
  ),
]
