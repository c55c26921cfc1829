// SIGKILL at random, of the application and of the shipper, through a faulty network, until the machine is lost: everything
// acknowledged before the shipper reported "safe" is on the new machine, and nothing is partial.

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ShipStatus } from '../../src/engine/tools/shipping/status.ts'
import { type Acks, amount, Child, checkAfterCrash, newFolder, removeFolder } from '../crash/support.ts'
import { type FaultyProxy, newBucket, startProxy, startS3 } from '../s3/support.ts'
import { until } from '../support/fixture.ts'

const bin = fileURLToPath(new URL('../../dist/cli/bin.cjs', import.meta.url))
const rounds = amount('SHIP_KILLS', 3)
const ids = ['ledger/a', 'plain/b', 'shelf/c']
const server = await startS3()
let proxy: FaultyProxy | null = null
let folder: string
const children: ChildProcess[] = []

beforeEach(() => {
  folder = newFolder()
})
afterEach(async () => {
  for (const child of children.splice(0)) await killed(child)
  removeFolder(folder)
})
afterAll(async () => {
  await proxy?.close()
  await server?.close()
})

function run(...args: string[]): { child: ChildProcess; ended: Promise<number | null>; errors: () => string } {
  const child = spawn(process.execPath, [bin, ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
  children.push(child)
  let errors = ''
  child.stderr!.on('data', (piece) => {
    errors += String(piece)
  })
  const ended = new Promise<number | null>((resolve) => void child.once('close', resolve))
  return { child, ended, errors: () => errors }
}

async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const over = new Promise((resolve) => void child.once('exit', resolve))
  child.kill('SIGKILL')
  await over
}

/** Acknowledgements with the time at which they were seen here: never before they were given. */
class Seen {
  readonly #rows: { readonly at: number; readonly id: string; readonly n: number }[] = []

  watch(child: Child): void {
    child.process.stdout!.on('data', (piece) => {
      const at = Date.now()
      for (const [, id, n] of String(piece).matchAll(/^ACK (\S+) (\d+)$/gm))
        this.#rows.push({ at, id: id!, n: Number(n) })
    })
  }

  before(time: number): Acks {
    const acks: Acks = new Map()
    for (const { at, id, n } of this.#rows) if (at <= time) acks.set(id, Math.max(acks.get(id) ?? 0, n))
    return acks
  }
}

async function loseTheMachine(place: string): Promise<void> {
  const file = join(folder, 'a.db')
  const where = { kind: 'sqlite', file } as const
  const seen = new Seen()
  const write = () => {
    const child = new Child('crash-writer', { where, ids, lanes: 2, every: 20, engine: { lease: '1s' } })
    children.push(child.process)
    seen.watch(child)
    return child
  }
  const ship = () => run('ship', place, '--url', `sqlite:${file}`, '--every', '50ms')
  const status = () => JSON.parse(readFileSync(`${file}-ship`, 'utf8')) as ShipStatus
  let writer = write()
  await writer.until(({ acks }) => acks.size > 0)
  let shipper = ship()
  for (let round = 0; round < rounds; round++) {
    const before = existsSync(`${file}-ship`) ? status().record : 0
    const from = Date.now()
    await until(
      () => existsSync(`${file}-ship`) && status().record > before && (status().safeAt ?? 0) > from,
      shipper.ended,
    )
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 300))
    if (round % 2 === 0) {
      await killed(shipper.child)
      shipper = ship()
    } else {
      await writer.kill()
      writer = write()
      await writer.until(({ acks }) => acks.size > 0)
    }
  }
  const from = Date.now()
  await until(() => (status().safeAt ?? 0) > from, shipper.ended)
  await Promise.all([killed(shipper.child), writer.kill()])
  const { safeAt } = status()
  const acks = seen.before(safeAt!)
  expect([...acks.keys()].sort()).toEqual(ids)
  const restored = run('restore', place, '--into', `sqlite:${join(folder, 'new/b.db')}`)
  expect([await restored.ended, restored.errors()]).toEqual([0, ''])
  await checkAfterCrash({ kind: 'sqlite', file: join(folder, 'new/b.db') }, acks, ids)
}

describe('a machine that is lost', () => {
  it('A7.3: comes back from a folder', async () => {
    await loseTheMachine(join(folder, 'place'))
  }, 120_000)

  it.skipIf(server === null)(
    `A7.3: comes back from an object store (${server?.kind}) whose network fails`,
    async () => {
      proxy = await startProxy(server!.endpoint)
      const bucket = (await newBucket(server!.endpoint)).replace(server!.endpoint, proxy.endpoint)
      const faults = ['lost', 'refuse', 503, 'torn'] as const
      proxy.fault = ({ number }) => (number % 5 === 0 ? faults[(number / 5) % faults.length]! : 'pass')
      await loseTheMachine(bucket.replace('?', '/app?'))
    },
    120_000,
  )

  it('is shipped by one process at a time, and another is refused', async () => {
    const file = join(folder, 'a.db')
    const writer = new Child('crash-writer', {
      where: { kind: 'sqlite', file },
      ids: ['plain/b'],
      count: 5,
      close: true,
    })
    await writer.ended
    const first = run('ship', join(folder, 'place'), '--url', `sqlite:${file}`)
    await until(() => existsSync(`${file}-ship`), first.ended)
    const second = run('ship', join(folder, 'other'), '--url', `sqlite:${file}`)
    expect(await second.ended).toBe(7)
    expect(second.errors()).toContain('STORE_BUSY')
    first.child.kill('SIGTERM')
    expect(await first.ended).toBe(0)
  }, 60_000)
})
