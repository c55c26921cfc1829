// A route handler in an application of Next.js: built with the packed tarball, started, killed in the middle of a run, and
// started again. npm installs Next.js, which takes a minute: only `npm run test:runtimes` does this.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { open } from 'reprise'
import { workflow } from 'reprise/workflow'
import { expect, it } from 'vitest'
import { temporaryFolder, until } from '../support/fixture.ts'
import { installPackage, nodeAt, programOf } from '../support/runtimes.ts'

const secret = 'a secret of the scheduler'
/** Turbopack bundles the package; only a driver that is part of Node is then found. */
const node = process.env.REPRISE_RUNTIMES === 'all' ? programOf(nodeAt('22')) : null

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** Next.js starts processes of its own: the group ends with one signal. */
async function startNext(folder: string, env: Readonly<Record<string, string>>) {
  const port = await freePort()
  const child: ChildProcess = spawn(node!, ['node_modules/next/dist/bin/next', 'start', '-p', String(port)], {
    ...{ cwd: folder, detached: true, stdio: 'ignore' },
    env: { ...process.env, ...env, NODE_OPTIONS: '', NODE_ENV: 'production' },
  })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const url = `http://127.0.0.1:${port}/api/run-due`
  let isUp = false
  await until(() => {
    fetch(url).then(
      () => {
        isUp = true
      },
      () => undefined,
    )
    return isUp
  }, ended)
  return {
    tick: () => fetch(url, { headers: { authorization: `Bearer ${secret}` } }),
    async kill() {
      process.kill(-child.pid!, 'SIGKILL')
      await ended
    },
  }
}

it.runIf(node)(
  'E1: a route of Next.js is built, killed in the middle of a run, and resumes it',
  async () => {
    const folder = temporaryFolder('next')
    cpSync(fileURLToPath(new URL('next-app', import.meta.url)), folder, { recursive: true })
    installPackage(folder, ['next@16', 'react@19', 'react-dom@19'])
    const built = spawnSync(node!, ['node_modules/next/dist/bin/next', 'build'], {
      ...{ cwd: folder, encoding: 'utf8', timeout: 600_000 },
      env: { ...process.env, NODE_OPTIONS: '', NODE_ENV: 'production', NEXT_TELEMETRY_DISABLED: '1' },
    })
    expect(built.status, built.stdout + built.stderr).toBe(0)
    const ledger = join(folder, 'ledger')
    const lines = () => (existsSync(ledger) ? readFileSync(ledger, 'utf8').trim().split('\n') : [])
    const env = { LEDGER: ledger, STORE: `sqlite:${join(folder, 'store.db')}`, CRON_SECRET: secret }
    const rp = await open(env.STORE)
    await rp.run(
      workflow('order', async () => {}),
      { id: 'one', here: false },
    )

    const first = await startNext(folder, env)
    first.tick().catch(() => undefined)
    await until(() => lines().length >= 5)
    await first.kill()
    expect(lines().length).toBeLessThan(20)
    const second = await startNext(folder, env)
    const answer = await second.tick()
    await second.kill()

    expect(answer.status).toBe(200)
    expect(await rp.list({ prefix: 'workflow/order/', status: 'completed' })).toHaveLength(1)
    await rp.close()
    // The step in flight at the kill is executed again, under its key.
    expect(new Set(lines()).size).toBe(20)
    expect(lines().length).toBeLessThanOrEqual(21)
  },
  900_000,
)
