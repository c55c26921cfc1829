// A fork of a run owns its own effects: compensations, queue places and the link to a parent stay with the original.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { queue, type WorkflowRun, workflow, workflows } from '../../src/layers/workflow/index.ts'
import type { WorkflowKit } from '../../src/testing/index.ts'
import { kitWith } from './kits.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

/** An outside service that counts charges and refunds, and honours no keys. */
function shop() {
  const charges: string[] = []
  const done = (key: string, what: string) => {
    charges.push(key)
    return `${what}-${charges.length}`
  }
  const refunds: { readonly id: string; readonly key: string }[] = []
  const buy = workflow('buy', async (ctx, item: string) => {
    const id = await ctx.step('charge', ({ key }) => done(key, `paid-${item}`), {
      compensate: (paid, { key }) => void refunds.push({ id: paid, key }),
    })
    const ok = await ctx.signal('go')
    await ctx.step('ship', ({ key }) => done(key, 'shipped'), {
      compensate: (shipped, { key }) => void refunds.push({ id: shipped, key }),
    })
    if (ok === 'fail') throw new Error('no')
    return id
  })
  return { charges, refunds, ids: () => refunds.map(({ id }) => id), buy }
}

async function ended(kit: WorkflowKit, run: WorkflowRun): Promise<string> {
  await kit.result(run).catch(() => undefined)
  return (await run.status()).status
}

async function waiting(kit: WorkflowKit, buy: ReturnType<typeof shop>['buy'], id: string): Promise<WorkflowRun> {
  const run = await kit.run(buy, id, { id })
  await kit.settle()
  return run
}

/** A fork that shares all that the run has done so far. */
async function trial(kit: WorkflowKit, run: WorkflowRun, to: string): Promise<WorkflowRun> {
  const { timeline } = run
  await kit.survive(async (rp) => rp.fork({ timeline, seq: (await rp.head(timeline))!.seq }, to))
  const fork = await kit.survive(async (rp) => workflows(rp).of(run.definition).get(to))
  await kit.settle()
  return fork
}

describe('G19, A6.6: a fork of a run', () => {
  it('leaves the payment of its original alone when it is cancelled; both cancelled, it is refunded once', async () => {
    const kit = kitWith()
    const { buy, charges, ids } = shop()
    const run = await waiting(kit, buy, 'a')
    const fork = await trial(kit, run, 'trial')
    await fork.cancel({ reason: 'only a trial' })
    expect(await ended(kit, fork)).toBe('cancelled')
    expect(ids()).toEqual([])
    await run.cancel()
    expect(await ended(kit, run)).toBe('cancelled')
    expect({ charges: charges.length, refunds: ids() }).toEqual({ charges: 1, refunds: ['paid-a-1'] })
  })

  it('undoes its own effects when it fails, is rolled back or undone, and none of its original', async () => {
    const kit = kitWith()
    const { buy, ids } = shop()
    const run = await waiting(kit, buy, 'a')
    const fails = await trial(kit, run, 'fails')
    await fails.signal('go', 'fail')
    expect(await ended(kit, fails)).toBe('failed')
    expect(ids()).toEqual(['shipped-2'])
    const goes = await trial(kit, run, 'goes')
    await goes.signal('go', 'yes')
    await kit.result(goes)
    await goes.undo()
    expect(ids()).toEqual(['shipped-2', 'shipped-3'])
    const back = await trial(kit, run, 'back')
    await back.rollback({ to: 'charge' })
    await kit.settle()
    expect(ids()).toEqual(['shipped-2', 'shipped-3'])
    await back.cancel()
    await ended(kit, back)
    // It charged anew after it went back to before the fork point: that one is its own.
    expect(ids()).toEqual(['shipped-2', 'shipped-3', 'paid-a-4'])
  })

  it('never undoes a step whose result was edited: it was never done', async () => {
    const kit = kitWith()
    const { buy, ids } = shop()
    const run = await waiting(kit, buy, 'a')
    const fork = await run.fork('charge', { id: 'edited', result: 'paid-by-nobody' })
    await kit.settle()
    await fork.cancel()
    await ended(kit, fork)
    expect(ids()).toEqual([])
  })

  it('shows inherited effects as those of the original', async () => {
    const kit = kitWith()
    const { buy } = shop()
    const run = await waiting(kit, buy, 'a')
    const fork = await trial(kit, run, 'trial')
    await fork.signal('go', 'yes')
    await kit.result(fork)
    const { effectsOf } = await import('../../src/operations/effects.ts')
    const shown = await kit.survive(async (rp) => effectsOf(rp, (await rp.head(fork.timeline))!))
    expect(shown.map(({ id, inheritedFrom = null }) => [id, inheritedFrom])).toEqual([
      ['charge', 'workflow/buy/a'],
      ['ship', null],
    ])
    // Its key is the original's as well: it was called with that one.
    expect(shown[0]!.key).toBe((await kit.survive(async (rp) => effectsOf(rp, (await rp.head(run.timeline))!)))[0]!.key)
  })
})

describe("G19, A6.6: { undo: 'inherited' }", () => {
  it('undoes effects of the original, under the key of the original, and records it in its history', async () => {
    const kit = kitWith()
    const { buy, charges, refunds } = shop()
    const run = await waiting(kit, buy, 'a')
    const fork = await trial(kit, run, 'trial')
    await fork.cancel({ reason: 'all of it', undo: 'inherited' })
    expect(await ended(kit, fork)).toBe('cancelled')
    expect((await run.state()).undone).toEqual({ charge: fork.timeline })
    await run.cancel()
    await ended(kit, run)
    const alone = await waiting(kit, buy, 'alone')
    await alone.cancel()
    await ended(kit, alone)
    expect(refunds.map(({ id }) => id)).toEqual(['paid-a-1', 'paid-alone-2'])
    expect(refunds.map(({ key }) => key)).toEqual(charges.map((key) => `${key}~undo`))
  })

  it('is refused if the original or another fork has undone it', async () => {
    const kit = kitWith()
    const { buy, ids } = shop()
    const run = await waiting(kit, buy, 'a')
    const [one, two] = [await trial(kit, run, 'one'), await trial(kit, run, 'two')]
    await one.cancel({ reason: 'one', undo: 'inherited' })
    await ended(kit, one)
    await expect(two.cancel({ reason: 'two', undo: 'inherited' })).rejects.toThrow(code('ALREADY_UNDONE'))
    await expect(two.rollback({ to: 'charge', undo: 'inherited' })).rejects.toThrow(code('ALREADY_UNDONE'))
    await run.cancel()
    await ended(kit, run)
    const other = await waiting(kit, buy, 'b')
    const three = await trial(kit, other, 'three')
    await other.cancel()
    await ended(kit, other)
    await expect(three.cancel({ reason: 'three', undo: 'inherited' })).rejects.toThrow(code('ALREADY_UNDONE'))
    expect(ids()).toEqual(['paid-a-1', 'paid-b-2'])
  })

  it('is done once when two forks and the original race', async () => {
    const kit = kitWith()
    const { buy, ids } = shop()
    const run = await waiting(kit, buy, 'a')
    const forks = [await trial(kit, run, 'one'), await trial(kit, run, 'two')]
    await Promise.all([...forks.map((fork) => fork.cancel({ reason: 'race', undo: 'inherited' })), run.cancel()])
    for (const each of [...forks, run]) expect(await ended(kit, each)).toBe('cancelled')
    expect(ids()).toEqual(['paid-a-1'])
  })
})

describe('G19: a fork from the middle of a run', () => {
  it('waits for a place of its own in the queue, and leaves it when it ends', async () => {
    const kit = kitWith()
    const one = queue('one', { concurrency: 1 })
    const inside: string[] = []
    const held = workflow(
      'held',
      async (ctx) => {
        await ctx.step('first', () => inside.push(ctx.id))
        await ctx.signal('go')
        await ctx.step('second', () => inside.push(`${ctx.id}!`))
      },
      { queue: one },
    )
    const run = await kit.run(held, { id: 'a' })
    await kit.advance('10s')
    await kit.survive(async (rp) => rp.fork({ timeline: run.timeline, seq: (await rp.head(run.timeline))!.seq }, 'b'))
    const fork = await kit.survive(async (rp) => workflows(rp).of(held).get('b'))
    await fork.signal('go', 1)
    await kit.advance('1m')
    expect((await fork.status()).status).toBe('queued')
    expect(inside).toEqual(['a'])
    await run.signal('go', 1)
    await kit.result(run)
    await kit.result(fork)
    // The place of the fork is free again.
    const next = await kit.run(held, { id: 'c' })
    await next.signal('go', 1)
    await kit.result(next)
    expect(inside).toEqual(['a', 'a!', 'b!', 'c', 'c!'])
  })

  it('does not answer the parent of its original, and has no schedule', async () => {
    const kit = kitWith()
    const child = workflow('child', async (ctx) => {
      const said = await ctx.signal('go')
      return `${ctx.id.includes('trial') ? 'trial' : 'child'} ${said}`
    })
    const parent = workflow('parent', async (ctx) => await ctx.child(child, { id: 'kid' }))
    const run = await kit.run(parent, { id: 'p' })
    const kid = await kit.survive(async (rp) => workflows(rp).of(child).get('kid'))
    await kit.settle()
    await kit.survive(async (rp) =>
      rp.fork({ timeline: kid.timeline, seq: (await rp.head(kid.timeline))!.seq }, 'trial'),
    )
    const fork = await kit.survive(async (rp) => workflows(rp).of(child).get('trial'))
    await fork.signal('go', 'first')
    await kit.result(fork)
    await kid.signal('go', 'second')
    expect(await kit.result(run)).toBe('child second')
  })

  it('calls a step anew, under its own key, that is held in its original; the original stays held', async () => {
    const kit = kitWith()
    const keys: string[] = []
    let hangs = true
    const risky = workflow('risky', async (ctx) => {
      const call = async ({ key }: { readonly key: string }) => {
        keys.push(key)
        if (hangs) await new Promise(() => undefined)
        return 'paid'
      }
      return await ctx.step('pay', call, { inDoubt: 'hold' })
    })
    const run = await kit.run(risky, { id: 'a' })
    await kit.settle()
    kit.crash()
    hangs = false
    await kit.advance('5m')
    const held = kit.handle(run)
    expect((await held.status()).status).toBe('held')
    await kit.survive(async (rp) => rp.fork({ timeline: run.timeline, seq: (await rp.head(run.timeline))!.seq }, 'b'))
    const fork = await kit.survive(async (rp) => workflows(rp).of(risky).get('b'))
    expect(await kit.result(fork)).toBe('paid')
    expect((await held.status()).status).toBe('held')
    expect(keys).toHaveLength(2)
    expect(keys[1]).not.toBe(keys[0])
  })

  it('is not a run of the schedule of its original', async () => {
    const kit = kitWith()
    const tick = workflow('tick', async (ctx) => await ctx.signal('go'))
    const run = await kit.run(tick, { id: 'a', attributes: { schedule: 'nightly', shop: 'x' } })
    await kit.settle()
    await kit.survive(async (rp) => rp.fork({ timeline: run.timeline, seq: 1 }, 'b'))
    const head = await kit.survive(async (rp) => rp.head('workflow/tick/b'))
    expect(head!.attributes).toMatchObject({ shop: 'x' })
    expect(head!.attributes.schedule).toBeUndefined()
  })
})

it('a run in a queue that starts over leaves its place when it ends', async () => {
  const kit = kitWith()
  const one = queue('one', { concurrency: 1 })
  const again = workflow('again', async (ctx, n: number) => (n > 0 ? ctx.continueAsNew(n - 1) : 'done'), { queue: one })
  expect(await kit.result(await kit.run(again, 2, { id: 'a' }))).toBe('done')
  expect(await kit.result(await kit.run(again, 2, { id: 'b' }))).toBe('done')
})

it('a step that was undone stays undone after a rollback to a later step', async () => {
  const kit = kitWith()
  const undone: string[] = []
  const both = workflow('both', async (ctx) => {
    await ctx
      .parallel([
        async () => {
          await ctx.step('a', () => 'a', { compensate: (what) => void undone.push(what) })
          throw new Error('no')
        },
      ])
      .catch(() => undefined)
    await ctx.step('b', () => 'b', { compensate: (what) => void undone.push(what) })
    await ctx.signal('go')
  })
  const run = await kit.run(both, { id: 'a' })
  await kit.settle()
  await run.rollback({ to: 'b' })
  await kit.settle()
  await run.cancel()
  await ended(kit, run)
  expect(undone.filter((what) => what === 'a')).toHaveLength(1)
})

type Act = { readonly what: 'fork' | 'cancel' | 'rollback' | 'signal'; readonly at: number; readonly undo: boolean }

/** Runs that fork, go back, fail and are cancelled at random. Returns the refunds that should not have been. */
async function play(acts: readonly Act[], planted: ReadonlySet<string>): Promise<string[]> {
  const kit = kitWith({ planted })
  const { buy, ids } = shop()
  const runs = [await waiting(kit, buy, 'a')]
  for (const { what, at, undo } of acts) {
    const run = runs[at % runs.length]!
    const options = undo ? ({ undo: 'inherited' } as const) : {}
    const refused = (error: { readonly code?: string }) => {
      if (!['ENDED', 'ALREADY_UNDONE', 'NOT_FOUND'].includes(error.code ?? '')) throw error
    }
    if (what === 'fork' && runs.length < 4) runs.push(await trial(kit, run, `f${runs.length}`))
    if (what === 'cancel') await run.cancel({ reason: 'random', ...options }).catch(refused)
    if (what === 'rollback') await run.rollback({ to: 'charge', ...options, consumed: 'force' }).catch(refused)
    if (what === 'signal') await run.signal('go', at % 2 === 0 ? 'fail' : 'yes').catch(refused)
    await kit.advance('1h')
  }
  for (const run of runs) await run.cancel().catch(() => undefined)
  for (const run of runs) await ended(kit, run)
  const refunds = ids()
  return refunds.filter((id, at) => refunds.indexOf(id) !== at)
}

const actOf = fc.record({
  what: fc.constantFrom('fork', 'fork', 'cancel', 'rollback', 'signal') as fc.Arbitrary<Act['what']>,
  at: fc.nat(8),
  undo: fc.boolean(),
})

describe('G19: forks, cancels and rollbacks of runs at random', () => {
  const search = (planted: ReadonlySet<string>, numRuns: number) =>
    fc.check(
      fc.asyncProperty(fc.array(actOf, { minLength: 2, maxLength: 8 }), async (acts) => {
        expect(await play(acts, planted)).toEqual([])
      }),
      { numRuns, endOnFailure: true },
    )

  it('refund each charge at most once', async () => {
    const { failed, counterexample } = await search(new Set(), 30)
    expect({ failed, counterexample }).toEqual({ failed: false, counterexample: null })
  })

  it('find the planted bug fork-inherits', async () => {
    expect((await search(new Set(['fork-inherits']), 100)).failed).toBe(true)
  })
})
