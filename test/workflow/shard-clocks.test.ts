// Databases whose clocks disagree (docs/decisions/shards.md): a deadline belongs to the clock of the shard that has its
// timeline. Virtual time is the reference; each shard's own clock is shifted against it.

import { afterEach, describe, expect, it } from 'vitest'
import type { Duration } from '../../src/core/duration.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { queue, type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { Metrics } from '../../src/server/metrics.ts'
import { openMemory } from '../../src/stores/memory/index.ts'
import { openSharded } from '../../src/stores/sharded/index.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'

const shifts = [-2000, 0, 2000]
const places = shifts.map((_, place) => place)
const startAt = Date.UTC(2026, 0, 1)

/** Three shards and one engine. An id with `-at-N` in it is placed on shard N. */
class Shifted {
  readonly clock = new VirtualClock(startAt)
  rp!: Reprise
  #atOnce = 0

  static async open(shiftsMs: readonly number[] = shifts): Promise<Shifted> {
    const world = new Shifted()
    const view = world.clock.view(() => true)
    const sources = shiftsMs.map((shift, i) => ({
      name: `memory ${i}`,
      open: async () => openMemory({ namespace: 'n', hash: sha256, clock: () => world.clock.now() + shift }),
    }))
    const place = (id: string) => Number(/-at-(\d)/.exec(id)?.[1] ?? 0)
    const store = await openSharded(sources, { timers: view, place })
    let seed = 1
    const next = () => {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
      return seed / 4294967296
    }
    const random = { bytes: (count: number) => Uint8Array.from({ length: count }, () => next() * 256), number: next }
    const identity = { host: 'test', process: 'p' }
    world.rp = createEngine({ store, clock: view, random, identity, isGone: () => false }, { worker: 'test' })
    return world
  }

  /** Since the start, in true time. */
  get ms(): number {
    return this.clock.now() - startAt
  }

  async pass(untilMs: number): Promise<void> {
    for (;;) {
      await this.#quiet()
      const next = this.clock.nextAt()
      if (next === null || next - startAt > untilMs) break
      this.#leap(next)
    }
    this.clock.leap(startAt + untilMs)
    await this.#quiet()
  }

  async until<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false
    const settle = () => {
      isSettled = true
    }
    promise.then(settle, settle)
    while (!isSettled) {
      await this.#quiet()
      const next = this.clock.nextAt()
      if (this.ms > 60_000) throw new Error('it did not happen within a minute of virtual time')
      if (!isSettled && next !== null) this.#leap(next)
    }
    return await promise
  }

  /** A process that does something a thousand times without time passing is spinning. */
  #leap(to: number): void {
    this.#atOnce = to > this.clock.now() ? 0 : this.#atOnce + 1
    if (this.#atOnce > 1000) throw new Error(`the process spins at ${this.ms} ms`)
    this.clock.leap(to)
  }

  async #quiet(): Promise<void> {
    for (let i = 0; i < 25; i++) await new Promise((resolve) => setImmediate(resolve))
  }
}

const worlds: Shifted[] = []
afterEach(async () => {
  for (const world of worlds.splice(0)) await world.until(world.rp.close())
})

async function shifted(shiftsMs?: readonly number[]): Promise<Shifted> {
  const world = await Shifted.open(shiftsMs)
  worlds.push(world)
  return world
}

/** The outcome of this code on one shard, with its true time. `sent` at these times, from outside. */
async function outcome<T>(
  place: number,
  code: (ctx: WorkflowContext, world: Shifted) => Promise<T>,
  {
    sent = [] as readonly { readonly name: string; readonly atMs: number }[],
    start = {} as { delay?: Duration; timeout?: Duration },
  } = {},
) {
  const world = await shifted()
  const definition = workflow('timed', (ctx) => code(ctx, world))
  world.rp.work([definition])
  await world.pass(50)
  const began = world.ms
  const run = await world.until(world.rp.run(definition, { id: `r-at-${place}`, ...start }))
  for (const { name, atMs } of sent) {
    await world.pass(began + atMs)
    const value = `${name} at ${atMs}`
    await world.until(world.rp.send(run.timeline, 'signal', { name, value }, { key: value }).catch(() => undefined))
  }
  const got = await world.until(run.result().catch((error: { code: string }) => error.code))
  return { got, ms: world.ms - began }
}

const early = [{ name: 's', atMs: 1500 }]
const late = [{ name: 's', atMs: 3500 }]
const threeSeconds = { timeout: '3s', otherwise: 'timeout' } as const
const race = (ctx: WorkflowContext) =>
  ctx.race<unknown>([(own) => own.signal('s'), (own) => own.sleep('3s').then(() => 'slept')])

it('the doctor and the metrics show how far the clocks are apart', async () => {
  const world = await shifted()
  const checks = (await world.until(checkStore(world.rp))).filter(({ name }) => name === 'clock')
  const what = 'ahead of the slowest shard: shard 1 (memory 1) by 2.0 s, shard 2 (memory 2) by 4.0 s'
  expect(checks).toContainEqual(expect.objectContaining({ state: 'warning', what }))
  const metrics = new Metrics(hostOf(world.rp).events, () => world.clock.now())
  const text = await world.until(metrics.write(world.rp))
  expect(text).toContain('reprise_shard_clock_ahead_seconds{shard="2"} 4')
  const near = await shifted([0, 0, 40])
  const verdicts = await near.until(checkStore(near.rp))
  expect(verdicts.filter((check) => check.what.includes('slowest shard'))).toEqual([])
})

describe.each(places)('shard %i of three whose clocks are 2 s apart', (place) => {
  it('sleeps for the requested time', async () => {
    const { ms } = await outcome(place, (ctx) => ctx.sleep('3s'))
    expect(ms).toBeGreaterThanOrEqual(3000)
    expect(ms).toBeLessThan(3100)
  })

  it('takes a signal before its timeout, and not after it', async () => {
    const wait = (ctx: WorkflowContext) => ctx.signal('s', threeSeconds)
    expect((await outcome(place, wait, { sent: early })).got).toBe('s at 1500')
    expect((await outcome(place, wait, { sent: late })).got).toBe('timeout')
  })

  it('a race between a signal and a sleep', async () => {
    expect((await outcome(place, race, { sent: early })).got).toBe('s at 1500')
    expect((await outcome(place, race, { sent: late })).got).toBe('slept')
  })

  it('a run that was given three seconds', async () => {
    const start = { timeout: '3s' } as const
    const wait = (ctx: WorkflowContext) => ctx.signal('s')
    expect((await outcome(place, wait, { start, sent: early })).got).toBe('s at 1500')
    const { got, ms } = await outcome(place, wait, { start, sent: late })
    expect(got).toBe('TIMEOUT')
    expect(ms).toBeLessThan(3600)
  })

  it('a run that begins later', async () => {
    const { got } = await outcome(place, async (_, world) => world.ms, { start: { delay: '3s' } })
    expect(got).toBeGreaterThanOrEqual(3050)
    expect(got).toBeLessThan(3200)
  })

  it('the pause before the next attempt of a step', async () => {
    const times: number[] = []
    const code = (ctx: WorkflowContext, world: Shifted) =>
      ctx.step(
        'flaky',
        () => {
          times.push(world.ms)
          if (times.length < 3) throw new Error('busy')
          return 1
        },
        { retry: { attempts: 3, backoff: '3s', factor: 1, jitter: 0 } },
      )
    await outcome(place, code)
    for (const gap of times.slice(1).map((at, i) => at - times[i]!)) {
      expect(gap).toBeGreaterThanOrEqual(3000)
      expect(gap).toBeLessThan(3100)
    }
    expect(times).toHaveLength(3)
  })

  it('an existing rate limit of a queue', async () => {
    const world = await shifted()
    const begun: number[] = []
    const limited = queue(`q-at-${place}`, { rate: { max: 1, per: '3s' } })
    const queued = workflow('queued', async () => void begun.push(world.ms), { queue: limited })
    world.rp.work([queued])
    await world.pass(50)
    const runs = await Promise.all(places.map((at) => world.until(world.rp.run(queued, { id: `r${at}-at-${at}` }))))
    for (const run of runs) await world.until(run.result())
    for (const gap of begun.slice(1).map((at, i) => at - begun[i]!)) {
      expect(gap).toBeGreaterThanOrEqual(2900)
      expect(gap).toBeLessThan(3300)
    }
    expect(begun).toHaveLength(3)
  })

  it.each(places)('a parent that waits three seconds for a child on shard %i', async (childPlace) => {
    for (const [childMs, expected] of [
      [1500, 'child'],
      [4500, 'slept'],
    ] as const) {
      const world = await shifted()
      const child = workflow('child', async (ctx) => {
        await ctx.sleep(childMs)
        return 'child'
      })
      const parent = workflow('parent', (ctx) =>
        ctx.race<string>([
          (own) => own.child(child, { id: `c-at-${childPlace}` }),
          (own) => own.sleep('3s').then(() => 'slept'),
        ]),
      )
      world.rp.work([parent, child])
      await world.pass(50)
      const run = await world.until(world.rp.run(parent, { id: `p-at-${place}` }))
      expect(await world.until(run.result())).toBe(expected)
    }
  })
})
