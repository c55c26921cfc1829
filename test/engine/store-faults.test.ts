// The engine over a store that fails: lost answers, refusals, an overfull queue, and encryption.

import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { type KeyRing, RepriseError } from '../../src/index.ts'
import { faultyStore } from '../../src/testing/index.ts'
import { added, counter, shelf } from '../support/definitions.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

onEveryStore('store faults', (world) => {
  it('G4: whatever answer gets lost, each append is applied exactly once', async () => {
    const w = await world()
    for (const fate of ['fail-before', 'fail-after'] as const) {
      let commits = 0
      const store = faultyStore(await w.store(), (method) => (method === 'commit' && ++commits % 2 === 0 ? fate : 'ok'))
      const rp = await w.engine({ ports: { store } })
      const c = await rp.open(counter, fate, { wait: '5s' })
      for (let i = 0; i < 8; i++) await c.append(added(1))
      await c.checkpoint()
      expect(c.state.total).toBe(8)
      await rp.close()
      expect((await (await w.engine()).open(counter, fate, { wait: '5s' })).state.total).toBe(8)
    }
  })

  it('a damaged timeline is refused alone: commits at the same moment continue', async () => {
    const w = await world()
    const store = await w.store()
    let isDamaged = false
    const commit: typeof store.commit = async (commits) => {
      if (isDamaged && commits.some(({ guard }) => guard?.timeline === 'counter/bad')) {
        throw new RepriseError('STORE_DAMAGED', 'the head of counter/bad does not match its checksum')
      }
      return await store.commit(commits)
    }
    const damaging = new Proxy(store, {
      get(target, name) {
        if (name === 'commit') return commit
        const found: unknown = Reflect.get(target, name)
        return typeof found === 'function' ? found.bind(target) : found
      },
    })
    const rp = await w.engine({ ports: { store: damaging } })
    const good = await rp.open(counter, 'good')
    const bad = await rp.open(counter, 'bad')
    isDamaged = true
    const [first, second, third] = await Promise.allSettled([good, bad, good].map((one) => one.append(added(1))))
    expect(first).toMatchObject({ status: 'fulfilled' })
    expect(second).toMatchObject({ status: 'rejected', reason: { code: 'STORE_DAMAGED' } })
    expect(third).toMatchObject({ status: 'fulfilled' })
    expect(good.state.total).toBe(2)
    isDamaged = false
    await bad.append(added(5))
    expect(bad.state.total).toBe(5)
  })

  it('backpressure: callers wait for room, nothing is dropped, and waiting can be aborted', async () => {
    const w = await world()
    const rp = await w.engine({ limits: { queuedCommits: 3 } })
    const c = await rp.open(counter, 'x')
    const aborted = new AbortController()
    const appends = Array.from({ length: 40 }, () => c.append(added(1)))
    const late = c.append(added(1000), { signal: aborted.signal })
    aborted.abort()
    await expect(late).rejects.toEqual(code('ABORTED'))
    await Promise.all(appends)
    expect(c.state.total).toBe(40)
  })

  it('gives up with OUTCOME_UNKNOWN when the store stays away, and history shows the outcome', async () => {
    const w = await world()
    let isAway = false
    const store = faultyStore(await w.store(), (method) => (method === 'commit' && isAway ? 'fail-after' : 'ok'))
    const rp = await w.engine({ ports: { store }, patience: 30 })
    const c = await rp.open(counter, 'x')
    await c.append(added(1))
    isAway = true
    await expect(c.append(added(2))).rejects.toEqual(code('OUTCOME_UNKNOWN'))
    await expect(c.append(added(3))).rejects.toEqual(code('OUTCOME_UNKNOWN'))
    isAway = false
    expect((await rp.open(counter, 'x')).state.total).toBe(3)
  })

  it('what broke with an unknown outcome is free for others once it was closed', async () => {
    const w = await world()
    let isAway = false
    const store = faultyStore(await w.store(), (method) => (method === 'commit' && isAway ? 'fail-after' : 'ok'))
    const rp = await w.engine({ ports: { store }, patience: 30 })
    const c = await rp.open(counter, 'x')
    isAway = true
    await expect(c.append(added(2))).rejects.toEqual(code('OUTCOME_UNKNOWN'))
    isAway = false
    await c.close()
    expect((await rp.head('counter/x'))!.owner).toBeNull()
    const other = await w.engine()
    expect((await other.open(counter, 'x')).state.total).toBe(2)
  })

  it('A8.6: with keys nothing readable reaches the store, keys rotate, and a missing key is named', async () => {
    const w = await world()
    const keys = (current: string, ...ids: string[]): KeyRing => ({
      current,
      keys: Object.fromEntries(ids.map((id) => [id, ring[id]!])),
    })
    const ring: Record<string, Uint8Array> = { k1: randomBytes(32), k2: randomBytes(32) }
    const secret = 'a secret that must not be found anywhere'
    const first = await w.engine({ keys: keys('k1', 'k1') })
    const s = await first.open(shelf, 'x')
    await s.append(
      Array.from({ length: 3000 }, (_, i) => ({ type: 'set' as const, key: `${secret} ${i}`, value: Math.sin(i) })),
    )
    await s.checkpoint()
    const page = await first.feed('')
    const everything = [
      ...page.items.map(({ run }) => run.bytes),
      ...(await first.checkpoints('shelf/x')).map(({ body }) => body),
    ]
    for (const { digest } of await hostOf(first).kernel.store.blobs.list(null, 1000))
      everything.push((await hostOf(first).kernel.store.blobs.get([digest]))[0]!)
    expect(everything.length).toBeGreaterThan(2)
    for (const bytes of everything) expect(Buffer.from(bytes).includes('secret')).toBe(false)
    await first.close()
    const second = await w.engine({ keys: keys('k2', 'k1', 'k2') })
    const t = await second.open(shelf, 'x')
    await t.append({ type: 'cut', key: `${secret} 0` })
    expect(t.state.items.size).toBe(2999)
    await second.close()
    const third = await w.engine({ keys: keys('k2', 'k2') })
    const error = await third.open(shelf, 'x').catch((e) => e)
    expect(error).toEqual(code('KEY_MISSING'))
    expect(error.message).toContain('k1')
  })
})
