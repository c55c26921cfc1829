// A fork owns its own effects: effects of its original are shown as the original's, and undone by choice only.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Effect } from '../../src/core/history/effects.ts'
import { inheritedBy, ownerOf } from '../../src/core/history/inheritance.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { agent, mergeBranch, tool } from '../../src/layers/agent/index.ts'
import { counter } from '../support/definitions.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })
const ids = (effects: readonly { readonly id: string }[]) => effects.map(({ id }) => id)

async function charged(rp: Reprise, id = 'x') {
  const open = await rp.open(counter, id)
  await open.effects.run('charge', ({ key }) => key, { reversal: 'compensate' })
  return open
}

onEveryStore('forks and effects', (world) => {
  it('G19: the plan of a fork leaves the effects of its original alone, and names them', async () => {
    const rp = await (await world()).engine()
    const x = await charged(rp)
    await rp.fork(x.coordinate, 'y')
    const y = await rp.open(counter, 'y')
    await y.effects.run('ship', () => 1, { reversal: 'compensate' })
    const shown = (await rp.effectsOf('counter/y')).map(({ id, inheritedFrom = null }) => [id, inheritedFrom])
    expect(shown).toEqual([
      ['charge', 'counter/x'],
      ['ship', null],
    ])
    const plan = await rp.planRollback('counter/y', { seq: 1 })
    expect(ids(plan.undone.effects.compensate)).toEqual(['ship'])
    expect(plan.undone.effects.inherited).toMatchObject([{ id: 'charge', inheritedFrom: 'counter/x' }])
    await expect(y.effects.compensate('charge', () => undefined)).rejects.toEqual(code('INHERITED'))
    await y.close()
    const { effects } = await rp.rollback({ to: { timeline: 'counter/y', seq: 0 } })
    expect([ids(effects.compensate), ids(effects.inherited)]).toEqual([['ship'], ['charge']])
    expect((await rp.effectsOf('counter/x'))[0]!.state).toBe('done')
  })

  it("G19: { undo: 'inherited' } is recorded in the original first, and refused the second time", async () => {
    const rp = await (await world()).engine()
    const x = await charged(rp)
    await rp.fork(x.coordinate, 'y')
    await rp.fork(x.coordinate, 'z')
    const [y, z] = [await rp.open(counter, 'y'), await rp.open(counter, 'z')]
    const undone: string[] = []
    const undo = (by: string) => (_: Effect, key: string) => void undone.push(`${by} ${key}`)
    const races = await Promise.allSettled([
      y.effects.compensate('charge', undo('y'), { undo: 'inherited' }),
      z.effects.compensate('charge', undo('z'), { undo: 'inherited' }),
    ])
    expect(races.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(races.find((race) => race.status === 'rejected')!.reason).toEqual(code('ALREADY_UNDONE'))
    expect(undone).toHaveLength(1)
    const winner = undone[0]!.startsWith('y') ? 'counter/y' : 'counter/z'
    expect(x.effects.get('charge')).toMatchObject({ outcome: 'compensated', by: winner })
    // The original does not repeat it either.
    await x.effects.compensate('charge', undo('x'))
    // A repetition by the fork that undid it calls nothing.
    await (winner === 'counter/y' ? y : z).effects.compensate('charge', undo('again'), { undo: 'inherited' })
    expect(undone).toHaveLength(1)
    await Promise.all([y.close(), z.close()])
    const loser = winner === 'counter/y' ? 'counter/z' : 'counter/y'
    await expect(rp.rollback({ to: { timeline: loser, seq: 0 }, undo: 'inherited' })).rejects.toEqual(
      code('ALREADY_UNDONE'),
    )
  })

  it('G19: a rollback that undoes inherited effects is done for one fork; the original may belong to another process', async () => {
    const w = await world()
    const rp = await w.engine()
    const x = await charged(rp)
    await rp.fork(x.coordinate, 'y')
    const other = await w.engine()
    other.declare({ kind: 'counter', name: null, scope: 'counter/', fold: counter.fold, policy: 'declared' } as never)
    await expect(other.rollback({ to: { timeline: 'counter/y', seq: 0 }, undo: 'inherited', wait: 0 })).rejects.toEqual(
      code('OWNED'),
    )
    expect((await rp.effectsOf('counter/x'))[0]!.state).toBe('done')
    await x.close()
    const { effects } = await other.rollback({ to: { timeline: 'counter/y', seq: 0 }, undo: 'inherited' })
    expect(effects.compensate).toMatchObject([{ id: 'charge', inheritedFrom: 'counter/x' }])
    expect((await rp.effectsOf('counter/x'))[0]).toMatchObject({ outcome: 'compensated', by: 'counter/y' })
  })

  it('G19: an effect in doubt is in doubt for the original; the fork calls anew under its own key', async () => {
    const w = await world()
    const rp = await w.engine()
    const x = await rp.open(counter, 'x')
    const keys: string[] = []
    let answer = (_: number) => {}
    const hangs = x.effects.run('pay', ({ key }) => {
      keys.push(key)
      return new Promise<number>((resolve) => {
        answer = resolve
      })
    })
    while (keys.length === 0) await new Promise((resolve) => setImmediate(resolve))
    await rp.fork(x.coordinate, 'y')
    const y = await rp.open(counter, 'y')
    expect(y.effects.inDoubt()).toEqual([])
    expect((await rp.planRollback('counter/y', { seq: 1 })).undone.effects.inDoubt).toEqual([])
    // Held in the original; the fork has a call of its own to make.
    expect(await y.effects.run('pay', ({ key }) => keys.push(key), { inDoubt: 'hold' })).toBe(2)
    expect(keys[1]).not.toBe(keys[0])
    answer(7)
    expect(await hangs).toBe(7)
    expect(y.effects.get('pay')).toMatchObject({ result: 2, attempts: 1 })
    await y.close()
    const again = await rp.open(counter, 'y')
    expect(await again.effects.run('pay', () => 99)).toBe(2)
  })

  it('G19: a fork that was rolled back to before the fork point owns its later effects', async () => {
    const rp = await (await world()).engine()
    const x = await charged(rp)
    await rp.fork(x.coordinate, 'y')
    await rp.rollback({ to: { timeline: 'counter/y', seq: 0 } })
    const y = await charged(rp, 'y')
    await y.close()
    const { effects } = await rp.rollback({ to: { timeline: 'counter/y', seq: 0 } })
    expect([ids(effects.compensate), ids(effects.inherited)]).toEqual([['charge'], []])
  })
})

/** An outside service: charges and refunds by their id, with the session that made them. It honours no keys. */
function bank() {
  const charges = new Map<string, string>()
  const refunds: { readonly id: string; readonly by: string }[] = []
  let acting = ''
  const as = (session: string) => {
    acting = session
  }
  const clerk = agent('clerk', {
    initial: () => ({}),
    model: () => ({ content: 'ok' }),
    tools: {
      pay: tool({
        kind: 'compensatable',
        run: (_: { n: number }, { session }) => {
          const id = `c${charges.size}`
          charges.set(id, session)
          return id
        },
        compensate: (_args, id) => void refunds.push({ id: String(id), by: acting }),
      }),
    },
  })
  return { clerk, charges, refunds, as }
}

onEveryStore('forks of sessions', (world) => {
  it('G19: rollback(0) of a fork leaves the charge of its original alone', async () => {
    const rp = await (await world()).engine()
    const { clerk, refunds } = bank()
    const main = await rp.open(clerk, 'main')
    await main.turn('one')
    await main.use('pay', { n: 1 })
    await main.fork('trial')
    const trial = await rp.open(clerk, 'trial')
    await trial.use('pay', { n: 1 })
    await trial.use('pay', { n: 2 })
    expect(trial.planRollback({ to: 0 })).toMatchObject({
      compensate: [{ tool: 'pay', args: { n: 2 } }],
      inherited: [{ tool: 'pay', args: { n: 1 }, inheritedFrom: 'agent/clerk/main' }],
    })
    await trial.rollback({ to: 0 })
    expect(refunds.map(({ id }) => id)).toEqual(['c1'])
    await main.rollback({ to: 0, consumed: 'force' })
    expect(refunds.map(({ id }) => id)).toEqual(['c1', 'c0'])
  })

  it.each([1, 2, 3])(
    'G19: a call that a rollback cuts after %i of its entries is refunded by the next one',
    async (at) => {
      const rp = await (await world()).engine()
      const { clerk, refunds } = bank()
      const main = await rp.open(clerk, 'main')
      await main.turn('one')
      const { seq } = main.coordinate
      await main.use('pay', { n: 1 })
      expect(main.coordinate.seq).toBe(seq + 4)
      await main.rollback({ to: { seq: seq + at } })
      expect(refunds).toEqual([])
      await main.rollback({ to: 0, consumed: 'force' })
      expect(refunds.map(({ id }) => id)).toEqual(['c0'])
    },
  )

  it("G19: { undo: 'inherited' } refunds it once, whichever is first", async () => {
    const rp = await (await world()).engine()
    const { clerk, refunds } = bank()
    const main = await rp.open(clerk, 'main')
    await main.turn('one')
    await main.use('pay', { n: 1 })
    await main.fork('one')
    await main.fork('two')
    const [one, two] = [await rp.open(clerk, 'one'), await rp.open(clerk, 'two')]
    await one.rollback({ to: 0, undo: 'inherited' })
    expect(refunds.map(({ id }) => id)).toEqual(['c0'])
    await expect(two.rollback({ to: 0, undo: 'inherited' })).rejects.toEqual(code('ALREADY_UNDONE'))
    await main.rollback({ to: 0, consumed: 'force' })
    await two.rollback({ to: 0 })
    expect(refunds).toHaveLength(1)
  })

  it('G19: effects of a branch are undone only by the session it was merged into', async () => {
    const rp = await (await world()).engine()
    const { clerk, refunds } = bank()
    const main = await rp.open(clerk, 'main')
    await main.turn('one')
    await main.fork('branch')
    const branch = await rp.open(clerk, 'branch')
    await branch.use('pay', { n: 1 })
    await Promise.all([main.close(), branch.close()])
    await mergeBranch(rp, clerk, 'main', 'branch')
    const [merged, left] = [await rp.open(clerk, 'main'), await rp.open(clerk, 'branch')]
    expect(left.planRollback({ to: 0 })).toMatchObject({
      compensate: [],
      inherited: [{ inheritedFrom: 'agent/clerk/main' }],
    })
    await left.rollback({ to: 0 })
    expect(refunds).toEqual([])
    await merged.rollback({ to: 0, consumed: 'force' })
    expect(refunds).toHaveLength(1)
  })
})

type Act = { readonly what: 'pay' | 'fork' | 'rollback'; readonly at: number; readonly to: number }

/** Sessions that pay, fork and roll back at random. Returns the faults outside, if any. */
async function play(w: World, acts: readonly Act[], planted: ReadonlySet<string>): Promise<string | null> {
  const rp = await w.engine({ ports: { planted } })
  const { clerk, charges, refunds, as } = bank()
  const first = await rp.open(clerk, 's0')
  await first.turn('go')
  const sessions = [first]
  for (const { what, at, to } of acts) {
    const session = sessions[at % sessions.length]!
    if (what === 'pay') await session.use('pay', { n: charges.size })
    if (what === 'fork' && sessions.length < 5) {
      await session.fork(`s${sessions.length}`)
      sessions.push(await rp.open(clerk, `s${sessions.length}`))
    }
    if (what === 'rollback') {
      as(session.timeline)
      const { seq } = session.coordinate
      await session
        .rollback({
          to: { seq: Math.min(seq, 1 + (to % seq)) },
          consumed: 'force',
          ...(to % 5 === 0 && { undo: 'inherited' as const }),
        })
        .catch((error) => {
          if (error.code !== 'ALREADY_UNDONE') throw error
        })
    }
  }
  await rp.close()
  const seen = new Set<string>()
  for (const { id, by } of refunds) {
    if (seen.has(id)) return `${id} was refunded twice`
    seen.add(id)
    const isChosen = acts.some(({ what, to }) => what === 'rollback' && to % 5 === 0)
    if (charges.get(id) !== by && !isChosen) return `${id} of ${charges.get(id)} was refunded by ${by}`
  }
  return null
}

const actOf = fc.record({
  what: fc.constantFrom('pay', 'pay', 'fork', 'rollback') as fc.Arbitrary<Act['what']>,
  at: fc.nat(10),
  to: fc.nat(40),
})

onEveryStore('forks at random', (world) => {
  const search = async (planted: ReadonlySet<string>, runs: Readonly<Record<string, number>>) => {
    const { kind } = await world()
    const acts = fc.array(actOf, { minLength: 3, maxLength: 14 })
    const plays = fc.asyncProperty(acts, async (given) => {
      expect(await play(await world(), given, planted)).toBeNull()
    })
    return await fc.check(plays, { numRuns: runs[kind]!, endOnFailure: true })
  }

  it('G19: each charge is refunded at most once, and by its owner unless a person chose otherwise', async () => {
    const { failed, counterexample } = await search(new Set(), { memory: 60, sqlite: 12, postgres: 4 })
    expect({ failed, counterexample }).toEqual({ failed: false, counterexample: null })
  })

  it('finds the planted bug fork-inherits', async () => {
    const { failed } = await search(new Set(['fork-inherits']), { memory: 300, sqlite: 150, postgres: 150 })
    expect(failed).toBe(true)
  })
})

it('G19: who owns a sequence, over forks of forks and rollbacks to before the fork point', () => {
  const at = (timeline: string, base: [string, number] | null) => ({
    timeline,
    base: base && { timeline: base[0], seq: base[1] },
  })
  expect(inheritedBy([at('a/x', null)])).toEqual([])
  expect(inheritedBy([at('a/x', ['a/x~1', 4]), at('a/x~1', null)])).toEqual([])
  const nested = inheritedBy([at('a/z', ['a/y', 9]), at('a/y', ['a/x', 4]), at('a/x', null)])
  expect([3, 4, 5, 9, 10].map((seq) => ownerOf(nested, seq))).toEqual(['a/x', 'a/x', 'a/y', 'a/y', null])
  const back = inheritedBy([at('a/y', ['a/y~1', 2]), at('a/y~1', ['a/x', 4])])
  expect([2, 3].map((seq) => ownerOf(back, seq))).toEqual(['a/x', null])
})
