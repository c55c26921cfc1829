// Appending: durable when it resolves, in order, packed by the group commit, refused before anything is written.

import { describe, expect, it } from 'vitest'
import { RepriseError, timeline } from '../../src/index.ts'
import { added, counter } from '../support/definitions.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

onEveryStore('append', (world) => {
  it('A1.1: appended entries exist after the engine is gone, from history alone', async () => {
    const w = await world()
    const first = await w.engine()
    const c = await first.open(counter, 'visits')
    await c.append(added(2))
    await c.append([added(3), added(4)])
    expect(c.state.total).toBe(9)
    const { coordinate } = c
    await first.close()
    const again = await (await w.engine()).open(counter, 'visits')
    expect(again.state).toEqual({ total: 9 })
    expect(again.coordinate.seq).toBe(3)
    expect(again.coordinate.digest).toBe(coordinate.digest)
    expect(again.coordinate.epoch).toBeGreaterThan(coordinate.epoch)
    expect(again.recovery).toMatchObject({ checkpoint: null, entriesReplayed: 3 })
  })

  it('lets one of several appends of the same moment follow a sequence, and takes a repetition for one', async () => {
    const w = await world()
    const rp = await w.engine()
    const c = await rp.open(counter, 'visits')
    const sameMoment = [1, 2, 3].map((by) => c.append(added(by), { expect: 0, key: `k${by}` }))
    const told = await Promise.allSettled(sameMoment)
    expect(told.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected'])
    expect(told.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { code: 'CONFLICT' } })
    expect(c.coordinate.seq).toBe(1)
    // An append queued behind another: its expected position is checked when its turn comes.
    await Promise.all([c.append(added(4), { expect: 1 }), c.append(added(5), { expect: 2 })])
    const won = told.findIndex(({ status }) => status === 'fulfilled') + 1
    expect(await c.append(added(won), { expect: 0, key: `k${won}` })).toMatchObject({ isDuplicate: true })
    expect(c.state.total).toBe(won + 9)
  })

  it('makes entries from the state that they follow, also of appends of the same moment', async () => {
    const w = await world()
    const c = await (await w.engine()).open(counter, 'visits')
    await c.append(added(1))
    await Promise.all([1, 2, 3, 4].map(() => c.append(({ total }) => added(total))))
    expect(c.state.total).toBe(16)
    const once = [1, 2, 3].map(() => c.append(({ total }) => (total < 20 ? added(4) : [])))
    await Promise.all(once)
    expect(c.state.total).toBe(20)
    await expect(c.append(({ total }) => added(total), { expect: 1 })).rejects.toEqual(code('CONFLICT'))
  })

  it('packs appends of the same moment into one commit and keeps their order', async () => {
    const w = await world()
    const rp = await w.engine()
    const order = timeline('order', {
      initial: () => [] as number[],
      apply: (s, e: { type: 'n'; n: number }) => [...s, e.n],
    })
    const o = await rp.open(order, 'a')
    let commits = 0
    rp.events.on('committed', (event) => {
      commits += event.commits
    })
    const results = await Promise.all(Array.from({ length: 50 }, (_, n) => o.append({ type: 'n', n })))
    expect(o.state).toEqual(Array.from({ length: 50 }, (_, n) => n))
    expect(results.map((r) => r.seq)).toEqual(Array.from({ length: 50 }, (_, n) => n + 1))
    expect(commits).toBeLessThan(5)
  })

  it('G4: an entry with a key is applied once, in one process and in the next', async () => {
    const w = await world()
    const first = await w.engine()
    const c = await first.open(counter, 'keyed')
    const both = await Promise.all([c.append(added(1), { key: 'k1' }), c.append(added(1), { key: 'k1' })])
    expect(both.map((r) => r.isDuplicate).sort()).toEqual([false, true])
    await c.checkpoint()
    await first.close()
    const d = await (await w.engine()).open(counter, 'keyed')
    expect((await d.append(added(1), { key: 'k1' })).isDuplicate).toBe(true)
    expect((await d.append(added(1), { key: 'k2' })).isDuplicate).toBe(false)
    expect(d.state.total).toBe(2)
  })

  it('refuses an entry that apply rejects, before it is written, and continues', async () => {
    const w = await world()
    const strict = timeline('strict', {
      initial: () => 0,
      apply: (sum, e: { type: 'n'; n: number }) => {
        if (e.n < 0) throw new Error('negative')
        return sum + e.n
      },
    })
    const s = await (await w.engine()).open(strict, 'a')
    const outcomes = await Promise.allSettled([
      s.append({ type: 'n', n: 1 }),
      s.append({ type: 'n', n: -1 }),
      s.append({ type: 'n', n: 2 }),
    ])
    expect(outcomes.map((o) => o.status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    await expect(s.append({ type: 'n', n: -5 })).rejects.toEqual(code('FOLD_FAILED'))
    expect(s.state).toBe(3)
    expect(s.coordinate.seq).toBe(2)
  })

  it('refuses an apply that waits: a promise is no state', async () => {
    const w = await world()
    const waiting = timeline('waiting', { initial: () => 0, apply: (async () => 1) as never })
    const s = await (await w.engine()).open(waiting, 'a')
    await expect(s.append({ type: 'n' } as never)).rejects.toEqual(code('ASYNC_CALLBACK'))
    expect(s.state).toBe(0)
    expect(s.coordinate.seq).toBe(0)
  })

  it('the state changes only when the entries are durable', async () => {
    const w = await world()
    const c = await (await w.engine()).open(counter, 'later')
    const appending = c.append(added(1))
    expect(c.state.total).toBe(0)
    await appending
    expect(c.state.total).toBe(1)
  })

  it('keeps values whole: Date, Map, Set, BigInt, bytes, undefined, -0, NaN', async () => {
    const w = await world()
    const any = timeline('any', {
      initial: () => null as unknown,
      apply: (_s, e: { type: 'v'; v: unknown }) => ({ v: e.v }),
    })
    const value = {
      at: new Date(5),
      map: new Map([[{ a: 1 }, 2]]),
      set: new Set(['x']),
      big: 10n ** 30n,
      bytes: new Uint8Array([1, 2, 255]),
      nothing: undefined,
      zero: -0,
      nan: Number.NaN,
      text: 'lone \ud800',
    }
    const first = await w.engine()
    const a = await first.open(any, 'a')
    await a.append({ type: 'v', v: value })
    await first.close()
    const b = await (await w.engine()).open(any, 'a')
    expect(b.state).toEqual({ v: value })
  })
})

describe('append', () => {
  onEveryStore(
    'bad input',
    (world) => {
      it('gets a clear error and leaves nothing behind', async () => {
        const w = await world()
        const rp = await w.engine({ limits: { entriesPerAppend: 3 } })
        const c = await rp.open(counter, 'bad')
        const bad = async (entry: unknown, expected: string) =>
          await expect(c.append(entry as never)).rejects.toEqual(code(expected))
        await bad({ type: '' }, 'INVALID_ARGUMENT')
        await bad({ type: '$effect.done' }, 'INVALID_ARGUMENT')
        await bad(null, 'INVALID_ARGUMENT')
        await bad({ type: 'added', by: () => 1 }, 'UNSERIALIZABLE')
        await bad([added(1), added(1), added(1), added(1)], 'LIMIT_EXCEEDED')
        await c.append([added(1), added(1), added(1)])
        expect(c.coordinate.seq).toBe(3)
        for (const id of ['', 'a//b', '/a', 'a\u0000b', 'x'.repeat(600), 'half \ud800']) {
          await expect(rp.open(counter, id)).rejects.toEqual(code('INVALID_ID'))
        }
        // @ts-expect-error a counter has an id
        await expect(rp.open(counter)).rejects.toBeInstanceOf(RepriseError)
      })
    },
    ['memory', 'sqlite'],
  )
})
