// Functions that a platform starts and ends: the way from a new process to its first step, the bytes that are deployed, and the
// cost of an invocation without due work.

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { open } from '../lib/index.js'
import { workflow } from '../lib/layers/workflow/index.js'
import { pair } from './measure.mjs'
import { startServer } from './support/postgres.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const source = join(root, 'bench/support/cold-function.mjs')
const bare = join(root, 'bench/support/cold-driver.mjs')
const requiring =
  "import { createRequire as requireIn } from 'node:module'; const require = requireIn(import.meta.url);"
const sleepers = 1000
const wakes = 20

let folder = null
let server = null
let starts = 0
const urls = {
  sqlite: () => `sqlite:${join(folder, 'store.db')}`,
  postgres: () => `${server.url}?schema=serverless`,
}

async function setup() {
  folder = mkdtempSync(join(tmpdir(), 'reprise-serverless-'))
  // Native drivers stay outside of a bundle.
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  await bundled('function.mjs', false)
}

async function setupPostgres() {
  await setup()
  server = await startServer()
}

async function teardown() {
  await server?.stop()
  server = null
  rmSync(folder, { recursive: true, force: true })
}

/** As a function is deployed, with its driver of PostgreSQL inside. */
async function bundled(name, minify) {
  const outfile = join(folder, name)
  const shape = { bundle: true, format: 'esm', platform: 'node', external: ['pg-native', '@photostructure/sqlite'] }
  await build({ entryPoints: [source], outfile, minify, banner: { js: requiring }, logLevel: 'error', ...shape })
  return statSync(outfile).size
}

/** From the start of the process until its first step, or (bare) until its first statement. */
async function coldMs(kind, store) {
  starts += 1
  const args = [kind === 'bare' ? bare : join(folder, 'function.mjs'), urls[store](), `run-${starts}`]
  const startedAt = Date.now()
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.on('data', (piece) => {
    text += piece
  })
  const code = await new Promise((resolve) => child.once('close', resolve))
  if (code !== 0) throw new Error(`the function ended with ${code}`)
  return Number(text) - startedAt
}

function coldStart(store) {
  return {
    name: `first-step-${store}`,
    unit: 'ms',
    note: 'from the start of a process until its first step; beside it a process with the bare driver, until its first statement',
    setup: store === 'postgres' ? setupPostgres : setup,
    teardown,
    run: pair({ value: () => coldMs('ours', store), baseline: () => coldMs('bare', store) }),
  }
}

/** The processor time of this process for one invocation without due work. */
async function emptyWake(store) {
  const rest = workflow('rest', async (ctx) => {
    await ctx.sleep('30d')
  })
  const rp = await open(urls[store](), { housekeeping: false })
  for (let i = 0; i < sleepers; i += 100) {
    const ids = Array.from({ length: 100 }, (_, n) => `r${i + n}`)
    await Promise.all(ids.map((id) => rp.run(rest, { id, here: false })))
  }
  await rp.workUntil([rest], { budget: '60s', idle: 300 })
  const before = process.cpuUsage()
  for (let i = 0; i < wakes; i++) {
    const { done } = await rp.workUntil([rest], { budget: '10s', idle: 1 })
    if (done > 0) throw new Error('a wake had work')
  }
  const { user, system } = process.cpuUsage(before)
  await rp.close()
  return { value: (user + system) / 1000 / wakes }
}

export default [
  coldStart('sqlite'),
  coldStart('postgres'),
  {
    name: 'bundle-bytes',
    unit: 'KB',
    note: 'a function with one workflow, the handlers and the PostgreSQL driver, bundled by esbuild and minified',
    setup,
    teardown,
    run: async () => ({ value: (await bundled('small.mjs', true)) / 1000 }),
  },
  ...['sqlite', 'postgres'].map((store) => ({
    name: `empty-wake-${store}`,
    unit: 'CPU ms',
    note: `workUntil without due work in a warm process, beside ${sleepers} sleeping runs`,
    run: async () => {
      await (store === 'postgres' ? setupPostgres() : setup())
      try {
        return await emptyWake(store)
      } finally {
        await teardown()
      }
    },
  })),
]
