// A6.5: an expiry, a collection or a delete removes only the timeline that it read, and a trim, a mark and a savepoint change
// only that one. Between the read and the forget, other processes append, restart, end again, write mail, or delete and create
// the id again; their acknowledged writes stay. Each test runs a second time with a store that guards a forget by the head of
// that moment: there it must lose the timeline.

import { expect, it } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import { guardOf } from '../../src/core/store/commit-guard.ts'
import type { Commit, Outcome, Store } from '../../src/core/store/ports.ts'
import { forwardStore } from '../../src/core/store/store-wrapper.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { isUnfinishedKind } from '../../src/engine/model/id-prefixes.ts'
import { housekeepingRound } from '../../src/engine/tools/housekeeping/housekeeping.ts'
import { timeline } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

type Between = (commits: readonly Commit[]) => Promise<void>

/** Calls `between` before the first such commit reaches the store: its process has looked before. */
function interrupted(
  store: Store,
  between: Between,
  isWeak: boolean,
  isGuarded: (commit: Commit) => boolean = isForget,
  outcomes: Outcome[] = [],
): Store {
  let isOver = false
  return forwardStore(store, {
    async commit(commits) {
      const isIt = commits.some(isGuarded)
      if (isIt && !isOver) {
        isOver = true
        await between(commits)
      }
      const made = await store.commit(isWeak ? await asFound(store, commits, isGuarded) : commits)
      if (isIt) outcomes.push(...made)
      return made
    },
  })
}

const isForget = ({ forget }: Commit) => Boolean(forget)

/** The planted bug: the guard is that of the timeline that has the name now. */
async function asFound(store: Store, commits: readonly Commit[], isGuarded = isForget): Promise<Commit[]> {
  return await Promise.all(
    commits.map(async (commit) => {
      if (!isGuarded(commit)) return commit
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

/** A housekeeper without definitions; its process is another one. */
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
    // Its declared time counts from the second end: this is the first round after it.
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
        if (!commits.some(isForget) || ++forgets > 1)
          return await store.commit(isWeak ? await asFound(store, commits) : commits)
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

/** The same timeline for the process that writes it: history stays until the other process trims it. */
const whole = timeline('log', {
  initial: () => ({ total: 0 }),
  apply: (state: { total: number }, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
})
interface OpenLog {
  append(entry: { readonly type: 'added'; readonly by: number }): Promise<unknown>
  close(): Promise<void>
}

onEveryStore('changes beside the owner', (world) => {
  const weak = [
    [false, 'is refused'],
    [true, 'reaches it with the planted bug'],
  ] as const
  const add = async (rp: Reprise, ...amounts: readonly number[]) => {
    const open = await rp.open(whole, 'a')
    for (const by of amounts) await open.append({ type: 'added', by })
    await open.close()
  }

  /** A timeline with two checkpoints, at 3 and 4, and a second process, which the first one interrupts before such a commit. */
  async function begin(
    isGuarded: (commit: Commit) => boolean,
    between: (rp: Reprise, open: OpenLog) => Promise<void>,
    isWeak = false,
  ) {
    const at = await world()
    const rp = await at.engine()
    const open = await rp.open(whole, 'a')
    for (let n = 0; n < 3; n++) await open.append({ type: 'added', by: 1 })
    await open.checkpoint()
    await open.append({ type: 'added', by: 1 })
    await open.checkpoint()
    const [{ id } = { id: '' }] = await rp.checkpoints('log/a')
    const outcomes: Outcome[] = []
    const store = interrupted(await at.store(), () => between(rp, open), isWeak, isGuarded, outcomes)
    const other = await at.engine({ ports: { store } })
    // A process has the definitions that it has used.
    await (await other.open(log, 'known')).close()
    return { rp, other, id, outcomes }
  }
  const isSavepoint = ({ publish, marks }: Commit) => Boolean(publish ?? marks)
  const makeAgain = async (rp: Reprise, open: OpenLog) => {
    await open.close()
    await rp.delete('log/a')
    await add(rp, 100, 200, 300, 400)
  }
  const rollBack = async (rp: Reprise, open: OpenLog) => {
    await open.close()
    await rp.rollback({ to: { timeline: 'log/a', seq: 1 } })
    await add(rp, 100, 200, 300)
  }

  it.each([
    ['made again', makeAgain, 1000, false],
    ['made again', makeAgain, 1000, true],
    ['rolled back', rollBack, 601, false],
    ['rolled back', rollBack, 601, true],
  ] as const)('A6.5: a trim of a timeline that was %s since the look is refused', async (_, between, total, isWeak) => {
    const { rp, other, outcomes } = await begin(({ trim }) => trim !== undefined, between, isWeak)
    await other.collect()
    // With the planted bug only the checkpoints that the trim rests on, which are gone, hold it back.
    expect(outcomes).toMatchObject([{ ok: false, code: isWeak ? 'PINNED' : 'FENCED' }])
    expect((await rp.open(whole, 'a')).state.total).toBe(total)
    expect(await rp.verify()).toMatchObject({ ok: true })
  })

  it('A6.5: a trim of a timeline that has grown removes only the entries it read', async () => {
    const { rp, other, outcomes } = await begin(
      ({ trim }) => trim !== undefined,
      async (_, open) => {
        await open.append({ type: 'added', by: 100 })
        await open.close()
      },
    )
    await other.collect()
    expect(outcomes).toMatchObject([{ ok: true }])
    expect(await rp.head('log/a')).toMatchObject({ seq: 5, floor: 3 })
    expect((await rp.open(whole, 'a')).state.total).toBe(104)
    expect(await rp.verify()).toMatchObject({ ok: true })
  })

  it.each(weak)('A6.5: a mark on a checkpoint of the life before (weak guard: %s) %s', async (isWeak) => {
    const { rp, other, id, outcomes } = await begin(({ marks }) => marks !== undefined, makeAgain, isWeak)
    const marked = other.markCheckpoint('log/a', id, { why: 'written by a faulty import', by: 'ann' })
    if (isWeak) return await expect(marked).resolves.toBeUndefined()
    await expect(marked).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(outcomes).toMatchObject([{ ok: false, code: 'FENCED' }])
    expect((await rp.open(whole, 'a')).state.total).toBe(1000)
  })

  it.each(weak)('A6.5: a savepoint of the life before (weak guard: %s) %s', async (isWeak) => {
    const { rp, other } = await begin(isSavepoint, makeAgain, isWeak)
    const saved = other.savepoint({ timeline: 'log/a', seq: 3 }, { label: 'old' })
    if (isWeak) {
      await saved
      return expect(await rp.checkpoints('log/a')).toMatchObject([{ label: 'old' }])
    }
    await expect(saved).rejects.toMatchObject({ code: 'FENCED' })
    expect(await rp.checkpoints('log/a')).toEqual([])
    expect((await rp.open(whole, 'a')).state.total).toBe(1000)
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
