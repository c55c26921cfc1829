// Workers on different hosts, on PostgreSQL: a killed one is replaced long before its lease ends, because its session is gone; a
// paused one keeps its session and its runs until its lease has passed, and is fenced when it resumes (G2, G5).

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { pause, temporaryFolder } from '../support/fixture.ts'
import { programPath } from '../support/programs.ts'
import { startWorker } from '../support/worker-process.ts'

const program = programPath('workflow-host')
const order = workflow<number, number>('order', async () => 0)

let folder: string
let namespace: string
let rp: Reprise
let workers: ChildProcess[]
beforeEach(async () => {
  folder = temporaryFolder('hosts')
  writeFileSync(join(folder, 'calls'), '')
  namespace = `hosts-${process.pid}-${Date.now()}`
  rp = await open(inject('postgresUrl'), { namespace })
  workers = []
})
afterEach(async () => {
  for (const worker of workers) worker.kill('SIGKILL')
  await rp.close()
})

async function startHost(host: string, lease: string, stepMs: number): Promise<ChildProcess> {
  const args = [inject('postgresUrl'), namespace, host, lease, join(folder, 'calls'), String(stepMs)]
  return await startWorker(program, args, workers)
}

function calls(host = ''): string[] {
  return readFileSync(join(folder, 'calls'), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith(host) && line !== '')
}

const rowOf = async (host: string) => (await rp.workers()).find((row) => row.host === host)!

describe('workers on different hosts (PostgreSQL)', () => {
  it('a killed one is replaced although its lease would last ten minutes, and every run ends once', async () => {
    const runs = []
    for (let i = 0; i < 8; i++) runs.push(await rp.run(order, 6, { id: `r${i}`, here: false }))
    const first = await startHost('host-a', '10m', 150)
    while (new Set(calls('host-a').map((line) => line.split(' ')[1])).size < 12) await pause(20)
    first.kill('SIGKILL')
    await once(first, 'exit')
    const second = await startHost('host-b', '10m', 20)
    const [told] = (await once(second, 'message')) as [{ readonly retired: string; readonly because: string }]
    expect(told.retired).toMatch(/^host-a~/)
    expect(told.because).toContain('session')
    expect(await Promise.all(runs.map((run) => run.result({ timeout: '4m' })))).toEqual(Array(8).fill(6))
    const keys = calls().map((line) => line.split(' ')[1])
    expect(new Set(keys).size).toBe(8 * 6)
    // The kill repeats at most the call in flight of each run.
    expect(keys.length).toBeLessThanOrEqual(8 * 6 + 8)
    expect(await rowOf('host-a')).toMatchObject({ isAlive: false, isRetired: true })
  })

  it('a paused one keeps its runs until its lease has passed, and is refused when it comes back', async () => {
    const run = await rp.run(order, 8, { id: 'z', here: false })
    const first = await startHost('host-a', '8s', 6000)
    while (calls('host-a').length === 0) await pause(20)
    await startHost('host-b', '8s', 20)
    first.kill('SIGSTOP')
    let looks = 0
    for (;;) {
      const called = calls('host-b')
      const head = await rp.head('workflow/order/z')
      const row = await rowOf('host-a')
      if (!row.isAlive) break
      // Alive now, so it was alive when the rest was read.
      expect([called, head?.owner, row.isGone, row.isRetired]).toEqual([[], row.id, false, false])
      looks += 1
      await pause(50)
    }
    expect(looks).toBeGreaterThan(5)
    expect(await run.result({ timeout: '4m' })).toBe(8)
    const before = calls().length
    first.kill('SIGCONT')
    await pause(1000)
    // The zombie may have made one more call before it learned that its result is refused.
    expect(calls().length).toBeLessThanOrEqual(before + 1)
    expect(await run.result({ timeout: '4m' })).toBe(8)
  })
})
