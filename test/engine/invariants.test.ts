// Invariants that are asserted where state changes: a store or a rule that breaks one stops the handle with BUG before its
// state continues from a wrong value.

import { expect, it } from 'vitest'
import { decide } from '../../src/core/commit/decide.ts'
import type { CommitView, HeadFacts } from '../../src/core/commit/view.ts'
import type { Commit, Outcome, Store } from '../../src/core/store/ports.ts'
import { forwardStore } from '../../src/core/store/store-wrapper.ts'
import { timeline } from '../../src/engine/api/timeline-definition.ts'
import { aggregate, tableProjection } from '../../src/layers/events/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const counter = timeline('counter', {
  initial: () => 0,
  apply: (n: number, e: { type: 'added'; by: number }) => n + e.by,
})
const account = aggregate('account', {
  initial: () => 0,
  evolve: { paid: (n: number) => n + 1 },
  decide: { pay: () => ({ type: 'paid' as const }) },
})
const bug = (what: string) => ({ code: 'BUG', message: expect.stringContaining(what) })

/** A store that returns wrong outcomes for commits with a run, once enabled. */
function lying(store: Store, lie: Partial<Outcome & { readonly ok: true }>) {
  let isLying = false
  const told = (commit: Commit, outcome: Outcome): Outcome =>
    isLying && commit.run && outcome.ok ? { ...outcome, ...lie } : outcome
  const commit: Store['commit'] = async (commits) =>
    (await store.commit(commits)).map((outcome, i) => told(commits[i]!, outcome))
  return { store: forwardStore(store, { commit }), lie: () => (isLying = true) }
}

onEveryStore(
  'what must hold',
  (world) => {
    it.each([
      ['another epoch', { epoch: 99 }, 'the epoch of its writer'],
      ['another sequence', { seq: 99 }, 'the head moves by the appended entries'],
    ])('a writer stops when the store tells it of %s', async (_, lie, what) => {
      const w = await world()
      const { store, lie: begin } = lying(await w.store(), lie)
      const rp = await w.engine({ ports: { store } })
      const one = await rp.open(counter, 'a')
      await one.append({ type: 'added', by: 1 })
      const series = await rp.open(save<number>('model'))
      begin()
      const both = [one.append({ type: 'added', by: 2 }), one.append({ type: 'added', by: 3 })]
      for (const each of await Promise.allSettled(both)) expect(each).toMatchObject({ reason: bug(what) })
      expect(one.state).toBe(1)
      await expect(one.append({ type: 'added', by: 4 })).rejects.toMatchObject(bug(what))
      if ('seq' in lie) await expect(series.put(1)).rejects.toMatchObject(bug(what))
    })

    it('a subscription stops when the feed goes back', async () => {
      const w = await world()
      const store = await w.store()
      let isLying = false
      const feed: Store['feed'] = async (after, filter, limit) => {
        const page = await store.feed(after, filter, limit)
        return isLying ? { ...page, next: ' ' } : page
      }
      const rp = await w.engine({ ports: { store: forwardStore(store, { feed }) } })
      const sums = tableProjection('sums', {
        from: [account],
        into: table<number>('sums'),
        on: { paid: (tx, _, at) => tx.set(at.id, at.seq) },
      })
      const handle = await rp.open(sums)
      const one = await rp.open(account, 'ann')
      await one.do('pay')
      await handle.catchUp()
      isLying = true
      await one.do('pay')
      await expect(handle.catchUp({ timeout: '5s' })).rejects.toMatchObject(bug('only moves forward'))
    })
  },
  ['memory'],
)

it('a decided commit leaves no gap, and its floor lies at or below its head', () => {
  const digest = new Uint8Array(32)
  const head = {
    seq: 5,
    epoch: 1,
    digest,
    floor: 0,
    floorDigest: digest,
    base: null,
    owner: null,
    operation: null,
  } as never
  const facts: HeadFacts = { ...(head as HeadFacts), updatedAt: 0 }
  const view = { now: 1, head: () => facts, isRetired: () => false, isAlive: () => true } as unknown as CommitView
  const guard = { timeline: 'a', epoch: 1, seq: 5, digest } as unknown as Commit['guard']
  const commit = (first: number, count = 1) =>
    ({ operation: 'o', guard, run: { first, count, digest, bytes: digest } }) as unknown as Commit
  expect(decide(view, commit(6)).outcome).toMatchObject({ ok: true, seq: 6 })
  expect(() => decide(view, commit(7))).toThrow(expect.objectContaining(bug('no gap')))
  expect(() => decide(view, commit(6, 0))).toThrow(expect.objectContaining(bug('no gap')))
  const above = { ...view, head: () => ({ ...facts, floor: 6 }) } as CommitView
  expect(() => decide(above, { operation: 'o', guard } as Commit)).toThrow(expect.objectContaining(bug('floor')))
})
