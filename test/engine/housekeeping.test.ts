// Housekeeping: one process at a time, visible, bounded, and it removes only data whose expiry was declared.

import { expect, it } from 'vitest'
import {
  checkHousekeeping,
  housekeepingRound,
  housekeepingState,
} from '../../src/engine/tools/housekeeping/housekeeping.ts'
import { timeline } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { pause } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state: { total: number }, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
  retain: { checkpoints: 1, history: 'needed' },
})
const greet = workflow('greet', async (ctx, name: string) => await ctx.step('say', () => `hello ${name}`))

onEveryStore('housekeeping', (world) => {
  it('is done by one process at a time, and not again before it is due', async () => {
    const at = await world()
    const [one, two, three] = [await at.engine(), await at.engine(), await at.engine()]
    const rounds = await Promise.all([one, two, three].map((engine) => housekeepingRound(engine)))
    expect(rounds.filter((round) => round !== null)).toHaveLength(1)
    expect(await housekeepingRound(two!)).toBeNull()
    expect(await housekeepingState(three!)).toMatchObject({ rounds: 1, problem: null, last: { expired: [] } })
    expect(await housekeepingRound(three!, { every: 1 })).not.toBeNull()
    expect((await housekeepingState(one!))!.rounds).toBe(2)
  })

  it('deletes ended runs only where declared, after their time, and keeps needed ones', async () => {
    const engine = await (await world()).engine()
    for (const name of ['ann', 'bob']) await (await engine.run(greet, name, { id: name })).result()
    const waiting = workflow('waits', async (ctx) => await ctx.signal('go'))
    await engine.run(waiting, { id: 'w' })
    await hostOf(engine).forkTimeline({ timeline: 'workflow/greet/bob', seq: 1 }, 'workflow/other/fork')
    const ids = async () => (await engine.list({ prefix: 'workflow/' })).map((head) => head.timeline).sort()
    await pause(300)
    await housekeepingRound(engine, { every: 1 })
    await housekeepingRound(engine, { every: 1, expire: { ended: { 'workflow/': '1h' } } })
    expect(await ids()).toHaveLength(4)
    const round = await housekeepingRound(engine, { every: 1, expire: { ended: { 'workflow/': 100 } } })
    expect(round!.expired).toEqual(['workflow/greet/ann'])
    expect(round!.kept[0]).toContain('workflow/greet/bob')
    expect(await ids()).toEqual(['workflow/greet/bob', 'workflow/other/fork', 'workflow/waits/w'])
  })

  it('deletes all that is due in one round, however many there are, and names the first of them', async () => {
    const engine = await (await world()).engine()
    const runs = Array.from({ length: 210 }, (_, n) => engine.run(greet, `${n}`, { id: `r${n}` }))
    await Promise.all(runs.map(async (run) => await (await run).result()))
    await pause(150)
    const round = await housekeepingRound(engine, { expire: { ended: { 'workflow/greet/': 50 } } })
    expect(round).toMatchObject({ expiredCount: 210, kept: [] })
    expect(round!.expired).toHaveLength(200)
    expect(await engine.list({ prefix: 'workflow/greet/' })).toEqual([])
  })

  it('lets the longest scope count, and refuses what cannot be the beginning of an id', async () => {
    const engine = await (await world()).engine()
    const other = workflow('other', async (ctx) => await ctx.step('do', () => 1))
    await (await engine.run(greet, 'x', { id: 'one' })).result()
    await (await engine.run(other, { id: 'one' })).result()
    await pause(150)
    const ended = { '': 50, 'workflow/': 50, 'workflow/greet/': '2d' } as const
    expect((await housekeepingRound(engine, { expire: { ended } }))!.expired).toEqual(['workflow/other/one'])
    for (const odd of ['/', 'workflow//', '\0/', 'workflow/greet']) {
      expect(() => checkHousekeeping({ expire: { ended: { [odd]: 50 } } })).toThrow('must name scopes')
    }
  })

  it('takes a few of each scope in turn, so that one with many does not keep the others waiting', async () => {
    const engine = await (await world()).engine()
    const other = workflow('other', async (ctx) => await ctx.step('do', () => 1))
    await Promise.all(
      Array.from({ length: 45 }, async (_, n) => await (await engine.run(greet, `${n}`, { id: `r${n}` })).result()),
    )
    await (await engine.run(other, { id: 'one' })).result()
    await pause(150)
    const ended = { 'workflow/greet/': 50, 'workflow/other/': 50 }
    const { expired } = (await housekeepingRound(engine, { expire: { ended } }))!
    expect(expired).toHaveLength(46)
    expect(expired.indexOf('workflow/other/one')).toBeLessThan(40)
  })

  it('expires archives, and drills checkpoints without a recent drill', async () => {
    const engine = await (await world()).engine()
    const open = await engine.open(counter, 'a')
    for (let n = 0; n < 4; n++) await open.append({ type: 'added', by: 1 })
    await open.checkpoint()
    await open.close()
    await engine.rollback({ to: { timeline: 'counter/a', seq: 2 } })
    const left = await engine.open(counter, 'b')
    await left.append({ type: 'added', by: 1 })
    await left.checkpoint()
    await left.close()
    await pause(200)
    const options = { every: 1, drill: 50, expire: { archives: 100 } }
    const first = await housekeepingRound(engine, options)
    // The branch still needs the history that it shares with the archive.
    expect(first).toMatchObject({ expired: [], kept: [expect.stringContaining('counter/a~1')], drillsFailed: [] })
    expect(first!.drilled).toBeGreaterThan(0)
    const branch = await engine.open(counter, 'a')
    for (let n = 0; n < 2; n++) {
      await branch.append({ type: 'added', by: 1 })
      await branch.checkpoint()
    }
    await branch.close()
    await pause(200)
    const second = await housekeepingRound(engine, options)
    expect(second).toMatchObject({ expired: ['counter/a~1'], kept: [] })
    expect((await engine.verify()).faults).toEqual([])
    const [checkpoint] = await engine.checkpoints('counter/b')
    expect(checkpoint!.drill).toMatch(/^ok/)
  })

  it('records faults for people', async () => {
    const engine = await (await world()).engine()
    const { store } = hostOf(engine).kernel
    const list = store.blobs.list.bind(store.blobs)
    store.blobs.list = () => Promise.reject(new Error('the disk is away'))
    await expect(housekeepingRound(engine)).rejects.toThrow('the disk is away')
    store.blobs.list = list
    expect((await housekeepingState(engine))!.problem).toContain('the disk is away')
    expect(await housekeepingRound(engine, { every: 1 })).not.toBeNull()
    expect((await housekeepingState(engine))!.problem).toBeNull()
  })
})

onEveryStore('expiry of forks', (world) => {
  const log = (forks?: string) =>
    timeline('log', {
      initial: () => ({ total: 0 }),
      apply: (state: { total: number }, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
      retain: { checkpoints: 1, history: 'needed', ...(forks !== undefined && { forks: forks as '1ms' }) },
    })

  it('A4.5: forks expire after their declared time, by the stored policy, and a dry run reports it first; needed ones stay', async () => {
    const at = await world()
    const engine = await at.engine()
    const open = await engine.open(log('50ms'), 'a')
    for (let n = 0; n < 4; n++) await open.append({ type: 'added', by: 1 })
    await open.checkpoint()
    for (const name of ['old', 'pinned', 'busy', 'parent', 'child']) {
      const from = name === 'child' ? 'log/parent' : 'log/a'
      await hostOf(engine).forkTimeline({ timeline: from, seq: 3 }, `log/${name}`)
    }
    const old = await engine.open(log('50ms'), 'old')
    await old.append({ type: 'added', by: 9 })
    await old.close()
    // Its own branch, and the earlier timeline: neither is a fork of it.
    await engine.rollback({ to: { timeline: 'log/old', seq: 3 } })
    await engine.savepoint({ timeline: 'log/pinned', seq: 3 })
    const busy = await engine.open(log('50ms'), 'busy')
    await pause(150)
    // A process without the definition follows the stored policy.
    const stranger = await at.engine()
    const dry = await stranger.collect({ dryRun: true })
    expect([...dry.forks.expired].sort()).toEqual(['log/child', 'log/old', 'log/old~1'])
    expect(dry.forks.kept.map(({ timeline }) => timeline).sort()).toEqual(['log/busy', 'log/parent', 'log/pinned'])
    const ids = async () => (await stranger.list({ prefix: 'log/' })).map((head) => head.timeline).sort()
    expect(await ids()).toHaveLength(7)
    const done = await stranger.collect()
    expect(done.forks.expired).toEqual(expect.arrayContaining(['log/child', 'log/old', 'log/old~1']))
    expect(await ids()).toEqual(expect.arrayContaining(['log/a', 'log/busy', 'log/pinned']))
    expect(await ids()).not.toContain('log/old')
    expect((await stranger.verify()).faults).toEqual([])
    await busy.close()
    expect(open.state).toEqual({ total: 4 })
  })

  it('A4.5: without a declared time no fork goes, and a young one never does', async () => {
    const engine = await (await world()).engine()
    const open = await engine.open(log(), 'a')
    await open.append({ type: 'added', by: 1 })
    await hostOf(engine).forkTimeline({ timeline: 'log/a', seq: 1 }, 'log/fork')
    await pause(50)
    expect((await engine.collect()).forks).toEqual({ expired: [], kept: [] })
    await open.close()
    await (await engine.open(log('1h'), 'a')).close()
    expect((await engine.collect()).forks).toEqual({ expired: [], kept: [] })
    expect(await engine.head('log/fork')).not.toBeNull()
  })
})
