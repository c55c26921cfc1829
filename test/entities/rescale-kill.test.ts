// Real processes: one rescales a state store, another writes to it, and both are killed at random (G1, G2, B4).
// More rounds: REPRISE_RESCALE_KILLS=50 npx vitest run test/entities/rescale-kill.test.ts

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, inject, it } from 'vitest'
import { newGate, pause } from '../support/fixture.ts'
import { programPath } from '../support/programs.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'

const rounds = Number(process.env.REPRISE_RESCALE_KILLS ?? 3)
const program = new URL('../programs/store-rescaler.mjs', import.meta.url)

function start(url: string, ...args: string[]): ChildProcess {
  return spawn(process.execPath, [programPath('store-rescaler'), url, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

/** Yields its output lines until it ends, by itself or killed. */
async function hear(child: ChildProcess, call: (said: Record<string, unknown>) => void): Promise<void> {
  const ended = once(child, 'exit')
  for await (const line of createInterface(child.stdout!)) call(JSON.parse(line))
  const [code] = await ended
  if (code !== null && code !== 0) throw new Error(`a process ended with ${code}: see what it wrote`)
}

async function sweep(url: string): Promise<void> {
  const acked = new Map<string, number>()
  let writes = 0
  let rescaled = 0
  for (let round = 0; round < rounds; round++) {
    const writer = start(url, 'write', String(round * 1_000_000))
    let isBetween = false
    const writing = hear(writer, ({ key, n, rescaling }) => {
      // The killed rescale has ended the old partitions: writes wait until another rescale finishes it.
      if (rescaling) isBetween = true
      if (typeof key !== 'string') return
      acked.set(key, n as number)
      writes += 1
    })
    const before = writes
    while (writes < before + 10 && !isBetween)
      await Promise.race([pause(5), writing.then(() => expect.fail('the writer ended'))])
    const rescaler = start(url, 'rescale', String(1 + ((round * 3 + 1) % 5)))
    const { opened: isReady, open: began } = newGate()
    const rescaling = hear(rescaler, ({ ready, done }) => {
      if (ready) began()
      if (done) rescaled += 1
    })
    await Promise.race([isReady, rescaling])
    await pause(Math.random() * 1200)
    rescaler.kill('SIGKILL')
    if (round % 2) writer.kill('SIGKILL')
    else await pause(50)
    writer.kill('SIGKILL')
    await Promise.all([writing, rescaling])
  }
  const { stores } = await import(program.href)
  const built = await import(new URL('../../dist/index.js', import.meta.url).href)
  const rp = await built.open(url)
  await stores.get(4).rescale(rp)
  const store = await rp.open(stores.get(4))
  expect(writes).toBeGreaterThan(10)
  expect(acked.size).toBeGreaterThan(0)
  // The write in flight may be stored too: never less than was acknowledged.
  for (const [key, n] of acked) expect([key, store.get(key) >= n]).toEqual([key, true])
  const timelines = (await rp.list({ prefix: 'table/counts/' })).map(({ timeline }: { timeline: string }) => timeline)
  expect(timelines).toHaveLength(5)
  expect((await rp.verify()).faults).toEqual([])
  await rp.close()
  console.log(`rescale: ${rounds} kills, ${rescaled} came to their end before, ${writes} writes acknowledged, 0 lost`)
}

it('G1 B4: kill -9 of a rescale and of writers beside it loses nothing (sqlite)', { timeout: 300_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-rescale-'))
  try {
    await sweep(`sqlite:${join(folder, 'x.db')}`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

it('G1 B4: the same on PostgreSQL', { timeout: 300_000 }, async () => {
  const schema = newSchemaName()
  const url = new URL(inject('postgresUrl'))
  url.searchParams.set('schema', schema)
  try {
    await sweep(url.href)
  } finally {
    await dropSchema(inject('postgresUrl'), schema)
  }
})
