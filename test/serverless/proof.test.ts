// Invocations as separate processes, two at a time: a third of them is killed, some are frozen beyond their lease and continue.
// Nothing is lost, and every effect keeps its key, so a receiver that honours keys does it once.
// CI starts 12 in each store; more: REPRISE_INVOCATIONS=300 npx vitest run test/serverless/proof.test.ts

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { open } from 'reprise'
import { afterAll, expect, inject, it } from 'vitest'
import { order } from '../../examples/serverless/orders.ts'
import { pause, temporaryFolder } from '../support/fixture.ts'
import { wrongIn } from '../support/outside.ts'
import { startPgBouncer } from '../support/parts.ts'
import { type StoreUrl, storeUrls } from '../support/store-urls.ts'
import { Invocation } from './invocation.ts'

const invocations = Number(process.env.REPRISE_INVOCATIONS ?? 12)
/** Longer than the lease of examples/serverless/orders.ts. */
const frozenMs = 4000
const budgetMs = 1500

/** Behind PgBouncer, a connection is another one in each transaction. */
const pooler = await startPgBouncer(inject('postgresUrl'))
afterAll(async () => await pooler?.stop())
const places = [...Object.keys(storeUrls), ...(pooler ? ['PgBouncer in transaction mode'] : [])]

function placeOf(kind: string): StoreUrl {
  if (storeUrls[kind]) return storeUrls[kind]()
  const { url, remove } = storeUrls.postgres!()
  const behind = new URL(pooler!.url)
  behind.search = new URL(url).search
  return { url: behind.href, remove }
}

it.each(places)(
  'loses and doubles nothing over killed, frozen and concurrent invocations (%s)',
  async (kind) => {
    const { url, remove } = placeOf(kind)
    const ledger = join(temporaryFolder('proof'), 'ledger')
    const rp = await open(url, { housekeeping: false })
    try {
      let begun = 0
      const invokeNext = async () => {
        for (let n = begun++; n < invocations; n = begun++) {
          await rp.run(order, `item-${n}`, { id: `order-${n}`, here: false })
          const invocation = new Invocation('lambda', { url, ledger, ms: budgetMs })
          const fate = n % 3 === 0 ? 'killed' : n % 10 === 5 ? 'frozen' : 'whole'
          if (fate !== 'whole') await pause(200 + Math.random() * budgetMs)
          if (fate === 'killed') invocation.child.kill('SIGKILL')
          if (fate === 'frozen' && invocation.child.kill('SIGSTOP')) {
            await pause(frozenMs)
            invocation.child.kill('SIGCONT')
          }
          // On a busy machine the budget may be over before the store is open: such an invocation did nothing.
          const ended = invocation.ended.catch((error: Error) => {
            if (error.message.includes('[TIMEOUT]')) return { code: 0 }
            throw error
          })
          const { code } = await ended
          if (fate !== 'killed') expect(code).toBe(0)
        }
      }
      await Promise.all([invokeNext(), invokeNext()])
      const completed = async () => (await rp.list({ prefix: 'workflow/order/', status: 'completed' })).length
      while ((await completed()) < invocations) {
        await new Invocation('lambda', { url, ledger, ms: 60_000 }).ended
      }
      for (let n = 0; n < invocations; n++) {
        const run = await rp.run(order, `item-${n}`, { id: `order-${n}`, here: false })
        expect(await run.result()).toEqual([`charge item-${n}`, `ship item-${n}`])
      }
      expect(existsSync(ledger)).toBe(true)
      expect(wrongIn(ledger)).toBe(null)
      const intents = readFileSync(ledger, 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => line.slice(line.indexOf(' ') + 1))
      expect(new Set(intents).size).toBe(2 * invocations)
    } finally {
      await rp.close()
      await remove()
    }
  },
  20_000 * invocations,
)
