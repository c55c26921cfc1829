// Events of a store are kept in it: recoveries, fallbacks, drills, failed checkpoints, and other reports. The log is bounded,
// several processes write it, and nothing fails because of it.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { Store } from '../../src/core/store/ports.ts'
import { createEngine, keepLog, open } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { timeline } from '../../src/index.ts'
import { cells, createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { faultyStore } from '../../src/testing/index.ts'
import { pause } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const counter = timeline('counter', {
  initial: () => ({ total: 0, pad: '' }),
  apply: (state, entry: { type: 'added'; by: number }) => ({
    total: state.total + entry.by,
    pad: noise(state.total),
  }),
})
/** Text that does not compress, so that it goes into chunks. */
function noise(seed: number): string {
  let x = seed * 2654435761 + 1
  return Array.from({ length: 8000 }, () => {
    x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9
    return String.fromCharCode(33 + ((x >>> 16) % 94))
  }).join('')
}
const added = (by: number) => ({ type: 'added', by }) as const

async function until<T>(ask: () => Promise<T>, holds: (found: T) => boolean): Promise<T> {
  for (;;) {
    const found = await ask()
    if (holds(found)) return found
    await pause(20)
  }
}
const kinds = (rp: Reprise, kind: string) => rp.log({ kind })

onEveryStore('the log of a store', (world) => {
  it('A7.4: keeps recoveries and drills, for all processes, and the card shows the last of them', async () => {
    const w = await world()
    const first = await w.engine({ worker: 'first' })
    keepLog(first)
    const c = await first.open(counter, 'x')
    await c.append([added(1), added(2)])
    await c.checkpoint()
    await c.close()
    await first.open(counter, 'x')
    hostOf(first).register('counter/', counter.fold as never)
    expect((await first.drill({ timelines: ['counter/x'] })).ok).toBe(true)
    first.events.emit('report', { kind: 'repair', timeline: 'counter/other', what: 'a chunk was healed' })
    await first.close()
    const second = await w.engine({ worker: 'second' })
    const all = await second.log()
    expect(all.map(({ kind }) => kind).sort()).toEqual(['drill', 'recovery', 'repair'])
    expect(all.every(({ worker, at }) => worker === 'first' && at > 0)).toBe(true)
    expect(await second.log({ timeline: 'counter/other' })).toMatchObject([
      { kind: 'repair', what: 'a chunk was healed' },
    ])
    expect(await second.log({ since: Date.now() + 60_000 })).toEqual([])
    expect(await second.log({ limit: 1 })).toHaveLength(1)
    const { recent } = await second.card('counter/x')
    expect(recent.map(({ kind }) => kind)).toEqual(['recovery', 'drill'])
    expect((await second.verify()).faults).toEqual([])
  })

  it('is written by several processes at once without losing a report', async () => {
    const w = await world()
    const engines = [await w.engine({ worker: 'a' }), await w.engine({ worker: 'b' }), await w.engine({ worker: 'c' })]
    engines.forEach(keepLog)
    for (let n = 0; n < 20; n++) {
      for (const each of engines) each.events.emit('report', { kind: 'test', timeline: null, what: `report ${n}` })
      if (n % 7 === 0) await new Promise((resolve) => setTimeout(resolve, 60))
    }
    const [first] = engines
    const found = await until(
      () => kinds(first!, 'test'),
      (all) => all.length >= 60,
    )
    expect(found).toHaveLength(60)
    expect(new Set(found.map(({ worker, what }) => `${worker} ${what}`)).size).toBe(60)
  })
})

it('keeps a failed checkpoint and a fallback to an older one, with the reason', async () => {
  const world = createWorld()
  const store = () => openMemory({ namespace: 'n', hash: sha256, world })
  let isFull = false
  const rp = createEngine({
    store: faultyStore(store(), (method) => (isFull && method === 'blobs.put' ? 'fail-before' : 'ok')),
  })
  keepLog(rp)
  const c = await rp.open(counter, 'x')
  await c.append(added(1))
  await c.checkpoint()
  await c.append(added(1))
  const newest = await c.checkpoint()
  isFull = true
  await c.append(added(1))
  await expect(c.checkpoint()).rejects.toThrow()
  const [failed] = await until(
    () => kinds(rp, 'checkpoint-failed'),
    (all) => all.length > 0,
  )
  expect(failed).toMatchObject({ timeline: 'counter/x', what: expect.stringContaining('failed on purpose') })
  isFull = false
  await rp.close()
  const manifest = cells(world).find(({ kind, where }) => kind === 'manifest' && where.includes(newest.id))!
  manifest.bytes[3]! ^= 1
  const second = createEngine({ store: store() })
  keepLog(second)
  expect((await second.open(counter, 'x')).state.total).toBe(3)
  const [fallback] = await until(
    () => kinds(second, 'fallback'),
    (all) => all.length > 0,
  )
  expect(fallback!.what).toMatch(/from the checkpoint at 1.*skipped 2/)
  await second.close()
})

it('is bounded, and nothing fails or waits because of it', async () => {
  const rp = createEngine({ store: openMemory({ namespace: 'n', hash: sha256 }) })
  keepLog(rp)
  for (let round = 0; round < 16; round++) {
    for (let n = 0; n < 250; n++) {
      rp.events.emit('report', { kind: 'test', timeline: null, what: 'y'.repeat(2000), data: { round } })
    }
    await until(
      () => rp.log({ kind: 'left-out', limit: 1000 }),
      (all) => all.length === Math.min(round + 1, all.length) && all.some(({ data }) => data === undefined),
    )
    await pause(130)
  }
  const kept = await rp.log({ limit: 1_000_000 })
  expect(kept.length).toBeLessThanOrEqual(5 * 601)
  expect(kept.length).toBeGreaterThan(1000)
  expect(kept.every(({ what }) => what.length <= 500)).toBe(true)
  expect((await rp.list({ prefix: 'reprise/log/' })).length).toBeLessThanOrEqual(5)
  await rp.close()
})

it('goes without where it cannot be written, and writes nothing to a store that is only read', async () => {
  const refusing = (store: Store): Store =>
    new Proxy(store, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name, target)
        if (name !== 'commit') return typeof member === 'function' ? member.bind(target) : member
        return (commits: Parameters<Store['commit']>[0]) => {
          if (commits.some(({ guard }) => guard?.timeline.startsWith('reprise/log/'))) throw new Error('full')
          return target.commit(commits)
        }
      },
    })
  const rp = createEngine({ store: refusing(openMemory({ namespace: 'n', hash: sha256 })) })
  keepLog(rp)
  const c = await rp.open(counter, 'x')
  await c.append(added(1))
  await c.close()
  expect((await rp.open(counter, 'x')).state.total).toBe(1)
  await rp.close()

  const folder = mkdtempSync(join(tmpdir(), 'reprise-log-'))
  try {
    const url = `sqlite:${join(folder, 'store.db')}`
    const writing = await open(url, { log: false })
    await (await writing.open(counter, 'x')).append(added(1))
    await writing.close()
    const reading = await open(url, { readOnly: true })
    expect((await reading.at(counter, 'x', { seq: 1 })).state.total).toBe(1)
    reading.events.emit('report', { kind: 'test', timeline: null, what: 'nobody keeps it' })
    await reading.close()
    const again = await open(url, { readOnly: true })
    expect(await again.log()).toEqual([])
    await again.close()
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
