// The plan of a rollback names consumers that are easily missed: children that still run or have ids of their own, projections
// that are closed, and forks and mail of a timeline that was rolled back, restored or imported before.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import type { Reprise } from '../../src/index.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { until } from '../support/until.ts'
import { onEveryStore } from '../support/worlds.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

const account = aggregate('account', {
  initial: () => 0,
  evolve: { deposited: (sum: number, e: { amount: number }) => sum + e.amount },
  decide: { deposit: (_: number, c: { amount: number }) => ({ type: 'deposited' as const, amount: c.amount }) },
})
const totals = projection('totals', {
  from: [account],
  initial: () => ({ sum: 0 }),
  on: {
    deposited: (s, e) => {
      s.sum += e.amount
    },
  },
})
const echo = agent('echo', { model: async () => ({ content: 'so it is' }) })
const place = { timeline: 'events/account/ann', seq: 1 }

async function deposited(rp: Reprise): Promise<void> {
  const ann = await rp.open(account, 'ann')
  for (const amount of [10, 5, 100, 1]) await ann.do('deposit', { amount })
  await ann.close()
}

async function consumersOf(rp: Reprise, timeline: string, seq: number): Promise<{ kind: string; timeline: string }[]> {
  const { consumers } = (await rp.planRollback(timeline, { seq: seq + 1 })).undone
  return consumers.map(({ kind, timeline: by }) => ({ kind, timeline: by }))
}

onEveryStore('a plan of a rollback', (world) => {
  it('G19, A6.7: names children that run, and children with ids of their own', { timeout: 60_000 }, async () => {
    const rp = await (await world()).engine()
    const part = workflow('part', async (ctx, waits: boolean) => (waits ? await ctx.signal<string>('go') : 'done'))
    const whole = workflow('whole', async (ctx) => {
      await ctx.step('first', () => 1)
      await ctx.child(part, false, { id: 'named' })
      await ctx.child(part, false)
      await Promise.all([ctx.child(part, true, { id: 'open' }), ctx.child(part, true)])
    })
    const run = await rp.run(whole, { id: 'a' })
    await until(async () => (await rp.list({ prefix: 'workflow/part/', status: 'waiting' })).length === 2)
    const children = (await rp.list({ prefix: 'workflow/part/' })).map((head) => head.timeline).sort()
    expect(children).toHaveLength(4)
    const named = async (seq: number) =>
      (await consumersOf(rp, run.timeline, seq)).filter(({ kind }) => kind === 'child')
    expect((await named(2)).map(({ timeline }) => timeline).sort()).toEqual(children)
    await expect(run.rollback({ to: 'first' })).rejects.toMatchObject({ code: 'CONSUMED' })
  })

  it('G19, A6.7: names a projection that is closed', async () => {
    const w = await world()
    const rp = await w.engine()
    await deposited(rp)
    const p = await rp.open(totals)
    expect((await p.catchUp()).sum).toBe(116)
    await p.close()
    const reader = [{ kind: 'projection', timeline: 'projection/totals' }]
    expect(await consumersOf(rp, place.timeline, 1)).toEqual(reader)
    await rp.close()
    const later = await w.engine({ worker: 'later' })
    await later.open(account, 'ann').close()
    expect(await consumersOf(later, place.timeline, 1)).toEqual(reader)
    await expect(later.rollback({ to: place })).rejects.toMatchObject({ code: 'CONSUMED' })
  })

  it('G19, A6.7: names forks of the part below an earlier rollback, and none of an abandoned part', async () => {
    const rp = await (await world()).engine()
    await deposited(rp)
    await rp.fork({ ...place, seq: 4 }, 'abandoned')
    await rp.rollback({ to: { ...place, seq: 3 }, consumed: 'force' })
    await rp.fork({ ...place, seq: 2 }, 'below')
    expect(await consumersOf(rp, place.timeline, 1)).toEqual([{ kind: 'fork', timeline: 'events/account/below' }])
    await expect(rp.rollback({ to: place })).rejects.toMatchObject({ code: 'CONSUMED' })
  })

  it('G19, A6.7: names forks and copies in a store that was restored, and those imported beside it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'reprise-named-'))
    folders.push(folder)
    const rp = await (await world()).engine()
    await deposited(rp)
    await rp.fork({ ...place, seq: 3 }, 'fork')
    await rp.fork({ ...place, seq: 1 }, 'early')
    await rp.export({ ...place, seq: 2 }, join(folder, 'one.reprise'))
    await rp.import(join(folder, 'one.reprise'), { as: 'events/account/copy' })
    await rp.backup(join(folder, 'all.backup'))
    const restored = await (await world()).engine()
    await restored.restore(join(folder, 'all.backup'))
    for (const each of [rp, restored]) {
      const consumers = (await consumersOf(each, place.timeline, 1)).map(({ timeline }) => timeline).sort()
      expect(consumers).toEqual(['events/account/copy', 'events/account/fork'])
    }
  })

  it('G19, A6.7: names mail that was sent after a group was restored, and none that is unread', async () => {
    const rp = await (await world()).engine()
    const [a, b] = [await rp.open(echo, 'a'), await rp.open(echo, 'b')]
    for (const each of [a, b]) await each.turn('one')
    const { seq } = (await rp.head(a.timeline))!
    await a.send('b', 'in transit')
    await Promise.all([a.close(), b.close()])
    await rp.groups.capture('both', [a.timeline, b.timeline])
    const first = await rp.open(echo, 'b')
    expect(await first.receive()).toHaveLength(1)
    await first.close()
    await rp.groups.restore({ cut: 'both' })
    // The message was sent again, and is unread.
    expect(await consumersOf(rp, a.timeline, seq)).toEqual([])
    const again = await rp.open(echo, 'b')
    expect(await again.receive()).toHaveLength(1)
    expect(await consumersOf(rp, a.timeline, seq)).toEqual([{ kind: 'mail', timeline: b.timeline }])
  })
})
