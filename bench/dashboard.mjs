// The dashboard: what its scripts weigh, how soon a run is seen in a real browser, and a page of 100,000 timelines found by the
// server. Skipped where there is no browser.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { open, timeline } from '../dist/index.js'
import { workflow } from '../dist/layers/workflow/index.js'
import { serve } from '../dist/server/index.js'
import { defaultServerLimits } from '../dist/server/limits.js'
import { listen } from '../dist/server/listen.js'
import { findBrowser, launch } from '../test/support/browser.mjs'

const timelines = Number(process.env.REPRISE_TIMELINES ?? 100_000)
const token = 'x'.repeat(40)
const assets = fileURLToPath(new URL('../dist/dashboard/assets/', import.meta.url))

const counter = timeline('counter', { initial: () => ({ total: 0 }), apply: (state) => state })
const steps = workflow('steps', async (ctx, count) => {
  for (let n = 0; n < count; n += 1) await ctx.step(`step-${n}`, () => n)
  return count
})

let folder = null
let rp = null
let server = null
let listening = null
let browser = null
let context = null

async function start() {
  folder = mkdtempSync(join(tmpdir(), 'reprise-bench-dashboard-'))
  rp = await open(`sqlite:${join(folder, 'store.db')}`, { housekeeping: false })
  server = serve(rp, { tokens: [{ name: 'owner', token, role: 'write' }] })
}

async function stop() {
  await browser?.close()
  await listening?.close()
  await server.close()
  await rp.close()
  rmSync(folder, { recursive: true, force: true })
  browser = listening = null
}

async function search(query) {
  const headers = { authorization: `Bearer ${token}` }
  const before = performance.now()
  const response = await server(new Request(`http://127.0.0.1/v1/search?${query}`, { headers }))
  const { total } = await response.json()
  return { ms: performance.now() - before, total }
}

export default [
  {
    name: 'dashboard-weight',
    unit: 'KB of script, compressed',
    target: { valueMax: 150 },
    run() {
      const scripts = readdirSync(assets).filter((name) => name.endsWith('.js'))
      const bytes = scripts.reduce((sum, name) => sum + gzipSync(readFileSync(join(assets, name))).length, 0)
      return { value: bytes / 1000 }
    },
  },
  {
    name: 'dashboard-first-view',
    unit: 'ms',
    target: { valueMax: 1000 },
    note: 'from the address to the last row of a run of 1,000 steps, in a new page of a browser that has nothing in its cache',
    async setup() {
      await start()
      const found = await findBrowser()
      if ('missing' in found) return
      rp.work([steps])
      await (await rp.run(steps, 1000, { id: 'one' })).result()
      listening = await listen(server, { port: 0, limits: defaultServerLimits })
      browser = await launch(found)
    },
    teardown: stop,
    async run() {
      if (!browser) return { skip: 'there is no browser' }
      context = await browser.newContext({ locale: 'en-US' })
      const session = await context.request.get(listening.url + server.link('owner'))
      if (!session.ok()) throw new Error(`the link answered ${session.status()}`)
      const page = await context.newPage()
      const before = performance.now()
      await page.goto(`${listening.url}/#/t/workflow%2Fsteps%2Fone`)
      await page.getByText('1,002 rows').waitFor()
      const value = performance.now() - before
      await context.close()
      return { value }
    },
  },
  {
    name: 'search-timelines',
    unit: 'ms for a page of 50',
    note: `of ${timelines} timelines, by text; the first question reads all heads`,
    async setup() {
      await start()
      for (let n = 0; n < timelines; n += 500) {
        const some = Array.from({ length: Math.min(500, timelines - n) }, (_, i) => n + i)
        await Promise.all(
          some.map(async (id) => {
            const handle = await rp.open(counter, `order-${id}`)
            await handle.append({ type: 'added' })
            await handle.close()
          }),
        )
      }
    },
    teardown: stop,
    async run({ index }) {
      const first = index === 0 ? (await search('limit=50')).ms : null
      const { ms, total } = await search(`text=order-${index}7&limit=50`)
      return { value: ms, details: { found: total, ...(first !== null && { first }) } }
    },
  },
]
