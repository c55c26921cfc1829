// The user's code inside a transaction: it cannot wait for another write, which would wait for it; it has a time limit; and a
// connection that breaks inside it leaves the outcome unknown.

import { AsyncResource } from 'node:async_hooks'
import { expect, inject, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import type { Sql } from '../../src/core/store/ports.ts'
import { open } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { added, counter } from '../support/definitions.ts'
import { hostOf } from '../support/host.ts'
import { query } from '../support/schema.ts'
import { onEveryStore } from '../support/worlds.ts'

const entry = { type: 'added', data: { by: 1 } }

onEveryStore('user code inside a transaction', (world) => {
  it('is refused another write, and the store continues', async () => {
    const rp = await (await world()).engine()
    const other = await rp.open(counter, 'other')
    const open = await hostOf(rp).openTimeline(timelineId('counter/mine'), counter.fold)
    const attempts: (() => Promise<unknown>)[] = [
      () => other.append(added(1)),
      () => open.write([entry]),
      () => rp.open(counter, 'new'),
      () => rp.send('counter/other', 'hello', { a: 1 }),
    ]
    for (const attempt of attempts) {
      const written = open.write([entry], { userSql: attempt })
      await expect(written).rejects.toMatchObject({ code: 'RIDER_FAILED', cause: { code: 'SQL_REFUSED' } })
    }
    // Code that catches the refusal can continue.
    const caught = async () => await other.append(added(1)).catch((error: { code: string }) => error.code)
    expect((await open.write([entry], { userSql: caught })).sqlResult).toBe('SQL_REFUSED')
    await other.append(added(2))
    expect(other.state.total).toBe(2)
    expect(open.state.total).toBe(1)
  })

  it('has a time limit, after which nothing of it is kept and the store continues', async () => {
    const rp = await (await world()).engine({ limits: { userCodeMs: 50 } })
    const open = await hostOf(rp).openTimeline(timelineId('counter/mine'), counter.fold)
    let sql: Sql | undefined
    const forever = (given: Sql) => {
      sql = given
      return new Promise(() => undefined)
    }
    await expect(open.write([entry], { userSql: forever })).rejects.toMatchObject({
      code: 'RIDER_FAILED',
      cause: { code: 'TIMEOUT' },
    })
    await open.write([entry])
    expect(open.state.total).toBe(1)
    if (sql!.dialect !== 'memory') await expect(sql!.run('SELECT 1')).rejects.toMatchObject({ code: 'CLOSED' })
  })
})

it('may write to another store, and not back to its own from there', async () => {
  const [one, two] = [await open('memory:'), await open('memory:')]
  const [first, second] = await Promise.all(
    [one, two].map((rp) => hostOf(rp).openTimeline(timelineId('counter/a'), counter.fold)),
  )
  const back = () => first!.write([entry]).catch((error: { code: string }) => error.code)
  const over = async () => (await second!.write([entry], { userSql: back })).sqlResult
  expect((await first!.write([entry], { userSql: over })).sqlResult).toBe('SQL_REFUSED')
  expect([first!.state.total, second!.state.total]).toEqual([1, 1])
  await Promise.all([one.close(), two.close()])
})

it('leaves nothing behind in the process, however many engines run it', async () => {
  // Node gives every promise a property for each async context that is in use.
  const contexts = () => Object.getOwnPropertySymbols(new AsyncResource('probe')).length
  const run = async () => {
    const rp = await open('memory:')
    const timeline = await hostOf(rp).openTimeline(timelineId('counter/a'), counter.fold)
    await timeline.write([entry], { userSql: () => 1 })
    await rp.close()
  }
  await run()
  const after = contexts()
  for (let i = 0; i < 3; i++) await run()
  expect(contexts()).toBe(after)
})

onEveryStore(
  'a connection that breaks inside a transaction',
  (world) => {
    const url = inject('postgresUrl')
    const kill = (pid: unknown) => query(url, `SELECT pg_terminate_backend(${pid})`)

    it('G4: is an unknown outcome: a workflow repeats it, and neither fails nor compensates', async () => {
      const rp = await (await world()).engine()
      let calls = 0
      const undone: string[] = []
      const pay = workflow('pay', async (ctx) => {
        await ctx.step('charge', () => 'charged', { compensate: () => void undone.push('charge') })
        return await ctx.transaction('ledger', async (db) => {
          calls += 1
          const row = await db.get('SELECT pg_backend_pid() AS pid')
          if (calls === 1) await kill(row!.pid)
          if (calls === 2) {
            await kill(row!.pid)
            // One that hides the failure does not get around it.
            await db.run('SELECT 1').catch(() => undefined)
            return 'hidden'
          }
          await db.run('SELECT 1')
          return 'done'
        })
      })
      const run = await rp.run(pay, { id: 'one' })
      expect(await run.result()).toBe('done')
      expect(calls).toBe(3)
      expect(undone).toEqual([])
    })
  },
  ['postgres'],
)
