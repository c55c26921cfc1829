// The real clients of build caches against a real `reprise serve`: a cold build fills, a clean clone hits, what is damaged in the
// store is a miss, a wrong token is refused and the build goes on, and a server killed in the middle of uploads leaves nothing
// half. Clients come from npm; those that this machine lacks are left out, with the reason printed.

import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { hostOf } from '../../src/engine/host.ts'
import { open } from '../../src/index.ts'
import { type Cleanups, type Place, placeOn, type Running, startServe } from './serving.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const binOf = (name: string) => join(root, 'node_modules/.bin', name)
const secret = 'right-'.padEnd(40, 'x')
const owner = 'owner-'.padEnd(40, 'x')
const wrong = 'wrong-'.padEnd(40, 'x')
/** Incompressible, and larger than what a manifest holds by itself: it lies in chunks. */
const source = Array.from({ length: 400 }, (_, i) => createHash('sha256').update(String(i)).digest('hex')).join('\n')

const home = mkdtempSync(join(tmpdir(), 'reprise-clients-'))
const cleanups: Cleanups = []
const last: Cleanups = [() => rmSync(home, { recursive: true, force: true })]
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})
afterAll(async () => {
  for (const cleanup of last.splice(0).reverse()) await cleanup()
})

interface Built {
  readonly code: number
  readonly said: string
}

interface Client {
  readonly name: string
  /** Null: it is here. */
  readonly missing: string | null
  /** Writes a project into an empty folder. */
  make(folder: string): void
  build(folder: string, port: number, token: string): Promise<Built>
  isHit(said: string): boolean
  /** It does not go on without a cache that lets it in. */
  readonly stops?: true
  readonly output: string
  /** The spaces in which its artifacts lie. */
  readonly space: string
}

function put(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
}

function run(cmd: string, args: readonly string[], cwd: string, env: Record<string, string> = {}): Promise<Built> {
  const { PATH = '', LD_LIBRARY_PATH } = process.env
  const own = { PATH, HOME: home, CI: 'true', ...(LD_LIBRARY_PATH !== undefined && { LD_LIBRARY_PATH }) }
  const child = spawn(cmd, args, { cwd, env: { ...own, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece: Buffer) => (said += piece))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve({ code: code ?? -1, said }))
  })
}

const git = (folder: string) => {
  for (const args of [
    ['init', '-q'],
    ['add', '-A'],
    ['-c', 'user.name=a', '-c', 'user.email=a@a', 'commit', '-qm', 'a'],
  ]) {
    spawnSync('git', args, { cwd: folder })
  }
}

const absent = (name: string) => (existsSync(binOf(name)) ? null : `node_modules has no ${name}`)
const onPath = (name: string) =>
  spawnSync(name, ['--version']).status === 0 ? null : `there is no ${name} on the path`

const turbo = (folder: string, port: number, token: string, key = 'a-signature-of-more-than-32-characters') =>
  run(binOf('turbo'), ['run', 'build'], folder, {
    ...{ TURBO_API: `http://127.0.0.1:${port}`, TURBO_TOKEN: token, TURBO_TEAM: 'team_words' },
    ...{ TURBO_REMOTE_CACHE_SIGNATURE_KEY: key, TURBO_TELEMETRY_DISABLED: '1' },
  })

const bazelBinary = join(root, 'node_modules/@bazel/bazel-linux_x64/bazel-2.1.0-linux-x86_64')
const compile = (folder: string, env: Record<string, string>) =>
  run('ccache', ['cc', '-c', 'in.c', '-o', 'out.o'], folder, { CCACHE_DIR: join(folder, '.ccache'), ...env })

const clients: readonly Client[] = [
  {
    name: 'turbo',
    missing: absent('turbo'),
    make: (folder) => cpSync(join(root, 'examples/turborepo'), folder, { recursive: true }),
    build: turbo,
    isHit: (said) => said.includes('FULL TURBO'),
    output: 'packages/words/dist/words.bin',
    space: '.turbo-team_words',
  },
  {
    name: 'nx',
    missing: absent('nx'),
    make(folder) {
      const command = 'mkdir -p dist && cp in.txt dist/out.txt'
      const build = { executor: 'nx:run-commands', options: { command, cwd: '{projectRoot}' } }
      const cached = { cache: true, outputs: ['{projectRoot}/dist'], inputs: ['{projectRoot}/in.txt'] }
      put(folder, {
        'package.json': JSON.stringify({ name: 'root', private: true, workspaces: ['packages/*'] }),
        'package-lock.json': JSON.stringify({ name: 'root', lockfileVersion: 3, packages: {} }),
        'nx.json': JSON.stringify({ targetDefaults: { build: cached }, analytics: false, neverConnectToCloud: true }),
        'packages/a/package.json': JSON.stringify({ name: 'a', version: '1.0.0', nx: { targets: { build } } }),
        'packages/a/in.txt': source,
      })
      spawnSync('ln', ['-s', join(root, 'node_modules'), join(folder, 'node_modules')])
    },
    build: (folder, port, token) =>
      run(join(folder, 'node_modules/.bin/nx'), ['run', 'a:build'], folder, {
        ...{ NX_DAEMON: 'false', NX_NO_CLOUD: 'true', NX_ISOLATE_PLUGINS: 'false' },
        NX_WORKSPACE_DATA_DIRECTORY: join(folder, '.nx-data'),
        NX_SELF_HOSTED_REMOTE_CACHE_SERVER: `http://127.0.0.1:${port}`,
        NX_SELF_HOSTED_REMOTE_CACHE_ACCESS_TOKEN: token,
      }),
    isHit: (said) => said.includes('remote cache]'),
    stops: true,
    output: 'packages/a/dist/out.txt',
    space: '.nx',
  },
  {
    name: 'moon',
    missing: absent('moon'),
    make(folder) {
      put(folder, {
        'a/in.txt': source,
        'a/moon.yml': `tasks:\n  build:\n    script: 'mkdir -p dist && cp in.txt dist/out.txt'\n    inputs: ['in.txt']\n    outputs: ['dist']\n`,
      })
    },
    build(folder, port, token) {
      put(folder, {
        '.moon/workspace.yml': `projects:\n  a: a\ntelemetry: false\nremote:\n  host: 'http://127.0.0.1:${port}/cache'\n  api: http\n  auth: { token: CACHE_TOKEN }\n  cache: { instanceName: moon }\n`,
      })
      git(folder)
      return run(binOf('moon'), ['run', 'a:build'], folder, { CACHE_TOKEN: token, PROTO_OFFLINE: '1' })
    },
    isHit: (said) => said.includes('cached from remote'),
    output: 'a/dist/out.txt',
    space: 'moon',
  },
  {
    name: 'ccache',
    missing: onPath('ccache') ?? onPath('cc'),
    make: (folder) =>
      put(folder, { 'in.c': `const char text[] = ${JSON.stringify(source)};\nint f(void) { return 7; }\n` }),
    async build(folder, port, token) {
      const remote = `http://127.0.0.1:${port}/cache/cc|bearer-token=${token}`
      const env = { CCACHE_REMOTE_STORAGE: remote, CCACHE_NOHASHDIR: '1', CCACHE_BASEDIR: folder }
      const { code, said } = await compile(folder, env)
      const stats = await run('ccache', ['--print-stats'], folder, { CCACHE_DIR: join(folder, '.ccache') })
      return { code, said: said + stats.said }
    },
    isHit: (said) => /^remote_storage_hit\t[1-9]/m.test(said) && /^cache_miss\t0$/m.test(said),
    output: 'out.o',
    space: 'cc',
  },
  {
    name: 'bazel',
    missing: process.env.REPRISE_BAZEL
      ? existsSync(bazelBinary)
        ? null
        : 'node_modules has no bazel'
      : 'its start takes half a minute: set REPRISE_BAZEL=1 to run it',
    make: (folder) =>
      put(folder, {
        WORKSPACE: '',
        BUILD: 'genrule(name = "g", srcs = ["in.txt"], outs = ["out.txt"], cmd = "cp $(SRCS) $@")\n',
        'in.txt': source,
      }),
    async build(folder, port, token) {
      const binary = join(home, 'bazel')
      if (!existsSync(binary)) {
        copyFileSync(bazelBinary, binary)
        chmodSync(binary, 0o755)
      }
      const start = [`--output_user_root=${join(folder, '.bazel-root')}`]
      const remote = `http://build:${token}@127.0.0.1:${port}/cache/bazel`
      const built = await run(binary, [...start, 'build', '//:g', `--remote_cache=${remote}`], folder)
      await run(binary, [...start, 'shutdown'], folder)
      // Its files may not be written to, also not by whoever clears up.
      spawnSync('chmod', ['-R', 'u+w', join(folder, '.bazel-root')])
      return built
    },
    isHit: (said) => said.includes('remote cache hit'),
    output: 'bazel-bin/out.txt',
    space: 'bazel',
  },
]

for (const { name, missing } of clients) if (missing !== null) console.warn(`${name} is left out: ${missing}`)

let server: Place
let running: Running
beforeAll(async () => {
  server = await placeOn('sqlite', last)
  const tokens = [
    { name: 'ci', token: secret, role: 'write', cache: { scope: 'main' } },
    { name: 'owner', token: owner, role: 'read' },
  ]
  writeFileSync(join(server.folder, 'tokens.json'), JSON.stringify({ tokens }), { mode: 0o600 })
  running = await startServe(server, last)
})

/** Opens the same store beside the server. */
async function inStore<T>(look: (rp: Awaited<ReturnType<typeof open>>) => Promise<T>): Promise<T> {
  const rp = await open(server.url, { housekeeping: false })
  try {
    return await look(rp)
  } finally {
    await rp.close()
  }
}

const artifactsOf = (space: string) =>
  inStore(async (rp) => (await rp.list({ prefix: `artifact/main/${space}/` })).map(({ timeline }) => timeline))

/** A byte of every chunk is another one. */
const spoilAll = () =>
  inStore(async (rp) => {
    const { blobs } = hostOf(rp).kernel.store
    for (const { digest } of await blobs.list(null, 10_000)) {
      const [chunk] = await blobs.get([digest])
      if (!chunk) continue
      await blobs.delete([digest], Number.MAX_SAFE_INTEGER)
      const spoiled = Buffer.from(chunk)
      spoiled[spoiled.length >> 1]! ^= 1
      await blobs.put([{ digest, bytes: spoiled }])
    }
  })

describe.each(clients.filter(({ missing }) => missing === null))('$name', (client) => {
  const clone = () => {
    const folder = mkdtempSync(join(home, `${client.name}-`))
    client.make(folder)
    return folder
  }

  it('fills, hits in a clean clone, misses what is damaged, and goes on without a server that lets it in', {
    timeout: 300_000,
  }, async () => {
    const refused = await client.build(clone(), server.port, wrong)
    expect([refused.code === 0, client.isHit(refused.said)], refused.said).toEqual([!client.stops, false])
    expect(await artifactsOf(client.space)).toEqual([])
    const cold = clone()
    const first = await client.build(cold, server.port, secret)
    expect([first.code, client.isHit(first.said)], first.said).toEqual([0, false])
    expect((await artifactsOf(client.space)).length).toBeGreaterThan(0)
    const built = readFileSync(join(cold, client.output))
    const clean = clone()
    const second = await client.build(clean, server.port, secret)
    expect([second.code, client.isHit(second.said)], second.said).toEqual([0, true])
    expect(readFileSync(join(clean, client.output)).equals(built)).toBe(true)
    await spoilAll()
    const after = clone()
    const third = await client.build(after, server.port, secret)
    expect([third.code, client.isHit(third.said)], third.said).toEqual([0, false])
    expect(readFileSync(join(after, client.output)).equals(built)).toBe(true)
    const told = await fetch(`http://127.0.0.1:${server.port}/metrics`, {
      headers: { authorization: `Bearer ${owner}` },
    })
    expect(await told.text()).not.toMatch(/status="5/)
  })
})

it.runIf(absent('turbo') === null)(
  'turbo: an artifact that another key signed is a miss',
  { timeout: 300_000 },
  async () => {
    const [one, other, third] = [0, 1, 2].map(() => {
      const folder = mkdtempSync(join(home, 'signed-'))
      cpSync(join(root, 'examples/turborepo'), folder, { recursive: true })
      writeFileSync(join(folder, 'packages/words/words.txt'), 'other words\n')
      return folder
    })
    expect((await turbo(one!, server.port, secret, 'key-one'.padEnd(40, '1'))).said).not.toContain('FULL TURBO')
    expect((await turbo(other!, server.port, secret, 'key-two'.padEnd(40, '2'))).said).not.toContain('FULL TURBO')
    // What the second one signed anew, its own key accepts.
    expect((await turbo(third!, server.port, secret, 'key-two'.padEnd(40, '2'))).said).toContain('FULL TURBO')
  },
)

const digestOf = (body: Buffer) => createHash('sha256').update(body).digest('hex')

it('a server that is killed in the middle of uploads leaves nothing half, and they can be sent again', {
  timeout: 300_000,
}, async () => {
  const whole = Buffer.alloc(4_600_000, source)
  const paths = [
    '/v8/artifacts/1234567812345678',
    '/v1/cache/77',
    `/cache/b/ac/${'0'.repeat(64)}`,
    `/cache/b/cas/${digestOf(whole)}`,
    '/cache/cc/ab/cd',
  ]
  const before = await inStore(async (rp) => (await rp.list({ prefix: 'artifact/' })).length)
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/octet-stream' }
  const sending = paths.map((path) => {
    const sent = request({
      port: server.port,
      path,
      method: 'PUT',
      headers: { ...headers, 'content-length': whole.length },
    })
    sent.once('error', () => undefined)
    return new Promise<void>((resolve) => sent.write(whole.subarray(0, 4_400_000), () => resolve()))
  })
  await Promise.all(sending)
  await running.kill()
  running = await startServe(server, last)
  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${server.port}${path}`, { headers, ...init })
  for (const path of paths) expect([path, (await ask(path)).status]).toEqual([path, 404])
  expect(await inStore(async (rp) => (await rp.list({ prefix: 'artifact/' })).length)).toBe(before)
  for (const path of paths) {
    expect([path, (await ask(path, { method: 'PUT', body: whole })).ok]).toEqual([path, true])
    expect(digestOf(Buffer.from(await (await ask(path)).arrayBuffer()))).toBe(digestOf(whole))
  }
})
