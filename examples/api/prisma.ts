// Examples of `reprise/prisma`.

import assert from 'node:assert/strict'
import { prisma } from 'reprise/prisma'
import { workflow } from 'reprise/workflow'
import { example } from './example.ts'

export default [
  example(
    ['prisma'],
    async (rp) => {
      const buy = workflow('buy', async (ctx, title: string) => {
        await ctx.transaction('create', (sql) => sql.run('CREATE TABLE books (title TEXT, copies INTEGER)'))
        return await ctx.transaction('insert', async (sql) => {
          await prisma(sql).$executeRaw`INSERT INTO books (title, copies) VALUES (${title}, ${2})`
          return await prisma(sql).$queryRaw`SELECT title, copies FROM books`
        })
      })
      const run = await rp.run(buy, 'Dune')
      assert.deepEqual(await run.result(), [{ title: 'Dune', copies: 2 }])
    },
    'sqlite',
  ),
]
