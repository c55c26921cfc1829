// PostgreSQL through Neon's serverless driver: the conformance suite, with a proxy from WebSocket to TCP before a local server.

import { spawn } from 'node:child_process'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createWebSocketStream, WebSocketServer } from 'ws'
import { temporaryFolder } from '../support/fixture.ts'
import { type StoreUrl, storeUrls } from '../support/store-urls.ts'

const here = fileURLToPath(new URL('.', import.meta.url))
const bundle = join(temporaryFolder('neon'), 'conformance.mjs')
const requiring =
  "import { createRequire as requireIn } from 'node:module'; const require = requireIn(import.meta.url);"
/** Commits with the user's SQL are in the slice: they submit queries of their own to the driver. */
const slice = process.env.REPRISE_RUNTIMES === 'all' ? '' : 'commits,riders'

let store: StoreUrl
let proxy: WebSocketServer
beforeAll(async () => {
  await build({
    entryPoints: [join(here, 'conformance.mjs')],
    outfile: bundle,
    bundle: true,
    format: 'esm',
    platform: 'node',
    alias: { pg: join(here, 'neon-driver.mjs') },
    banner: { js: requiring },
    logLevel: 'error',
  })
  store = storeUrls.postgres!()
  const { hostname, port } = new URL(store.url)
  proxy = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await new Promise((resolve) => proxy.once('listening', resolve))
  proxy.on('connection', (client) => {
    const outside = createWebSocketStream(client)
    const server = connect(Number(port), hostname)
    for (const each of [outside, server]) each.on('error', () => void [outside, server].map((end) => end.destroy()))
    outside.pipe(server).pipe(outside)
  })
})
afterAll(async () => {
  proxy.close()
  await store.remove()
})

it('E1: the PostgreSQL store passes the conformance suite through the driver of Neon', async () => {
  const { port } = proxy.address() as AddressInfo
  const child = spawn(process.execPath, [bundle, 'postgres', store.url, slice], {
    env: { ...process.env, NODE_OPTIONS: '', WS_PROXY: `127.0.0.1:${port}/` },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (text) => {
    output += text
  })
  const code = await new Promise((resolve) => child.once('exit', resolve))
  const groups = output
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { count: number; failed: string[] })
  expect(groups.flatMap(({ failed }) => failed)).toEqual([])
  expect(code).toBe(0)
  expect(groups.reduce((sum, { count }) => sum + count, 0)).toBeGreaterThan(20)
}, 600_000)
