// `reprise serve` as a process, killed with SIGKILL under load and started again: nothing acknowledged is lost or applied
// twice. The clients are this test, the Python example and the shell example, with the standard libraries of their languages.

import { spawn, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { bin, root } from '../cli/support.ts'
import { temporaryFolder, until } from '../support/fixture.ts'
import { type Cleanups, Client, placeOn, startServe, tokenIn } from './serving.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

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
    const place = await placeOn(kind, cleanups)
    let server = await startServe(place, cleanups)
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
      await until(() => acknowledged.length >= before + 15)
      await server.kill()
      server = await startServe(place, cleanups)
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
    const folder = temporaryFolder('serve')
    const { status, stderr } = spawnSync(process.execPath, [bin, 'serve', '--host', '0.0.0.0', '--port', '0'], {
      cwd: folder,
      encoding: 'utf8',
    })
    expect([status, stderr]).toEqual([2, expect.stringContaining('--token-file')])
  })
})
