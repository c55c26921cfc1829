// Examples of `reprise/drizzle`.

import assert from 'node:assert/strict'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { drizzle } from 'reprise/drizzle'
import { workflow } from 'reprise/workflow'
import { example } from './example.ts'

const books = sqliteTable('books', { title: text('title'), copies: integer('copies') })

export default [
  example(
    ['drizzle'],
    async (rp) => {
      const buy = workflow('buy', async (ctx, title: string) => {
        await ctx.transaction('create', (sql) => sql.run('CREATE TABLE books (title TEXT, copies INTEGER)'))
        return await ctx.transaction('insert', async (sql) => {
          const db = drizzle(sql, { dialect: 'sqlite' })
          await db.insert(books).values({ title, copies: 2 })
          return await db.select().from(books)
        })
      })
      const run = await rp.run(buy, 'Dune')
      assert.deepEqual(await run.result(), [{ title: 'Dune', copies: 2 }])
    },
    'sqlite',
  ),
]
