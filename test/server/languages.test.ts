// Workers in other languages execute the steps of workflows and the items of a job, while they and the server are killed with
// SIGKILL: all of it is done, and acknowledged work is never assigned again.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { root } from '../cli/support.ts'
import { until } from '../support/fixture.ts'
import { type Cleanups, Client, type Place, placeOn, startServe, tokenIn } from './serving.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const items = 40
const runs = 4

const flows = `
import { job } from '${root}lib/layers/job/index.js'
import { workflow } from '${root}lib/layers/workflow/index.js'
import { remote } from '${root}lib/adapters/remote/index.js'
const square = remote('squares')
export const squares = job('squares', {
  source: Array.from({ length: ${items} }, (_, n) => ({ n })), key: (item) => String(item.n),
  concurrency: 8, each: (item, ctx) => square(item, ctx),
})
export const fourth = workflow('fourth', async (ctx, n) => {
  const once = await ctx.step('once', (step) => square({ n }, step))
  return await ctx.step('twice', (step) => square({ n: once }, step))
})
`

interface Worker {
  /** Keys that the server acknowledged to it. */
  readonly keys: string[]
  kill(): Promise<void>
}

function startWorker(command: string, args: readonly string[], { port }: Place, token: string): Worker {
  const env = {
    ...process.env,
    REPRISE_SERVER: `http://127.0.0.1:${port}`,
    REPRISE_TOKEN: token,
    REPRISE_TTL_MS: '1000',
  }
  const child: ChildProcess = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const keys: string[] = []
  let text = ''
  child.stdout!.on('data', (piece: Buffer) => {
    text += piece
    const lines = text.split('\n')
    text = lines.pop()!
    keys.push(...lines)
  })
  const kill = async () => {
    child.kill('SIGKILL')
    await closed
  }
  cleanups.push(kill)
  return { keys, kill }
}

const has = (command: string, ...args: string[]) => spawnSync(command, args).status === 0

async function survive(command: string, args: readonly string[]): Promise<void> {
  const place = await placeOn('sqlite', cleanups)
  writeFileSync(join(place.folder, 'flows.mjs'), flows)
  const more = ['--module', 'flows.mjs', '--work']
  let server = await startServe(place, cleanups, more)
  const token = tokenIn(place.folder)
  const client = new Client(place.port, token)
  let worker = startWorker(command, args, place, token)
  const acknowledged: string[] = []
  await client.insist('/v1/runs', { name: 'squares' }, 'job')
  for (let n = 0; n < runs; n++)
    await client.insist('/v1/runs', { name: 'fourth', id: `r${n}`, input: n + 2 }, `run-${n}`)
  await until(() => worker.keys.length >= 5)
  await server.kill()
  server = await startServe(place, cleanups, more)
  await worker.kill()
  acknowledged.push(...worker.keys)
  worker = startWorker(command, args, place, token)
  const result = (timeline: string) =>
    client.insist(`/v1/timelines/${encodeURIComponent(timeline)}/result?waitMs=10000`)
  for (let n = 0; n < runs; n++) {
    let ended = await result(`workflow/fourth/r${n}`)
    while (!ended.isEnded) ended = await result(`workflow/fourth/r${n}`)
    expect(ended).toMatchObject({ status: 'completed', result: (n + 2) ** 4 })
  }
  await until(async () => (await result('job/squares')).isEnded)
  const shown = await client.insist(`/v1/timelines/${encodeURIComponent('job/squares')}`)
  expect(shown.summary).toMatchObject({ finished: items, deadLetters: 0 })
  acknowledged.push(...worker.keys)
  expect(new Set(acknowledged).size).toBe(acknowledged.length)
  // Writes whose answer was lost with a process were not acknowledged.
  expect(acknowledged.length).toBeLessThanOrEqual(items + 2 * runs)
  expect(acknowledged.length).toBeGreaterThan(0)
}

it('a worker in Python and the server are killed, and everything is done', async (context) => {
  if (!has('python3', '--version')) {
    console.warn('the Python worker is left out: there is no python3 here')
    return context.skip()
  }
  await survive('python3', [join(root, 'examples/remote/worker.py'), 'squares'])
}, 300_000)

it('a worker in Go and the server are killed, and everything is done', async (context) => {
  if (!has('go', 'version')) {
    console.warn('the Go worker is left out: there is no go here')
    return context.skip()
  }
  await survive(builtWorker(), ['squares'])
}, 600_000)

/** Built once per machine and source: without a cache the compiler takes most of a minute. */
function builtWorker(): string {
  const source = join(root, 'examples/remote/worker.go')
  const print = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 16)
  const file = join(tmpdir(), `reprise-worker-${print}`)
  if (existsSync(file)) return file
  const part = `${file}.${process.pid}`
  const built = spawnSync('go', ['build', '-ldflags=-s -w', '-o', part, source], { encoding: 'utf8' })
  expect(built.stderr).toBe('')
  renameSync(part, file)
  return file
}
