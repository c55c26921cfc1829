// Queues and schedules, in virtual time.

import { describe, expect, it } from 'vitest'
import { queue, schedule, workflow, workflows } from '../../src/layers/workflow/index.ts'
import { crashEverywhere, type WorkflowKit } from '../../src/testing/index.ts'
import { kitWith } from './kits.ts'

/** How many runs are between their first and their last step, at most. */
function gauge() {
  const inside = new Map<string, number>()
  const most = { all: 0, key: 0 }
  const order: string[] = []
  return {
    most,
    order,
    enter(id: string, key: string) {
      order.push(id)
      inside.set(key, (inside.get(key) ?? 0) + 1)
      most.key = Math.max(most.key, inside.get(key)!)
      most.all = Math.max(
        most.all,
        [...inside.values()].reduce((sum, n) => sum + n, 0),
      )
    },
    leave(key: string) {
      inside.set(key, inside.get(key)! - 1)
    },
  }
}

describe('a queue', () => {
  it('admits up to its limits, of all and of each key, by priority and then in order', async () => {
    const kit = kitWith()
    const seen = gauge()
    const gpu = queue('gpu', { concurrency: 3, perKey: 2 })
    const train = workflow(
      'train',
      async (ctx, key: string) => {
        await ctx.step('in', () => seen.enter(ctx.id, key))
        await ctx.sleep('1h')
        await ctx.step('out', () => seen.leave(key))
        return key
      },
      { queue: gpu },
    )
    const runs = []
    for (let i = 0; i < 9; i++) {
      const key = i < 6 ? 'x' : 'y'
      runs.push(await kit.run(train, key, { id: `r${i}`, queueKey: key, priority: i === 5 ? 10 : 0 }))
    }
    for (const run of runs) await kit.result(run)
    expect(seen.most).toEqual({ all: 3, key: 2 })
    expect(seen.order).toHaveLength(9)
    expect(seen.order.indexOf('r5')).toBeLessThan(4)
  })

  it('starts no more in a span of time than its rate', async () => {
    const kit = kitWith()
    const at: number[] = []
    const slow = queue('slow', { rate: { max: 2, per: '1m' } })
    const tick = workflow('tick', async (ctx) => await ctx.step('t', () => at.push(kit.now())), { queue: slow })
    const runs = []
    for (let i = 0; i < 6; i++) runs.push(await kit.run(tick, { id: `t${i}` }))
    for (const run of runs) await kit.result(run)
    for (let i = 2; i < at.length; i++) expect(at[i]! - at[i - 2]!).toBeGreaterThanOrEqual(60_000)
  })

  it('loses no place and gives none twice, wherever a process dies', async () => {
    const { undisturbed, crashes } = await crashEverywhere(
      async (kit) => {
        const seen = gauge()
        const one = queue('one', { concurrency: 1 })
        const work = workflow(
          'work',
          async (ctx) => {
            await ctx.step('in', () => 1)
            seen.enter(ctx.id, '')
            await ctx.sleep('1m')
            seen.leave('')
            return 1
          },
          { queue: one },
        )
        kit.work(one)
        let sum = 0
        for (let i = 0; i < 3; i++) await kit.run(work, { id: `w${i}` })
        for (let i = 0; i < 3; i++) sum += Number(await kit.result(await kit.run(work, { id: `w${i}` })))
        return { sum }
      },
      { at: ['commit'], every: 2 },
    )
    expect(undisturbed.sum).toBe(3)
    for (const { at, outcome } of crashes) expect(outcome, JSON.stringify(at)).toEqual(undisturbed)
  })
})

describe('a schedule', () => {
  const days = (kit: WorkflowKit) => workflow('report', async (ctx, at: string) => await ctx.step('r', () => kit && at))

  it('starts a run at each time of its calendar, in its time zone, once', async () => {
    const kit = kitWith({ startAt: Date.UTC(2026, 2, 27) })
    const report = days(kit)
    const nightly = schedule('nightly', {
      workflow: report,
      cron: '0 3 * * *',
      timezone: 'Europe/Berlin',
      input: (at) => at.toISOString(),
    })
    kit.work(nightly)
    await kit.advance('36h')
    kit.crash()
    await kit.advance('60h')
    const runs = await workflows(kit.rp).of(report).list()
    // Berlin goes to summer time on March 29th, 2026.
    expect(runs.map(({ id, status }) => [id, status])).toEqual([
      ['nightly.2026-03-27T02:00:00.000Z', 'completed'],
      ['nightly.2026-03-28T02:00:00.000Z', 'completed'],
      ['nightly.2026-03-29T01:00:00.000Z', 'completed'],
      ['nightly.2026-03-30T01:00:00.000Z', 'completed'],
    ])
  })

  it('leaves a run out while the last one is going, or waits for it, or cancels it', async () => {
    const counts: Record<string, number> = {}
    for (const overlap of ['skip', 'allow', 'wait', 'cancel'] as const) {
      const kit = kitWith()
      const long = workflow('long', async (ctx) => await ctx.sleep('90m'))
      kit.work(schedule('often', { workflow: long, every: '1h', overlap }))
      await kit.advance('6h')
      counts[overlap] = (await workflows(kit.rp).of(long).list()).length
      if (overlap === 'cancel')
        expect(await workflows(kit.rp).of(long).list({ status: 'cancelled' })).not.toHaveLength(0)
    }
    expect(counts).toEqual({ skip: 3, allow: 6, wait: 4, cancel: 6 })
  })

  it('catches up also where each waits for the one before', async () => {
    const kit = kitWith()
    const quick = workflow('quick', async (ctx) => await ctx.sleep('1s'))
    kit.work(schedule('often', { workflow: quick, every: '5s', overlap: 'wait', catchUp: 'all' }))
    await kit.advance('7s')
    kit.crash()
    await kit.settle()
    kit.clock.leap(kit.now() + 60_000)
    await kit.advance('30s')
    expect((await workflows(kit.rp).of(quick).list()).length).toBeGreaterThan(17)
  })

  it('catches up on none, the last, or all of the times that passed while no process was running', async () => {
    const counts: Record<string, number> = {}
    for (const catchUp of ['none', 'last', 'all'] as const) {
      const kit = kitWith()
      const quick = workflow('quick', async () => 1)
      kit.work(schedule('hourly', { workflow: quick, every: '1h', overlap: 'allow', catchUp }))
      await kit.advance('90m')
      kit.crash()
      await kit.settle()
      kit.clock.leap(kit.now() + 5 * 3_600_000)
      await kit.advance('10m')
      counts[catchUp] = (await workflows(kit.rp).of(quick).list()).length
    }
    expect(counts).toEqual({ none: 1, last: 2, all: 6 })
  })
})
