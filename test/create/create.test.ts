// npm create reprise: every template is written, started, killed with SIGKILL in the middle of its work, and resumes it. The
// slice uses the packages of the repository; REPRISE_CREATE=all installs each template from the packed tarball, as users do.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { root } from '../../site/pages.ts'
import { killOnce, linesOf } from '../site/tutorial.ts'
import { temporaryFolder, until } from '../support/fixture.ts'
import { freePort } from '../support/parts.ts'

const program = join(root, 'create-reprise/create.mjs')
const isAll = process.env.REPRISE_CREATE === 'all'
if (!isAll) console.warn('templates are not installed from the tarball: REPRISE_CREATE=all does it, in minutes')
const names = ['job', 'workflow', 'agent', 'pipeline']

const create = (...args: string[]) => spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' })

it('writes each template with its dependencies and the lines for coding agents', () => {
  const home = temporaryFolder('create')
  for (const name of names) {
    const made = create(join(home, name), '--template', name, '--package', '^1.2.3', '--no-install')
    expect([name, made.status, made.stderr]).toEqual([name, 0, ''])
    const manifest = JSON.parse(readFileSync(join(home, name, 'package.json'), 'utf8')) as Manifest
    expect(manifest.dependencies.reprise).toBe('^1.2.3')
    expect(readFileSync(join(home, name, 'AGENTS.md'), 'utf8')).toContain('SKILL.md')
  }
}, 300_000)

it('refuses a folder with files, an unknown template and a missing folder, and writes nothing', () => {
  const home = temporaryFolder('create')
  writeFileSync(join(home, 'mine.txt'), 'mine')
  for (const [args, shown] of [
    [[home, '--no-install'], 'is not empty'],
    [[join(home, 'new'), '--template', 'cobol'], 'there is no template cobol'],
    [[], 'Usage'],
    [[join(home, 'new'), '--tempalte', 'job'], 'Usage'],
  ] as const) {
    const made = create(...args)
    expect([made.status, made.stderr]).toEqual([2, expect.stringContaining(shown)])
  }
  expect(readdirSync(home)).toEqual(['mine.txt'])
}, 300_000)

it('the template with Hono: an order is charged once, over a SIGKILL', async () => {
  const home = join(temporaryFolder('create'), 'shop')
  if (!isAll) provide(home, ['reprise', 'hono', '@hono/node-server'])
  expect(create(home, '--template', 'workflow', ...installed(isAll)).status).toBe(0)
  await orderOnce(home, [process.execPath, 'server.mjs'])
}, 300_000)

it.runIf(isAll)(
  'a job from the tarball resumes after a SIGKILL',
  async () => {
    const home = join(temporaryFolder('create'), 'job')
    expect(create(home, '--template', 'job', ...installed(true)).status).toBe(0)
    const bin = 'node_modules/reprise/dist/cli/bin.cjs'
    await killOnce([bin, 'run', 'papers.mjs'], home, () => existsSync(join(home, '.reprise/reprise.db')))
    const resumed = spawnSync(process.execPath, [bin, 'run', 'papers.mjs'], { cwd: home, encoding: 'utf8' })
    const [, done, skipped] = /(\d+) items done(?:, (\d+) skipped)?/.exec(resumed.stdout)!
    expect(Number(done) + Number(skipped ?? 0)).toBe(500)
  },
  300_000,
)

it.runIf(isAll)(
  'an agent from the tarball calls its tool with one key, over a SIGKILL',
  async () => {
    const home = join(temporaryFolder('create'), 'agent')
    expect(create(home, '--template', 'agent', ...installed(true)).status).toBe(0)
    await killOnce(['chat-support.mjs'], home, () => linesOf(join(home, 'bank.txt')).length > 0)
    const resumed = spawnSync(process.execPath, ['chat-support.mjs'], { cwd: home, encoding: 'utf8' })
    expect([resumed.status, resumed.stdout]).toEqual([0, 'Your money is on its way.\n'])
    expect(new Set(linesOf(join(home, 'bank.txt'))).size).toBe(1)
  },
  300_000,
)

it.runIf(isAll)(
  'a pipeline from the tarball counts each record once, over a SIGKILL',
  async () => {
    const home = join(temporaryFolder('create'), 'pipeline')
    expect(create(home, '--template', 'pipeline', ...installed(true)).status).toBe(0)
    const bin = 'node_modules/reprise/dist/cli/bin.cjs'
    const place = join(home, 'readings-counts')
    const results = () =>
      (existsSync(place) ? readdirSync(place) : [])
        .filter((name) => name.endsWith('.jsonl'))
        .flatMap((name) => linesOf(join(place, name)).map((line) => (JSON.parse(line) as { value: number }).value))
    await killOnce([bin, 'run', 'readings.mjs'], home, () => results().length > 0)
    const resumed = spawnSync(process.execPath, [bin, 'run', 'readings.mjs'], { cwd: home, encoding: 'utf8' })
    expect([resumed.status, results().reduce((sum, value) => sum + value, 0)]).toEqual([0, 300])
  },
  300_000,
)

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>
}

let tarball = ''

/** The options of `create`: from the packed tarball, or into a folder that has its packages. */
function installed(isPacked: boolean): string[] {
  if (!isPacked) return ['--no-install']
  if (tarball === '') {
    const folder = join(root, '.built/create')
    mkdirSync(folder, { recursive: true })
    const packed = spawnSync('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: root, encoding: 'utf8' })
    expect(packed.status, packed.stderr).toBe(0)
    tarball = join(folder, packed.stdout.trim().split('\n').at(-1)!)
  }
  return ['--package', tarball]
}

/** Links packages of the repository, and the repository itself as `reprise`. */
function provide(home: string, packages: readonly string[]): void {
  for (const name of packages) {
    const place = join(home, 'node_modules', name)
    mkdirSync(dirname(place), { recursive: true })
    symlinkSync(name === 'reprise' ? root : join(root, 'node_modules', name), place, 'dir')
  }
}

/** Starts an order over HTTP, kills the service after the charge, and sees the order end in the next process. */
async function orderOnce(home: string, command: readonly string[]): Promise<void> {
  const bank = join(home, 'bank.txt')
  const first = await start(home, command)
  const body = JSON.stringify({ id: 'a1', cents: 1999 })
  const headers = { 'content-type': 'application/json' }
  expect((await fetch(`${first.url}/orders`, { method: 'POST', body, headers })).status).toBe(202)
  await until(() => linesOf(bank).length > 0)
  await first.kill()
  const second = await start(home, command)
  try {
    let status = ''
    const look = async () => {
      status = ((await (await fetch(`${second.url}/orders/a1`)).json()) as { status: string }).status
    }
    while (status !== 'completed') {
      await look()
      expect(['waiting', 'running', 'completed']).toContain(status)
    }
    expect((await fetch(`${second.url}/orders/none`)).status).toBe(404)
  } finally {
    await second.kill()
  }
  expect(linesOf(bank).length).toBeLessThan(3)
  expect(new Set(linesOf(bank)).size).toBe(1)
}

/** Frameworks start processes of their own: the group ends with one signal. */
async function start(home: string, [program, ...args]: readonly string[]) {
  const port = await freePort()
  const env = { ...process.env, PORT: String(port), NODE_OPTIONS: '', NODE_ENV: 'production' }
  const child: ChildProcess = spawn(program!, args, {
    cwd: home,
    env,
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let complaints = ''
  child.stderr!.on('data', (chunk) => {
    complaints += chunk
  })
  const ended = new Promise<never>((_resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`ended with ${code}: ${complaints}`)))
  })
  const closed = ended.catch(() => undefined)
  const url = `http://127.0.0.1:${port}`
  let isUp = false
  await until(() => {
    fetch(`${url}/orders/none`).then(
      () => {
        isUp = true
      },
      () => undefined,
    )
    return isUp
  }, ended)
  return {
    url,
    async kill() {
      process.kill(-child.pid!, 'SIGKILL')
      await closed
    },
  }
}
