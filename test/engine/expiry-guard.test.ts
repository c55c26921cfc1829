// A6.5: an expiry, a collection or a delete removes only the timeline that it looked at. Between its look and its forget, other
// processes append, restart, end again, write mail, or delete and create the id anew; what they were told to be stored stays.
// Each test is run a second time with a store that guards a forget by the head of that moment: there it must lose the timeline.

import { expect, it } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import { forwardStore } from '../../src/core/store/forward.ts'
import { guardOf } from '../../src/core/store/guard.ts'
import type { Commit, Outcome, Store } from '../../src/core/store/ports.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { isUnfinishedKind } from '../../src/engine/model/first-segment.ts'
import { housekeepingRound } from '../../src/engine/tools/housekeeping/housekeeping.ts'
import { timeline } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

type Between = (commits: readonly Commit[]) => Promise<void>

/** Calls `between` before the first forget reaches the store: whoever forgets has looked before. */
function interrupted(store: Store, between: Between, isWeak: boolean): Store {
  let isOver = false
  return forwardStore(store, {
    async commit(commits) {
      if (!isOver && commits.some(({ forget }) => forget)) {
        isOver = true
        await between(commits)
      }
      return await store.commit(isWeak ? await asFound(store, commits) : commits)
    },
  })
}

/** The planted bug: whatever is there under that name now goes. */
async function asFound(store: Store, commits: readonly Commit[]): Promise<Commit[]> {
  return await Promise.all(
    commits.map(async (commit) => {
      if (!commit.forget) return commit
      const [head] = await store.head([commit.guard!.timeline])
      const { unlessMail: _, ...rest } = commit
      return head ? { ...rest, guard: guardOf(head) } : commit
    }),
  )
}

const log = timeline('log', {
  initial: () => ({ total: 0 }),
  apply: (state: { total: number }, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
  retain: { checkpoints: 1, history: 'needed', forks: '20ms' },
})
const greet = workflow('greet', async (ctx, name: string) => {
  if (name === 'wait') return await ctx.signal<string>('go')
  return await ctx.step('say', () => `hello ${name}`)
})
const old = () => new Promise((resolve) => setTimeout(resolve, 100))
const expire = { every: 1, drill: false as const, collect: false, expire: { ended: { 'workflow/': 50 } } }
const ids = async (rp: Reprise, prefix: string) => (await rp.list({ prefix })).map((head) => head.timeline).sort()

/** A housekeeper that knows no definition; its process is another one. */
async function housekeeper(world: World, between: Between, isWeak: boolean): Promise<Reprise> {
  return await world.engine({ ports: { store: interrupted(await world.store(), between, isWeak) } })
}

onEveryStore('what was acknowledged since the look', (world) => {
  const both = [
    [false, 'stays'],
    [true, 'is lost with the planted bug'],
  ] as const

  it.each(both)('A6.5: a fork that is appended to while collect() runs (weak guard: %s) %s', async (isWeak) => {
    const at = await world()
    const rp = await at.engine()
    const open = await rp.open(log, 'a')
    for (let n = 0; n < 3; n++) await open.append({ type: 'added', by: 1 })
    await open.checkpoint()
    await hostOf(rp).forkTimeline({ timeline: 'log/a', seq: 3 }, 'log/fork')
    await old()
    const other = await housekeeper(
      at,
      async () => {
        const fork = await rp.open(log, 'fork')
        await fork.append({ type: 'added', by: 100 })
        await fork.close()
      },
      isWeak,
    )
    const { forks } = await other.collect()
    expect(await ids(rp, 'log/')).toEqual(isWeak ? ['log/a'] : ['log/a', 'log/fork'])
    if (isWeak) return
    expect(forks).toMatchObject({ expired: [], kept: [{ timeline: 'log/fork' }] })
    expect((await rp.open(log, 'fork')).state.total).toBe(103)
  })

  it.each(both)('A6.5: mail to a fork that is due (weak guard: %s) %s', async (isWeak) => {
    const at = await world()
    const rp = await at.engine()
    const open = await rp.open(log, 'a')
    await open.append({ type: 'added', by: 1 })
    await hostOf(rp).forkTimeline({ timeline: 'log/a', seq: 1 }, 'log/fork')
    await old()
    const other = await housekeeper(at, async () => void (await rp.send('log/fork', 'hello', { n: 1 })), isWeak)
    const { forks } = await other.collect()
    if (isWeak) return expect(await rp.head('log/fork')).toBeNull()
    expect(forks).toMatchObject({ expired: [], kept: [{ timeline: 'log/fork' }] })
    expect((await rp.head('log/fork'))!.mail).toBe(1)
  })

  it.each(both)('A6.5: an ended run that is restarted and waits for a signal (weak guard: %s) %s', async (isWeak) => {
    const at = await world()
    const rp = await at.engine()
    const run = await rp.run(greet, 'ann', { id: 'r' })
    await run.result()
    await old()
    const other = await housekeeper(
      at,
      async () => {
        await run.restart('wait')
        await until(async () => {
          const { status, wakeup, owner } = (await rp.head('workflow/greet/r'))!
          return status === 'waiting' && wakeup === null && owner === null
        })
      },
      isWeak,
    )
    const round = await housekeepingRound(other, expire)
    if (isWeak) return expect(await rp.head('workflow/greet/r')).toBeNull()
    expect(round).toMatchObject({ expired: [], kept: [expect.stringContaining('workflow/greet/r')] })
    await run.signal('go', 'on')
    expect(await run.result()).toBe('on')
  })

  it.each(both)('A6.5: a run that ended again after the look (weak guard: %s) %s', async (isWeak) => {
    const at = await world()
    const rp = await at.engine()
    const run = await rp.run(greet, 'ann', { id: 'r' })
    await run.result()
    await old()
    const other = await housekeeper(
      at,
      async () => {
        await run.restart('bob')
        expect(await run.result()).toBe('hello bob')
      },
      isWeak,
    )
    const round = await housekeepingRound(other, expire)
    if (isWeak) return expect(await rp.head('workflow/greet/r')).toBeNull()
    expect(round).toMatchObject({ expired: [], kept: [expect.stringContaining('workflow/greet/r')] })
    // Its declared time counts from the second end: this round looks for the first time after it.
    const later = await housekeepingRound(other, { ...expire, expire: { ended: { 'workflow/': '1h' } } })
    expect(later).toMatchObject({ expired: [] })
    expect(await run.result()).toBe('hello bob')
  })

  it.each(both)('A6.5: an id made again while the answer of its delete is lost (weak guard: %s) %s', async (isWeak) => {
    const at = await world()
    const rp = await at.engine()
    const append = async (by: number) => {
      const open = await rp.open(log, 'a')
      await open.append({ type: 'added', by })
      await open.close()
    }
    await append(1)
    const store = await at.store()
    let forgets = 0
    const losing = forwardStore(store, {
      async commit(commits): Promise<Outcome[]> {
        const isForget = commits.some(({ forget }) => forget)
        if (!isForget || ++forgets > 1) return await store.commit(isWeak ? await asFound(store, commits) : commits)
        await store.commit(commits)
        await append(500)
        throw new RepriseError('STORE_IO', 'the answer was lost', {})
      },
    })
    const other = await at.engine({ ports: { store: losing } })
    await other.delete('log/a')
    expect(forgets).toBe(2)
    if (isWeak) return expect(await rp.head('log/a')).toBeNull()
    expect((await rp.head('log/a'))!.life).toBe(2)
    expect((await rp.open(log, 'a')).state.total).toBe(500)
  })
})

/** Statuses in which something is left to do, by the kind of the id. */
const unfinished: readonly (readonly [id: string, status: string])[] = [
  ...['queued', 'waiting', 'running', 'held', 'compensating', 'stuck', 'diverged', 'quarantined'].map(
    (status) => [`workflow/w/${status}`, status] as const,
  ),
  ...['running', 'stopped'].map((status) => [`job/${status}`, status] as const),
  ...['running', 'stopped', 'failed'].map((status) => [`pipeline/${status}`, status] as const),
  ...['running', 'stopped', 'failed'].map((status) => [`exec/${status}`, status] as const),
  ...['receiving', 'received', 'starting', 'failed'].map((status) => [`upload/u/${status}`, status] as const),
  ...['running', 'stopped', 'failed'].map((status) => [`migrate/${status}`, status] as const),
  ...['running', 'waiting'].map((status) => [`agent/a/${status}`, status] as const),
]

onEveryStore('a status that is no ending', (world) => {
  const bare = { version: '1', initial: () => 0, apply: (n: number) => n }
  const make = async (rp: Reprise) => {
    for (const [id, status] of unfinished) {
      await hostOf(rp).create(id as never, bare, [{ type: 'x', data: 1 }], { status, release: true })
    }
  }

  it.each([false, true])('A6.5: is never expired, whether the process knows the model (%s) or not', async (isKnown) => {
    const at = await world()
    const rp = await at.engine()
    await make(rp)
    const all = await ids(rp, '')
    await old()
    const other = await at.engine()
    if (isKnown) await declareKinds(other)
    const round = await housekeepingRound(other, { ...expire, expire: { ended: { '': 20 } } })
    expect(round!.expired).toEqual([])
    expect(await ids(rp, '')).toEqual(expect.arrayContaining(all))
    // The time was up: an ending of the same kind goes.
    const along = { status: 'completed', release: true }
    await hostOf(rp).create('workflow/w/over' as never, bare, [{ type: 'x', data: 1 }], along)
    await old()
    const next = await housekeepingRound(other, { ...expire, expire: { ended: { '': 20 } } })
    expect(next!.expired).toEqual(['workflow/w/over'])
  })

  it.each([false, true])('A6.5: keeps a fork, whether the process knows the model (%s) or not', async (isKnown) => {
    const at = await world()
    const rp = await at.engine()
    const open = await rp.open(log, 'a')
    await open.append({ type: 'added', by: 1 })
    const { kernel } = hostOf(rp)
    const fork = async (id: string, status: string) => {
      const [head] = await kernel.store.head(['log/a' as never])
      const { timeline: of, seq, digest } = head!
      const base = { timeline: of, seq, digest }
      const [outcome] = await kernel.store.commit([
        {
          operation: `fork ${id}` as never,
          guard: { timeline: id as never, epoch: 0 },
          take: { worker: await kernel.worker.register(), from: 'free', create: { digest, base } },
          status,
          release: true,
        },
      ])
      expect(outcome).toMatchObject({ ok: true })
    }
    for (const [id, status] of unfinished) await fork(id, status)
    await fork('workflow/w/over', 'completed')
    await old()
    const other = await at.engine()
    if (isKnown) await declareKinds(other)
    const { forks } = await other.collect()
    expect(forks.expired).toEqual(['workflow/w/over'])
    expect(forks.kept.map((each) => each.timeline).sort()).toEqual(unfinished.map(([id]) => id).sort())
  })

  it('the statuses that an expiry knows are those of the models', async () => {
    const rp = await (await world()).engine()
    await declareKinds(rp)
    for (const { scope, unfinished: left } of hostOf(rp).models.all()) {
      for (const status of left ?? []) {
        if (scope.startsWith('group')) continue
        expect([scope, status, isUnfinishedKind(`${scope}x`, status)]).toEqual([scope, status, true])
      }
    }
  })
})
