// Jobs over real brokers while the worker and the broker are killed with SIGKILL at random, counted by a file outside the store.
// REPRISE_KILLS=200 kills each pair that often; without it, a few times.

import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { exportProgress, readLetters } from '../../src/layers/job/index.ts'
import { pause, temporaryFolder } from '../support/fixture.ts'
import type { RunningPart } from '../support/parts.ts'
import { programPath } from '../support/programs.ts'
import { type Broker, brokers, kafka } from './brokers.ts'

const killsWanted = Number(process.env.REPRISE_KILLS ?? 3)
const concurrency = 8
const holdMs = 1000
const messages = 100 + killsWanted * 50
const poison = 5

for (const broker of [...brokers, kafka]) {
  describe.skipIf(broker.start === null)(`a job over ${broker.name}`, () => {
    it(
      'C3: killed with its broker at random, it loses no message and repeats only items in flight',
      () => sweep(broker),
      180_000 + killsWanted * 15_000,
    )
  })
}

async function sweep(broker: Broker): Promise<void> {
  const folder = temporaryFolder(`queue-${broker.name}`)
  const ledger = join(folder, 'ledger')
  const url = `sqlite:${join(folder, 'store.db')}`
  let server: RunningPart = await broker.start!()
  let worker: Worker | null = null
  try {
    const { send, size } = await broker.queue(server.port, 'swept', holdMs)
    const ids = Array.from({ length: messages }, (_, n) => `item-${n}`)
    await send(ids.map((id, n) => JSON.stringify({ id, isPoison: n < poison })))
    await send(['this is not JSON', JSON.stringify({ id: ids[7] })])
    const start = () => new Worker(broker.name, server.port, 'swept', holdMs, url, concurrency, ledger)
    worker = start()
    let workersKilled = 0
    for (let kills = 0; kills < killsWanted; kills++) {
      const before = begun(ledger).length
      // In flight, unless the queue is empty already.
      while (worker.code === undefined && begun(ledger).length < before + 20) await pause(5)
      await pause(Math.random() * 50)
      if (kills % 3 === 1) {
        await server.kill()
        server = await broker.start!(server)
      } else {
        workersKilled += worker.code === undefined ? 1 : 0
        worker.child.kill('SIGKILL')
        await worker.ended
        worker = start()
      }
    }
    await worker.ended
    expect(worker.errors).toBe('')
    // Messages that a killed worker held may have been invisible to its successor.
    for (let round = 0; round < 5 && (await size()) > 0; round++) {
      worker = start()
      await worker.ended
    }
    expect(await size()).toBe(0)
    const all = begun(ledger)
    expect([...new Set(all)].sort()).toEqual([...ids].sort())
    expect(all.length - ids.length).toBeLessThanOrEqual(workersKilled * concurrency)
    const rp = await open(url)
    const done: string[] = []
    for await (const { key } of exportProgress(rp, 'job/swept')) done.push(key!)
    const letters = await readLetters(rp, 'job/swept')
    await rp.close()
    expect(letters.filter(({ unread }) => unread)).toHaveLength(1)
    expect(letters.length).toBe(poison + 1)
    expect(done.sort()).toEqual(ids.slice(poison).sort())
  } finally {
    worker?.child.kill('SIGKILL')
    await server.stop()
  }
}

function begun(ledger: string): string[] {
  try {
    return readFileSync(ledger, 'utf8').split('\n').filter(Boolean)
  } catch {
    return []
  }
}

class Worker {
  readonly child: ChildProcess
  readonly ended: Promise<void>
  /** Undefined while it runs; null: it was killed. */
  code: number | null | undefined
  errors = ''

  constructor(...args: readonly (string | number)[]) {
    const program = [programPath('queue-worker'), ...args.map(String)]
    this.child = spawn(process.execPath, program, { stdio: ['ignore', 'ignore', 'pipe'] })
    this.child.stderr!.on('data', (piece: Buffer) => {
      this.errors += piece.toString()
    })
    this.ended = new Promise((resolve) =>
      this.child.once('close', (code) => {
        this.code = code
        resolve()
      }),
    )
  }
}
