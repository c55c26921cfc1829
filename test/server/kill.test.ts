// `reprise serve` as a process, killed with SIGKILL under load and started again: nothing that was acknowledged is lost, and
// nothing is applied twice. The clients are this test, the Python example and the shell example, with what their languages bring.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, inject, it } from 'vitest'
import { bin, root } from '../cli/support.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'

const cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

interface Place {
  readonly folder: string
  readonly url: string
  readonly port: number
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

async function placeOn(kind: string): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-serve-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  const port = await freePort()
  if (kind === 'sqlite') return { folder, url: `sqlite:${join(folder, 'store.db')}`, port }
  const schema = newSchemaName()
  const url = new URL(inject('postgresUrl'))
  cleanups.push(() => dropSchema(inject('postgresUrl'), schema))
  url.searchParams.set('schema', schema)
  return { folder, url: url.href, port }
}

interface Running {
  readonly child: ChildProcess
  said(): string
  kill(): Promise<void>
}

/** Resolves when it says where it is. */
async function start({ folder, url, port }: Place): Promise<Running> {
  const args = [bin, 'serve', '--port', String(port), '--url', url, '--token-file', 'tokens.json']
  const child = spawn(process.execPath, args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()))
  let said = ''
  await new Promise<void>((resolve, reject) => {
    const hear = (piece: Buffer) => {
      said += piece
      if (/at http:/.test(said)) resolve()
    }
    child.stdout.on('data', hear)
    child.stderr.on('data', hear)
    void closed.then(() => reject(new Error(`reprise serve ended: ${said}`)))
  })
  const kill = async () => {
    child.kill('SIGKILL')
    await closed
  }
  cleanups.push(kill)
  return { child, said: () => said, kill }
}

function tokenIn(folder: string): string {
  const file = join(folder, 'tokens.json')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  return (JSON.parse(readFileSync(file, 'utf8')) as { tokens: { token: string }[] }).tokens[0]!.token
}

class Client {
  readonly #base: string
  readonly #token: string

  constructor(port: number, token: string) {
    this.#base = `http://127.0.0.1:${port}`
    this.#token = token
  }

  // biome-ignore lint/suspicious/noExplicitAny: what the server answers, looked at by the test.
  async ask(path: string, body?: unknown, key?: string): Promise<{ status: number; value: any }> {
    const response = await fetch(this.#base + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        authorization: `Bearer ${this.#token}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(key !== undefined && { 'idempotency-key': key }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return { status: response.status, value: await response.json() }
  }

  /** One append, asked for again under its key until there is an answer. */
  async append(timeline: string, key: string): Promise<void> {
    for (;;) {
      try {
        const path = `/v1/timelines/${encodeURIComponent(timeline)}/entries`
        const { status, value } = await this.ask(path, { entries: [{ type: 'added', data: { key } }] }, key)
        if (status === 200) return
        if (value.remedy !== 'retry' && value.code !== 'OUTCOME_UNKNOWN') throw new Error(JSON.stringify(value))
      } catch (error) {
        // The connection was cut: what became of it, nobody here knows.
        if (!(error instanceof TypeError)) throw error
      }
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  async keysOf(timeline: string): Promise<string[]> {
    const keys: string[] = []
    for (let after: number | null = 0; after !== null; ) {
      const { value } = await this.ask(
        `/v1/timelines/${encodeURIComponent(timeline)}/history?after=${after}&limit=1000`,
      )
      keys.push(...value.entries.map(({ data }: { data: { key: string } }) => data.key))
      after = value.next
    }
    return keys
  }
}

/** The last line that a program printed. */
function run(command: string, args: readonly string[], env: Record<string, string>, input = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] })
    let stdout = ''
    let stderr = ''
    child.stdout.on('data', (piece: Buffer) => {
      stdout += piece
    })
    child.stderr.on('data', (piece: Buffer) => {
      stderr += piece
    })
    child.stdin.end(input)
    child.once('error', reject)
    child.once('close', (code) =>
      code === 0
        ? resolve(stdout.trimEnd().split('\n').at(-1)!)
        : reject(new Error(`${command} ended with ${code}: ${stderr}`)),
    )
  })
}

const has = (command: string, ...args: string[]) => spawnSync(command, args).status === 0
const hasPython = has('python3', '--version')
const hasCurl = has('curl', '--version')

const killsMax = Number(process.env.REPRISE_KILLS ?? 1)

describe.each(['sqlite', 'postgres'])('reprise serve on %s', (kind) => {
  it('killed under load loses nothing that it acknowledged, and applies nothing twice', async () => {
    const place = await placeOn(kind)
    let server = await start(place)
    const token = tokenIn(place.folder)
    expect(server.said()).not.toContain(token)
    const client = new Client(place.port, token)
    const acknowledged: string[] = []
    let isOver = false
    const writers = ['load/1', 'load/2', 'load/3'].map(async (timeline, w) => {
      for (let n = 0; !isOver; n++) {
        const key = `${timeline}#${w}-${n}`
        await client.append(timeline, key)
        acknowledged.push(key)
      }
    })
    const env = { REPRISE_SERVER: `http://127.0.0.1:${place.port}`, REPRISE_TOKEN: token }
    // Once is enough for the examples: the store makes no difference to them.
    const isShown = kind === 'sqlite'
    if (!hasPython) console.warn('the Python example is left out: there is no python3 here')
    if (!hasCurl) console.warn('the shell example is left out: there is no curl here')
    const lines = [...Array(6).keys()].map((n) => 'x'.repeat(n)).join('\n')
    const python = isShown && hasPython ? run('python3', [join(root, 'examples/sidecar/sidecar.py'), '25'], env) : null
    const shell = isShown && hasCurl ? run('sh', [join(root, 'examples/sidecar/sidecar.sh')], env, `${lines}\n`) : null
    for (const each of [python, shell]) each?.catch(() => undefined)
    for (let kills = 0; kills < killsMax; kills++) {
      const before = acknowledged.length
      while (acknowledged.length < before + 15) await new Promise((resolve) => setTimeout(resolve, 10))
      await server.kill()
      server = await start(place)
    }
    const [total, last] = await Promise.all([python, shell])
    isOver = true
    await Promise.all(writers)
    for (const timeline of ['load/1', 'load/2', 'load/3']) {
      const keys = await client.keysOf(timeline)
      expect(new Set(keys).size).toBe(keys.length)
      const wanted = acknowledged.filter((key) => key.startsWith(`${timeline}#`))
      expect(keys).toEqual(expect.arrayContaining(wanted))
    }
    if (total !== null) expect(JSON.parse(total)).toEqual({ total: (25 * 26) / 2, seq: 25 })
    if (last !== null) expect(last).toBe('line 6: 5')
    const { value: report } = await client.ask('/v1/verify', {})
    expect(report).toMatchObject({ ok: true, faults: [] })
  })
})

describe('reprise serve', () => {
  it('refuses an address that others can reach without tokens and a name for it', () => {
    const folder = mkdtempSync(join(tmpdir(), 'reprise-serve-'))
    cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
    const { status, stderr } = spawnSync(process.execPath, [bin, 'serve', '--host', '0.0.0.0', '--port', '0'], {
      cwd: folder,
      encoding: 'utf8',
    })
    expect([status, stderr]).toEqual([2, expect.stringContaining('--token-file')])
  })
})
