// The dashboard: the size of its scripts, the time until runs and journals are visible in a real browser, and a page of 100,000
// timelines found by the server. Each view is measured beside the same view of a small store in the same browser, each time by a
// server that has read nothing yet. Skipped without a browser.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
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

const runs = Number(process.env.REPRISE_RUNS ?? 20_000)
const few = 20
const entries = 10_000
const atOnce = 200

let browser = null
let worlds = []
let searched = null

/** A store in a folder of its own, filled by `fill`. */
async function openWorld(fill) {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-bench-dashboard-'))
  const rp = await open(`sqlite:${join(folder, 'store.db')}`, { housekeeping: false })
  const world = { folder, rp }
  worlds.push(world)
  await fill(rp)
  return world
}

async function stop() {
  await browser?.close()
  browser = null
  for (const { folder, rp } of worlds) {
    await rp.close()
    rmSync(folder, { recursive: true, force: true })
  }
  worlds = []
}

async function launchBrowser() {
  const found = await findBrowser()
  if (!('missing' in found)) browser = await launch(found)
}

const serveOver = (rp) => serve(rp, { tokens: [{ name: 'owner', token, role: 'write' }], definitions: [steps] })

/** From the address to the first row, in a new page with an empty cache, by a server that has read nothing. */
async function firstView({ rp }, hash, row, { isWarm = false } = {}) {
  const server = serveOver(rp)
  const listening = await listen(server, { port: 0, limits: defaultServerLimits })
  const context = await browser.newContext({ locale: 'en-US' })
  try {
    const page = await context.newPage()
    // Signs in over HTTP: the first view is measured, not the login.
    await page.goto(`${listening.url}/v1/openapi.json`)
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const response = await fetch(`${listening.url}/v1/sessions`, { method: 'POST', headers, body: '{}' })
    const { session } = await response.json()
    if (isWarm) await search(server, 'limit=1')
    await page.evaluate((text) => localStorage.setItem('reprise-session /', text), session)
    await page.addInitScript(noteFirst, row)
    await page.goto(`${listening.url}/${hash}`)
    // The page itself records the time: this process is also the server, and reads its clock late while it is busy.
    return await (await page.waitForFunction(() => window.firstRowAt)).jsonValue()
  } finally {
    await context.close()
    await listening.close()
    await server.close()
  }
}

/** In the page: the time from the navigation to the frame with the first row. */
function noteFirst(row) {
  const observer = new MutationObserver(() => {
    if (!document.querySelector(row)) return
    observer.disconnect()
    requestAnimationFrame(() => {
      window.firstRowAt = performance.now()
    })
  })
  observer.observe(document, { childList: true, subtree: true })
}

async function runMany(rp, count) {
  rp.work([steps])
  for (let n = 0; n < count; n += atOnce) {
    const some = Array.from({ length: Math.min(atOnce, count - n) }, (_, i) => n + i)
    await Promise.all(some.map(async (id) => await (await rp.run(steps, 2, { id: `run-${id}` })).result()))
  }
}

async function runLong(rp, count) {
  rp.work([steps])
  await (await rp.run(steps, count - 2, { id: 'one' })).result()
}

async function openMany(rp) {
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
}

const ofRuns = 'table.runs tbody tr'
const ofJournal = '.journal-list .row'

/** The small store is measured directly before and after the large one. */
async function beside(hash, row) {
  if (!browser) return { skip: 'there is no browser' }
  const [large, small] = worlds
  const before = await firstView(small, hash, row)
  const value = await firstView(large, hash, row)
  const after = await firstView(small, hash, row)
  // As after `reprise serve`, which reads its index when it starts.
  const warm = await firstView(large, hash, row, { isWarm: true })
  return { value, baseline: (before + after) / 2, details: { warm, load: loadavg()[0] } }
}

async function search(server, query) {
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
    name: 'dashboard-first-runs',
    unit: 'ms',
    target: { valueMax: 1000 },
    note: `first rows of ${runs} runs; baseline: of ${few} runs`,
    async setup() {
      await openWorld((rp) => runMany(rp, runs))
      await openWorld((rp) => runMany(rp, few))
      await launchBrowser()
    },
    teardown: stop,
    run: () => beside('#/runs', ofRuns),
  },
  {
    name: 'dashboard-first-journal',
    unit: 'ms',
    target: { valueMax: 500 },
    note: `first rows of a journal of ${entries} entries; baseline: of ${few} entries`,
    async setup() {
      await openWorld((rp) => runLong(rp, entries))
      await openWorld((rp) => runLong(rp, few))
      await launchBrowser()
    },
    teardown: stop,
    run: () => beside('#/t/workflow%2Fsteps%2Fone', ofJournal),
  },
  {
    name: 'search-timelines',
    unit: 'ms for a page of 50',
    note: `of ${timelines} timelines, by text; the first question reads all heads`,
    async setup() {
      const { rp } = await openWorld(openMany)
      searched = serveOver(rp)
    },
    async teardown() {
      await searched.close()
      await stop()
    },
    async run({ index }) {
      const first = index === 0 ? (await search(searched, 'limit=50')).ms : null
      const { ms, total } = await search(searched, `text=order-${index}7&limit=50`)
      return { value: ms, details: { found: total, ...(first !== null && { first }) } }
    },
  },
]
