// Tables on every store: rows, ranges, transactions and their isolation, indexes, and their content after a crash.

import { expect, it } from 'vitest'
import { table } from '../../src/layers/table/index.ts'
import { pause } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

const sessions = table<{ user: string; age?: number }>('sessions', {
  indexes: { user: (row) => row.user, age: (row) => row.age },
})
const numbers = table<number>('numbers')

onEveryStore('table', (world) => {
  it('C7: sets, gets, deletes and ranges in key order, and is restored after the engine is gone', async () => {
    const w = await world()
    const rp = await w.engine()
    const t = await rp.open(numbers)
    await Promise.all(['c', 'a', 'b', 'd/1', 'd/2'].map((key, n) => t.set(key, n)))
    expect(await t.delete('b')).toBe(true)
    expect(await t.delete('b')).toBe(false)
    expect([...t.keys()]).toEqual(['a', 'c', 'd/1', 'd/2'])
    expect([...t.keys({ prefix: 'd/' })]).toEqual(['d/1', 'd/2'])
    expect([...t.entries({ from: 'a', to: 'd', reverse: true })]).toEqual([
      ['c', 0],
      ['a', 1],
    ])
    await rp.close()
    const again = await (await w.engine()).open(numbers)
    expect([...again]).toEqual([
      ['a', 1],
      ['c', 0],
      ['d/1', 3],
      ['d/2', 4],
    ])
  })

  it('writes many keys together or not at all', async () => {
    const rp = await (await world()).engine()
    const t = await rp.open(sessions)
    await t.set('s0', { user: 'old' })
    await t.transaction((tx) => {
      tx.set('s1', { user: 'ann' })
      tx.delete('s0')
      expect(tx.get('s1')).toEqual({ user: 'ann' })
      expect(tx.has('s0')).toBe(false)
    })
    await expect(
      t.transaction((tx) => {
        tx.set('s2', { user: 'bob' })
        throw new Error('no')
      }),
    ).rejects.toThrow('no')
    expect([...t.keys()]).toEqual(['s1'])
  })

  it('is serializable: lost updates and write skew do not happen, whether a transaction waits or not', async () => {
    const rp = await (await world()).engine()
    const t = await rp.open(numbers)
    await t.set('x', 0)
    await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        t.transaction(async (tx) => {
          const before = tx.get('x')!
          if (n % 2) await new Promise((resolve) => setTimeout(resolve, n % 5))
          tx.set('x', before + 1)
        }),
      ),
    )
    expect(t.get('x')).toBe(40)
    // Write skew: each takes one away only if both together stay positive.
    await t.transaction((tx) => {
      tx.set('p', 1)
      tx.set('q', 1)
    })
    const take = (key: string) =>
      t.transaction(async (tx) => {
        const sum = [...tx.entries({ from: 'p', to: 'r' })].reduce((total, [, n]) => total + n, 0)
        await pause(2)
        if (sum < 2) return false
        tx.set(key, tx.get(key)! - 1)
        return true
      })
    expect((await Promise.all([take('p'), take('q')])).filter(Boolean)).toHaveLength(1)
    expect(t.get('p')! + t.get('q')!).toBe(1)
  })

  it('finds rows by index, also after changes and a restart', async () => {
    const w = await world()
    const rp = await w.engine()
    const t = await rp.open(sessions)
    await t.set('1', { user: 'ann', age: 30 })
    await t.set('2', { user: 'bob', age: -1 })
    expect([...t.by('user', 'ann')].map(([key]) => key)).toEqual(['1'])
    await t.set('3', { user: 'ann', age: 4 })
    await t.set('1', { user: 'eve', age: 30 })
    await t.delete('2')
    expect([...t.by('user', 'ann')].map(([key]) => key)).toEqual(['3'])
    expect([...t.by('user', 'bob')]).toEqual([])
    await t.set('4', { user: 'x', age: -7 })
    expect([...t.by('age', { from: -10, to: 30 })].map(([key]) => key)).toEqual(['4', '3'])
    await rp.close()
    const again = await (await w.engine()).open(sessions)
    expect([...again.by('user', 'eve')].map(([key]) => key)).toEqual(['1'])
    expect(() => [...again.by('nope', 'x')]).toThrow(code('INVALID_ARGUMENT'))
  })

  it('notifies watchers of a key or a range after it is durable', async () => {
    const rp = await (await world()).engine()
    const t = await rp.open(numbers)
    const one: unknown[] = []
    const many: unknown[] = []
    const stop = t.watch('k', (changes) => one.push(...changes))
    t.watch({ prefix: 'a/' }, (changes) => many.push(...changes))
    await t.set('k', 1)
    await t.set('kk', 1)
    await t.transaction((tx) => {
      tx.set('a/1', 1)
      tx.set('k', 2)
    })
    stop()
    await t.delete('k')
    expect(one).toEqual([
      { key: 'k', value: 1, before: undefined },
      { key: 'k', value: 2, before: 1 },
    ])
    expect(many).toEqual([{ key: 'a/1', value: 1, before: undefined }])
  })

  it('binds the offset of a source to the rows, and never moves it back', async () => {
    const w = await world()
    const rp = await w.engine()
    const t = await rp.open(numbers)
    await t.transaction((tx) => {
      tx.set('a', 1)
      tx.advance('orders', 7)
    })
    await expect(t.transaction((tx) => tx.advance('orders', 6))).rejects.toEqual(code('CONFLICT'))
    await t.checkpoint()
    await rp.close()
    expect((await (await w.engine()).open(numbers)).offset('orders')).toBe(7)
  })

  it('writes a transaction too large for one entry in parts, visible at once at the end', async () => {
    const w = await world()
    const rp = await w.engine()
    const t = await rp.open(numbers)
    let seen = -1
    t.watch({}, (changes) => {
      seen = changes.length
    })
    await t.transaction((tx) => {
      for (let n = 0; n < 10_000; n++) tx.set(`k${n}`, n)
    })
    expect(seen).toBe(10_000)
    expect(t.size).toBe(10_000)
    expect(t.coordinate.seq).toBeGreaterThan(2)
    await rp.close()
    expect((await (await w.engine()).open(numbers)).size).toBe(10_000)
  })

  it('B3: undoes a transaction whose commit is missing, once, and continues', async () => {
    const w = await world()
    const rp = await w.engine()
    const t = await rp.open(numbers)
    await t.set('before', 1)
    const open = await hostOf(rp).openTimeline(t.timeline as never, numbers.fold)
    // As a crash in the middle of a large transaction leaves it: parts, and no commit.
    await open.write([
      { type: 'p', data: { t: 'cut', n: 0, s: ['half', 1], d: ['before'] } },
      { type: 'p', data: { t: 'cut', n: 1, s: ['other', 1] } },
    ])
    expect([...t]).toEqual([['before', 1]])
    const next = await (await w.engine()).open(numbers, undefined, { takeover: true })
    expect([...next]).toEqual([['before', 1]])
    await next.set('after', 2)
    const third = await (await w.engine()).open(numbers, undefined, { takeover: true })
    expect([...third]).toEqual([
      ['after', 2],
      ['before', 1],
    ])
  })
})
