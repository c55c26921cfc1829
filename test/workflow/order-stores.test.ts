// The first durable fact counts first, on every store (docs/decisions/order-of-facts.md): runs are asleep, signals are
// acknowledged before or after the deadline, no process is running, and the next one is slow to read its mail.

import { setTimeout as pause } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { slowStore } from '../../src/testing/index.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const refunded: string[] = []
const order = workflow<number, string>('order', async (ctx, timeoutMs) => {
  const paid = await ctx.signal<string>('paid', { timeout: timeoutMs, otherwise: 'nothing' })
  if (paid === 'nothing') await ctx.step('refund', () => void refunded.push(ctx.id))
  return paid
})

onEveryStore('the order of facts', (world) => {
  it('runs that slept through their deadline take the signal that was acknowledged before it', async () => {
    const w = await world()
    refunded.length = 0
    const deadlines = await asleep(w, 20, 5000)
    const inTime: string[] = []
    const sender = await w.engine()
    const store = await w.store()
    for (const [id, deadline] of deadlines) {
      await sender.run(order, 5000, { id, here: false }).then((run) => run.signal('paid', 'money'))
      if ((await store.inbox(timelineId('nobody'), 1)).now < deadline) inTime.push(id)
    }
    expect(inTime.length).toBeGreaterThan(0)
    await passed(w, Math.max(...deadlines.values()))

    const rp = await slowEngine(w)
    rp.work([order])
    const results = await Promise.all(inTime.map(async (id) => (await rp.run(order, 5000, { id })).result()))
    expect(new Set(results)).toEqual(new Set(['money']))
    expect(refunded.filter((id) => inTime.includes(id))).toEqual([])
  })

  it('a signal that came after the deadline, while no process was running, loses to it', async () => {
    const w = await world()
    const deadlines = await asleep(w, 10, 200, false)
    await passed(w, Math.max(...deadlines.values()))
    const sender = await w.engine()
    for (const id of deadlines.keys()) {
      await sender.run(order, 200, { id, here: false }).then((run) => run.signal('paid', 'money'))
    }
    const rp = await slowEngine(w)
    rp.work([order])
    const results = await Promise.all(
      [...deadlines.keys()].map(async (id) => (await rp.run(order, 200, { id })).result()),
    )
    expect(new Set(results)).toEqual(new Set(['nothing']))
  })
})

/** So many runs that wait, with the deadline of each; the process that started them has closed. */
async function asleep(world: World, count: number, timeoutMs: number, here = true): Promise<Map<string, number>> {
  const rp = await world.engine()
  const deadlines = new Map<string, number>()
  const start = async (id: string) => {
    const run = await rp.run(order, timeoutMs, { id, here })
    deadlines.set(id, (await run.state()).startedAt + timeoutMs)
  }
  await Promise.all(Array.from({ length: count }, (_, i) => start(`r${i}`)))
  await rp.close()
  return deadlines
}

/** An engine whose store takes a while to read an inbox. */
async function slowEngine(world: World): Promise<Reprise> {
  const store = slowStore(await world.store(), (method) => (method === 'inbox' ? pause(60) : undefined))
  return await world.engine({ ports: { store } })
}

async function passed(world: World, at: number): Promise<void> {
  const store = await world.store()
  while ((await store.inbox(timelineId('nobody'), 1)).now <= at) await pause(20)
}
