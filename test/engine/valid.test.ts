// Application consistency: a state that its author calls invalid is neither captured nor restored, a person's mark on a
// checkpoint counts until a person removes it, and the place before a logical error is found and shown before it is undone.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { keyed, type Reprise, timeline } from '../../src/index.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { stateStore, table } from '../../src/layers/table/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { onEveryStore } from '../support/worlds.ts'

type Moved = { readonly type: 'moved'; readonly by: number }

const moved = (by: number): Moved => ({ type: 'moved', by })

const balance = (valid?: (state: { total: number }) => boolean | string | void) =>
  timeline('balance', {
    initial: () => ({ total: 0 }),
    apply: (state, entry: Moved) => ({ total: state.total + entry.by }),
    ...(valid && { valid }),
  })

const notNegative = balance(({ total }) => (total < 0 ? `the total is ${total}` : true))
const lenient = balance()

async function write(rp: Reprise, amounts: readonly number[], definition = lenient, id = 'a') {
  const open = await rp.open(definition, id, { evenInvalid: true })
  for (const by of amounts) await open.append(moved(by))
  return open
}

onEveryStore('a state that is not valid', (world) => {
  it('is not captured: an event gives the reason, the last good checkpoint stays, and history is whole', async () => {
    const rp = await (await world()).engine()
    const failures: unknown[] = []
    rp.events.on('checkpoint-failed', ({ error }) => failures.push(error))
    const open = await write(rp, [5], notNegative)
    const good = await open.checkpoint()
    await open.append(moved(-9))
    await expect(open.checkpoint()).rejects.toMatchObject({
      code: 'INVALID_STATE',
      data: { timeline: 'balance/a', seq: 2, reason: 'the total is -4' },
    })
    await expect(rp.savepoint({ timeline: 'balance/a', seq: 2 })).rejects.toMatchObject({ code: 'INVALID_STATE' })
    expect((await rp.checkpoints('balance/a')).map(({ id }) => id)).toEqual([good.id])
    expect((await rp.card('balance/a')).invalid).toBe('the total is -4')
    await open.append(moved(10))
    await open.checkpoint()
    expect((await rp.card('balance/a')).invalid).toBeNull()
    expect(open.state.total).toBe(6)
  })

  it('is refused at open with the coordinate, and can be opened to be mended', async () => {
    const rp = await (await world()).engine()
    await (await write(rp, [5, -9])).close()
    await expect(rp.open(notNegative, 'a')).rejects.toMatchObject({
      code: 'INVALID_STATE',
      data: { timeline: 'balance/a', seq: 2 },
    })
    await expect(rp.open(notNegative, 'a', { shared: true })).rejects.toMatchObject({ code: 'INVALID_STATE' })
    const open = await rp.open(notNegative, 'a', { evenInvalid: true })
    await open.append(moved(10))
    await open.close()
    expect((await rp.open(notNegative, 'a')).state.total).toBe(6)
  })

  it('in a checkpoint is skipped for an older one, which is reported, and it is not marked', async () => {
    const rp = await (await world()).engine()
    const open = await write(rp, [5])
    const older = await open.checkpoint()
    await open.append(moved(-9))
    const bad = await open.checkpoint()
    await open.append(moved(10))
    await open.close()
    const again = await rp.open(notNegative, 'a')
    expect(again.state.total).toBe(6)
    expect(again.recovery.checkpoint?.id).toBe(older.id)
    expect(again.recovery.skipped).toEqual([
      { id: bad.id, seq: 2, why: expect.stringContaining('the captured state is not valid: the total is -4') },
    ])
    expect((await rp.checkpoints('balance/a')).every(({ invalid }) => invalid === null)).toBe(true)
    const { results } = await rp.drill()
    expect(results.map(({ checkpoint, ok }) => [checkpoint, ok])).toEqual([
      [bad.id, false],
      [older.id, true],
    ])
  })
})

onEveryStore('a checkpoint that a person marked bad', (world) => {
  it('is not restored from, whatever a reader finds; only a person removes the mark', async () => {
    const w = await world()
    const rp = await w.engine()
    const open = await write(rp, [1])
    const first = await open.checkpoint()
    await open.append(moved(2))
    const second = await open.checkpoint()
    // Beside its owner, from another process.
    const other = await w.engine()
    await other.markCheckpoint('balance/a', second.id, { why: 'made by [BUG] 7', by: 'ann' })
    await open.append(moved(3))
    await open.close()
    await rp.verify()
    const drilled = await rp.drill()
    expect(drilled.ok).toBe(true)
    expect(drilled.results.map(({ checkpoint }) => checkpoint)).not.toContain(second.id)
    const again = await rp.open(lenient, 'a')
    expect(again.recovery.checkpoint?.id).toBe(first.id)
    expect(again.recovery.skipped[0]!.why).toContain('marked bad by ann: made by [BUG] 7')
    // Checkpoints that come after it do not drive it out.
    for (let i = 0; i < 6; i++) {
      await again.append(moved(1))
      await again.checkpoint()
    }
    const kept = (await rp.checkpoints('balance/a')).find(({ id }) => id === second.id)
    expect(kept?.invalid).toBe('marked bad by ann: made by [BUG] 7')
    await rp.unmarkCheckpoint('balance/a', second.id)
    expect((await rp.checkpoints('balance/a')).find(({ id }) => id === second.id)?.invalid ?? null).toBeNull()
    await expect(rp.unmarkCheckpoint('balance/a', second.id)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(rp.markCheckpoint('balance/a', 'none', { why: 'x' })).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await expect(rp.markCheckpoint('balance/a', second.id, { why: '' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
  })
})

onEveryStore('before a logical error', (world) => {
  it('is found by entry, by time and by state; the plan lists the undone entries, and nothing is changed', async () => {
    const rp = await (await world()).engine()
    const open = await write(rp, [5, 5])
    await open.checkpoint()
    await open.effects.run('mail', () => 'sent')
    for (const by of [-3, -9, 1]) await open.append(moved(by))
    await open.checkpoint()
    await open.append(moved(0))
    const seq = open.coordinate.seq
    await open.close()
    rp.declare(notNegative[Symbol.for('reprise.describes') as never])
    const plan = await rp.planRollback('balance/a', { valid: 'declared' })
    expect(plan).toMatchObject({
      from: seq,
      found: { type: 'moved' },
      because: expect.stringContaining('the total is -2'),
    })
    expect((await rp.at(lenient, 'a', { seq: plan.to })).state.total).toBe(7)
    expect((await rp.at(lenient, 'a', { seq: plan.to + 1 })).state.total).toBe(-2)
    expect(plan.undone).toMatchObject({ entries: seq - plan.to, types: { moved: 3 } })
    const byEntry = await rp.planRollback('balance/a', { seq: 3 })
    expect(byEntry).toMatchObject({ to: 2, found: { seq: 3 } })
    expect(byEntry.undone.effects.cannot.map(({ id }) => id)).toEqual(['mail'])
    const byTime = await rp.planRollback('balance/a', { time: plan.found.time })
    expect(byTime.found.time).toBeGreaterThanOrEqual(plan.found.time)
    await expect(rp.planRollback('balance/a', { time: Date.now() + 1e6 })).rejects.toMatchObject({
      code: 'OUT_OF_RANGE',
    })
    await expect(rp.planRollback('balance/a', { valid: () => true })).rejects.toMatchObject({ code: 'OUT_OF_RANGE' })
    await expect(rp.planRollback('balance/a', { valid: () => 'never' })).rejects.toMatchObject({
      code: 'INVALID_STATE',
    })
    expect((await rp.head('balance/a'))!.seq).toBe(seq)
    await rp.rollback({ to: { timeline: 'balance/a', seq: plan.to } })
    expect((await rp.open(notNegative, 'a')).state.total).toBe(7)
  })

  it('of a run is shown with the effects of its steps and children', async () => {
    const rp = await (await world()).engine()
    const child = workflow('child', async () => 1)
    const run = workflow('parent', async (ctx) => {
      await ctx.step('charge', () => 1)
      await ctx.child(child, undefined)
      await ctx.step('ship', () => 2)
    })
    await (await rp.run(run, { id: 'one' })).result()
    const plan = await rp.planRollback('workflow/parent/one', { seq: 2 })
    expect(plan.undone.did).toEqual(['step ship', 'child child ended', 'step charge'])
  })

  it('cannot be checked without the application', async () => {
    const w = await world()
    await (await write(await w.engine(), [5, -9])).close()
    const tool = await w.engine()
    await expect(tool.planRollback('balance/a', { valid: 'declared' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('is unknown'),
    })
    expect(await tool.planRollback('balance/a', { seq: 2 })).toMatchObject({ to: 1 })
  })
})

onEveryStore(
  'the search by state',
  (world) => {
    it('A4.7: finds an entry that is valid before and not after, in any history with any checkpoints', async () => {
      const rp = await (await world()).engine()
      let n = 0
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 1, maxLength: 30 }),
          fc.array(fc.nat(29), { maxLength: 5 }),
          async (amounts, captured) => {
            const id = `p${n++}`
            const open = await rp.open(lenient, id)
            const totals = [0]
            for (const [i, by] of amounts.entries()) {
              await open.append(moved(by))
              totals.push(totals.at(-1)! + by)
              if (captured.includes(i)) await open.checkpoint()
            }
            await open.close()
            const valid = ({ total }: { total: number }) => total >= 0
            const searching = rp.planRollback(`balance/${id}`, { valid: valid as never })
            if (totals.at(-1)! >= 0) {
              await expect(searching).rejects.toMatchObject({ code: 'OUT_OF_RANGE' })
              return
            }
            const { to } = await searching
            expect(totals[to]).toBeGreaterThanOrEqual(0)
            expect(totals[to + 1]).toBeLessThan(0)
          },
        ),
        { numRuns: 40 },
      )
    })
  },
  ['memory'],
)

describe.each(['memory', 'sqlite'])('every model with a state (%s)', (kind) => {
  onEveryStore(
    'declares what is valid',
    (world) => {
      it('aggregates, tables, saves and projections neither capture nor restore an invalid state', async () => {
        const w = await world()
        const rp = await w.engine()
        const account = aggregate('account', {
          initial: () => ({ balance: 0 }),
          evolve: { moved: (s, e: { by: number }) => ({ balance: s.balance + e.by }) },
          decide: { move: (_s, c: { by: number }) => ({ type: 'moved', by: c.by }) },
          valid: ({ balance: left }) => left >= 0,
        })
        const ann = await rp.open(account, 'ann')
        await ann.do('move', { by: -1 })
        await expect(ann.checkpoint()).rejects.toMatchObject({ code: 'INVALID_STATE' })
        const elsewhere = await w.engine()
        await expect(elsewhere.open(account, 'ann')).rejects.toMatchObject({ code: 'INVALID_STATE' })
        const mender = await elsewhere.open(account, 'ann', { evenInvalid: true })
        await mender.do('move', { by: 1 })
        await mender.do('move', { by: -1 })
        await elsewhere.close()

        const stock = table<number>('stock', { valid: (rows) => [...rows.values()].every((n) => n >= 0) })
        const shelf = await rp.open(stock)
        await shelf.set('apples', -1)
        await expect(shelf.checkpoint()).rejects.toMatchObject({ code: 'INVALID_STATE' })
        await shelf.set('apples', 1)
        await shelf.checkpoint()

        const counts = stateStore<number>('counts', { partitions: 2, valid: (rows) => rows.size < 2 || 'too many' })
        const counted = await counts.partition(rp, 0)
        for (const key of ['a', 'b']) await counted.set(key, 1)
        await expect(counted.checkpoint()).rejects.toMatchObject({ data: { reason: 'too many' } })

        // A timeline without writes has the initial state of its author.
        const support = agent('support', { initial: () => ({ order: '' }), valid: ({ order }) => order !== '' })
        const session = await rp.open(support, 's1')
        await session.note('hello')
        await expect(session.checkpoint()).rejects.toMatchObject({ code: 'INVALID_STATE' })
        await session.close()
        await expect(rp.open(support, 's1')).rejects.toMatchObject({ code: 'INVALID_STATE' })
        const mended = await rp.open(support, 's1', { evenInvalid: true })
        await mended.edit(() => ({ order: '7' }))
        await mended.checkpoint()

        const lax = await rp.open(save<{ loss: number }>('weights'))
        await lax.put({ loss: 1 })
        await lax.put({ loss: Number.NaN })
        await lax.close()
        const weights = await rp.open(
          save<{ loss: number }>('weights', { valid: ({ loss }) => (Number.isNaN(loss) ? 'it diverged' : true) }),
        )
        await expect(weights.put({ loss: Number.NaN })).rejects.toMatchObject({ code: 'INVALID_STATE' })
        const loaded = await weights.latest()
        expect(loaded.value).toEqual({ loss: 1 })
        expect(loaded.skipped[0]!.why).toContain('it diverged')

        const sums = projection('sums', {
          from: [account],
          initial: () => ({ sum: 0, items: keyed<number>() }),
          on: { moved: (s, e) => ({ ...s, sum: s.sum + e.by }) },
          valid: ({ sum }) => sum >= 0,
          checkpoint: { every: 1 },
        })
        const failed = new Promise((resolve) =>
          rp.events.on(
            'checkpoint-failed',
            ({ timeline: of, error }) => of.startsWith('projection/') && resolve(error),
          ),
        )
        const view = await rp.open(sums)
        await view.catchUp()
        expect(await failed).toMatchObject({ code: 'INVALID_STATE' })
        await ann.do('move', { by: 5 })
        await view.catchUp()
        expect(view.state.sum).toBe(4)
      })
    },
    [kind],
  )
})
