// Two machines and a server, as processes: a result of one is not computed by the other; the server may be killed, and a
// download may be killed half-way.

import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { bin, cli } from '../cli/support.ts'
import { type Cleanups, placeOn, startServe } from '../server/serving.ts'
import { newGate } from '../support/fixture.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const token = 'main-'.padEnd(40, 'x')
const env = { REPRISE_CACHE_TOKEN: token }
const line =
  'echo run >> runs.log; mkdir -p dist && head -c 300000 src/a.txt > dist/all && cp src/a.txt dist/tool && chmod 755 dist/tool && echo built'

/** A clone of the same project, with a store of its own. */
function machine(): string {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-machine-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'src'))
  writeFileSync(join(folder, 'src/a.txt'), Array.from({ length: 40_000 }, (_, i) => (i * 2654435761) >>> 7).join('\n'))
  chmodSync(join(folder, 'src/a.txt'), 0o644)
  return folder
}

const argsOf = (port: number) => [
  ...['cache', 'run', '--name', 'build', '--input', 'src/**', '--output', 'dist/**'],
  ...['--remote', `http://127.0.0.1:${port}`, '--remote-timeout', '10m', '--', line],
]

async function serverOn(kind: string) {
  const place = await placeOn(kind, cleanups)
  const tokens = [
    { name: 'owner', token: 'owner-'.padEnd(40, 'x'), role: 'write' },
    { name: 'main', token, role: 'write', cache: { scope: 'main' } },
  ]
  writeFileSync(join(place.folder, 'tokens.json'), JSON.stringify({ tokens }), { mode: 0o600 })
  return { port: place.port, running: await startServe(place, cleanups) }
}

const isBuilt = (folder: string) => {
  const source = readFileSync(join(folder, 'src/a.txt'))
  expect(readFileSync(join(folder, 'dist/all')).equals(source.subarray(0, 300_000))).toBe(true)
  expect(readFileSync(join(folder, 'dist/tool')).equals(source)).toBe(true)
  expect(statSync(join(folder, 'dist/tool')).mode & 0o777).toBe(0o755)
}

/** Forwards requests, but returns only the first half of a result. */
async function halving(port: number): Promise<{ readonly port: number; readonly isHalfway: Promise<void> }> {
  const { opened: isHalfway, open: halfway } = newGate()
  const server = createServer(async ({ url = '', headers }, outgoing) => {
    const { authorization = '' } = headers
    const answer = await fetch(`http://127.0.0.1:${port}${url}`, { headers: { authorization } })
    const body = Buffer.from(await answer.arrayBuffer())
    outgoing.writeHead(answer.status, Object.fromEntries(answer.headers))
    if (url.includes('/memo/')) outgoing.write(body.subarray(0, body.length >> 1), halfway)
    else outgoing.end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanups.push(() => {
    server.close()
    server.closeAllConnections()
  })
  return { port: (server.address() as AddressInfo).port, isHalfway }
}

describe.each(['sqlite', 'postgres'])('a server on %s', (kind) => {
  it('B9: a result of one is fetched by another, despite a kill half-way; without the server, each continues', async () => {
    const { port, running } = await serverOn(kind)
    const [one, other, third] = [machine(), machine(), machine()]
    const built = await cli(argsOf(port), { cwd: one, env })
    expect(built).toMatchObject({ code: 0, stdout: 'built\n', stderr: expect.stringContaining('kept 2 files') })

    const half = await halving(port)
    const child = spawn(process.execPath, [bin, ...argsOf(half.port)], {
      ...{ cwd: other, env: { ...process.env, ...env }, stdio: 'ignore' },
    })
    const ended = new Promise((resolve) => child.once('close', resolve))
    await Promise.race([half.isHalfway, ended.then(() => Promise.reject(new Error('it ended before it was half-way')))])
    child.kill('SIGKILL')
    await ended
    expect(existsSync(join(other, 'dist'))).toBe(false)
    const rp = await open(`sqlite:${join(other, '.reprise/reprise.db')}`, { housekeeping: false })
    for (const { timeline } of await rp.list({ prefix: 'memo/build/' })) {
      expect(await rp.checkpoints(timeline)).toEqual([])
    }
    await rp.close()

    const fetched = await cli(argsOf(port), { cwd: other, env })
    expect(fetched).toMatchObject({ code: 0, stdout: 'built\n' })
    expect(fetched.stderr).toContain(`remembered in http://127.0.0.1:${port}`)
    expect(existsSync(join(other, 'runs.log'))).toBe(false)
    isBuilt(other)

    await running.kill()
    const alone = await cli(argsOf(port), { cwd: third, env })
    expect(alone).toMatchObject({ code: 0, stdout: 'built\n' })
    expect(alone.stderr.match(/ECONNREFUSED/g)).toHaveLength(1)
    isBuilt(third)
  })
})
