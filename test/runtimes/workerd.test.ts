// The package in workerd, bundled as a deployment is, on PostgreSQL. npm installs workerd with miniflare, which needs Node 22;
// offline the tests are skipped with the reason.

import { type ChildProcess, spawn } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { temporaryFolder, until } from '../support/fixture.ts'
import { miniflare as miniflareLibrary, nodeAt, programOf } from '../support/runtimes.ts'
import { type StoreUrl, storeUrls } from '../support/store-urls.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const host = join(root, 'test/runtimes/workerd-host.mjs')
const miniflare = programOf(miniflareLibrary)
const node = miniflare && programOf(nodeAt('22'))
/** Every order but one causes a kill. More: REPRISE_INVOCATIONS=30 npx vitest run test/runtimes/workerd.test.ts */
const orders = Number(process.env.REPRISE_INVOCATIONS ?? 3)

interface Ledger {
  readonly url: string
  readonly requests: { readonly path: string; readonly key: string }[]
  close(): void
}

async function startLedger(): Promise<Ledger> {
  const requests: Ledger['requests'] = []
  const server = createServer((request, response) => {
    requests.push({ path: request.url!, key: String(request.headers['idempotency-key']) })
    response.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, requests, close: () => server.close() }
}

/** The host and workerd, its child, in a group of their own, so that one signal ends both. */
async function startWorkerd(bundle: string, store: string, ledger: string) {
  const args = [host, miniflare!, basename(bundle), store, ledger]
  const child: ChildProcess = spawn(node!, args, {
    cwd: dirname(bundle),
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout!.on('data', (text) => {
    output += text
  })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  await until(() => /^http\S+/.test(output), ended)
  const ask = async (path: string) => await (await fetch(new URL(path, output.trim()))).json()
  const kill = async () => {
    process.kill(-child.pid!, 'SIGKILL')
    await ended
  }
  return { ask, kill }
}

describe.runIf(node)('E1: workerd', () => {
  const bundle = join(temporaryFolder('workerd'), 'worker.mjs')
  let store: StoreUrl
  let ledger: Ledger
  beforeAll(async () => {
    const banner = "import { createRequire as requireIn } from 'node:module'; const require = requireIn('file:///');"
    await build({
      entryPoints: [join(root, 'test/runtimes/worker.mjs')],
      outfile: bundle,
      bundle: true,
      format: 'esm',
      platform: 'node',
      conditions: ['workerd', 'worker'],
      external: ['cloudflare:*', 'pg-native'],
      banner: { js: banner },
      logLevel: 'error',
    })
    store = storeUrls.postgres!()
    ledger = await startLedger()
  })
  afterAll(async () => {
    ledger.close()
    await store.remove()
  })

  it('runs the models, refuses a store that needs files, and names the runtime', async () => {
    const workerd = await startWorkerd(bundle, store.url, ledger.url)
    const checked = (await workerd.ask('/checks')) as { readonly ok: boolean }[]
    expect(checked.filter(({ ok }) => !ok)).toEqual([])
    expect(checked.length).toBeGreaterThanOrEqual(6)
    const refused = await workerd.ask('/open?url=sqlite:store.db')
    expect(refused).toMatchObject({ code: 'STORE_UNSUPPORTED', message: expect.stringContaining('workerd') })
    const folder = await workerd.ask(`/open?url=memory:&options=${encodeURIComponent('{"blobs":"./chunks"}')}`)
    expect(folder).toMatchObject({ code: 'STORE_UNSUPPORTED', message: expect.stringContaining('workerd') })
    await workerd.kill()
  })

  it(
    'continues runs of a workerd that was killed: each effect has one key, and none is missing',
    async () => {
      const ids = Array.from({ length: orders }, (_, i) => `o${i}`)
      let workerd = await startWorkerd(bundle, store.url, ledger.url)
      for (const id of ids) await workerd.ask(`/start?id=${id}`)
      const rp = await open(store.url)
      const isDone = async () =>
        (await rp.list({ prefix: 'workflow/order/', status: 'completed' })).length === ids.length
      for (let kills = 0; !(await isDone()); kills++) {
        const before = ledger.requests.length
        let isAnswered = false
        const asked = workerd.ask('/').then(
          () => {
            isAnswered = true
          },
          () => undefined,
        )
        if (kills >= orders - 1) await asked
        else await until(() => isAnswered || ledger.requests.length > before + 2)
        await workerd.kill()
        workerd = await startWorkerd(bundle, store.url, ledger.url)
      }
      await workerd.kill()
      await rp.close()
      const wanted = ids.flatMap((id) => ['charge', 'pack', 'ship'].map((step) => `/${id}/${step}`)).sort()
      expect([...new Set(ledger.requests.map(({ path }) => path))].sort()).toEqual(wanted)
      expect(new Set(ledger.requests.map(({ path, key }) => `${path} ${key}`)).size).toBe(wanted.length)
    },
    40_000 * orders,
  )
})
