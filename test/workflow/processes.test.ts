// Several worker processes on one store: killed ones are replaced at once, a stopped one is fenced when it resumes, and no run
// is lost or done twice (G2, G5).

import type { ChildProcess } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { open } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { pause, temporaryFolder, until } from '../support/fixture.ts'
import { wrongIn } from '../support/outside.ts'
import { programPath } from '../support/programs.ts'
import { startWorker } from '../support/worker-process.ts'

const program = programPath('workflow-worker')
const order = workflow<number, number>('order', async () => 0)

let folder: string
let workers: ChildProcess[]
beforeEach(() => {
  folder = temporaryFolder('workers')
  workers = []
})
afterEach(() => {
  for (const worker of workers) worker.kill('SIGKILL')
})

async function worker(url: string, stepMs = 30): Promise<ChildProcess> {
  return await startWorker(program, [url, join(folder, 'calls'), String(stepMs)], workers)
}

function calls(): string[] {
  return readFileSync(join(folder, 'calls'), 'utf8').split('\n').filter(Boolean)
}

describe('A8.2: workers in processes of their own', () => {
  const urls: [string, () => string][] = [
    ['sqlite', () => `sqlite:${join(folder, 'test.db')}`],
    ['postgres', () => inject('postgresUrl')],
  ]

  it.each(urls)('are killed one after the other, and every run ends once (%s)', async (kind, urlOf) => {
    writeFileSync(join(folder, 'calls'), '')
    const url = urlOf()
    const rp = await open(url, { namespace: 'default' })
    const runs = []
    const tag = `${kind}-${process.pid}`
    for (let i = 0; i < 12; i++) runs.push(await rp.run(order, 5, { id: `${tag}-${i}`, here: false }))
    let current = [await worker(url), await worker(url)]
    for (let kill = 0; kill < 3; kill++) {
      await pause(250)
      current[0]!.kill('SIGKILL')
      current = [current[1]!, await worker(url)]
    }
    const results = await Promise.all(runs.map((run) => run.result({ timeout: '4m' })))
    expect(results).toHaveLength(12)
    const made = calls()
    expect(new Set(made).size).toBe(12 * 5)
    expect(wrongIn(join(folder, 'calls'))).toBeNull()
    // Each kill repeats at most the call in flight of each run.
    expect(made.length).toBeLessThanOrEqual(12 * 5 + 3 * 12)
    await rp.close()
  })

  it('a stopped process that returns is refused, and its run continues elsewhere', async () => {
    writeFileSync(join(folder, 'calls'), '')
    const url = `sqlite:${join(folder, 'test.db')}`
    const rp = await open(url)
    const run = await rp.run(order, 6, { id: 'z', here: false })
    const first = await worker(url, 200)
    await until(() => calls().length !== 0)
    first.kill('SIGSTOP')
    const before = calls().length
    await worker(url, 20)
    expect(await run.result({ timeout: '4m' })).toBeGreaterThan(0)
    first.kill('SIGCONT')
    await pause(600)
    const keys = calls()
    expect(new Set(keys).size).toBe(6)
    expect(wrongIn(join(folder, 'calls'))).toBeNull()
    // The zombie may have made one more call before it learned that its result is refused.
    expect(keys.length).toBeLessThanOrEqual(before + 6 + 1)
    expect((await run.status()).status).toBe('completed')
    await rp.close()
  })
})
