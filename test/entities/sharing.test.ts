// One aggregate in several engines, on every store: reads without side effects, commands without false errors, and lost
// answers.

import { expect, it, vi } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import { guardOf } from '../../src/core/store/commit-guard.ts'
import type { Commit, Store } from '../../src/core/store/ports.ts'
import { systemClock } from '../../src/engine/base/platform.ts'
import { entriesOf } from '../../src/engine/history/history.ts'
import { timeline } from '../../src/index.ts'
import { aggregate, commandTo, Refused, rewrite, sendCommand } from '../../src/layers/events/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'
import { bendable, bentEngine } from './support.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: {
    deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }),
    withdrawn: (s, e: { amount: number }) => ({ balance: s.balance - e.amount }),
  },
  decide: {
    deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }),
    withdraw: (s, c: { amount: number }) => {
      if (s.balance < c.amount) throw new Refused('insufficient funds', { balance: s.balance })
      return { type: 'withdrawn', amount: c.amount }
    },
    check: (s) => {
      if (s.balance === 0) throw new Refused('nothing there')
      return undefined
    },
  },
  checkpoint: { every: 10 },
})
const place = 'events/account/x'

const counter = timeline('counter', {
  initial: () => ({ total: 0, seen: 0 }),
  apply: (s, e: { type: 'added'; by: number; saw?: number }) => ({ total: s.total + e.by, seen: s.seen + 1 }),
  checkpoint: { every: 8 },
})

onEveryStore('sharing a timeline', (world) => {
  it('appends of several processes succeed, and an append made from a state uses the latest state', async () => {
    const w = await world()
    const engines = [await w.engine(), await w.engine(), await w.engine()]
    const handles = await Promise.all(engines.map((rp) => rp.open(counter, 'x', { shared: true })))
    const watched: number[] = []
    handles[0]!.watch((entries) => watched.push(...entries.map(({ seq }) => seq)))
    await Promise.all(
      handles.map(async (handle) => {
        for (let n = 0; n < 8; n++) {
          await Promise.all([
            handle.append({ type: 'added', by: 1 }),
            handle.append({ type: 'added', by: 1 }, { key: `k${n}` }),
            handle.append((state) => ({ type: 'added', by: 10, saw: state.seen })),
          ])
        }
      }),
    )
    for (const handle of handles) expect(await handle.refresh()).toEqual({ total: 24 + 8 + 240, seen: 24 + 8 + 24 })
    expect(watched).toEqual(Array.from({ length: 56 }, (_, i) => i + 1))
    // On PostgreSQL the feed stays below the oldest transaction in progress, which may be another test's.
    const page = await vi.waitFor(
      async () => {
        const found = await engines[0]!.feed('', { prefixes: ['counter/'] })
        expect(found.items.reduce((count, { run }) => count + run.count, 0)).toBe(56)
        return found
      },
      { timeout: 60_000 },
    )
    let seq = 0
    for (const { run } of page.items) {
      const entries = entriesOf(hostOf(engines[0]!).kernel, {
        timeline: 'counter/x' as never,
        run,
        before: run.digest,
        skipTo: 0,
      })
      for (const { data } of entries) {
        const { saw } = data as { saw?: number }
        if (saw !== undefined) expect(saw).toBe(seq)
        seq += 1
      }
    }
    expect(seq).toBe(56)
    expect((await engines[0]!.drill()).ok).toBe(true)
  })

  it('refuses exclusive use beside others, and returns CONFLICT for another expected sequence', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const a = await one.open(counter, 'x', { shared: true })
    const b = await two.open(counter, 'x', { shared: true })
    await a.append({ type: 'added', by: 1 }, { expect: 0 })
    await expect(b.append({ type: 'added', by: 1 }, { expect: 0 })).rejects.toEqual(code('CONFLICT'))
    await b.append({ type: 'added', by: 1 }, { expect: 1 })
    expect(await a.append(() => [])).toMatchObject({ seq: 2 })
    expect(() => a.effects).toThrow(/open it without/)
    await expect(one.open(table('rows'), undefined, { shared: true })).rejects.toEqual(code('INVALID_ARGUMENT'))
    // An exclusive owner takes no part in the turns: once displaced, it is refused.
    const zombie = await one.open(counter, 'y')
    await (await two.open(counter, 'y', { shared: true })).append({ type: 'added', by: 1 })
    await expect(zombie.append({ type: 'added', by: 1 })).rejects.toEqual(code('FENCED'))
    await expect(zombie.append((state) => ({ type: 'added', by: state.total }))).rejects.toEqual(code('FENCED'))
  })
})

onEveryStore('sharing an aggregate', (world) => {
  it('reading takes nothing, creates nothing, and reports its age', async () => {
    const w = await world()
    const [writer, reader] = [await w.engine(), await w.engine()]
    const b = await reader.open(account, 'x')
    expect(b.state).toEqual({ balance: 0 })
    expect(await reader.head(place)).toBeNull()
    const a = await writer.open(account, 'x')
    await a.do('deposit', { amount: 5 })
    const before = await writer.head(place)
    const again = await (await w.engine()).open(account, 'x')
    expect(again.state).toEqual({ balance: 5 })
    expect([b.state, b.seq, b.coordinate.seq]).toEqual([{ balance: 0 }, 0, 0])
    expect(await b.refresh()).toEqual({ balance: 5 })
    expect(b.coordinate).toEqual(a.coordinate)
    await b.at({ seq: 0 })
    for await (const _ of b.history()) expect(_.seq).toBe(1)
    const follower = await reader.follow(account, 'x')
    follower.close()
    expect(await writer.head(place)).toEqual(before)
    await expect(reader.open(account, 'y', { mustExist: true })).rejects.toEqual(code('NOT_FOUND'))
  })

  it('a refusal is based on the current state, of any writer', async () => {
    const w = await world()
    const a = await (await w.engine()).open(account, 'x')
    await a.do('deposit', { amount: 1 })
    const b = await (await w.engine()).open(account, 'x')
    await a.do('deposit', { amount: 9 })
    // `b` has read 1 only, and would refuse.
    expect((await b.do('withdraw', { amount: 10 })).state).toEqual({ balance: 0 })
    // `a` believes itself the owner of 10: the same the other way round, and for a command without an event.
    await expect(a.do('check')).rejects.toEqual(code('REFUSED'))
    await b.do('deposit', { amount: 3 })
    await a.do('withdraw', { amount: 3 })
    expect(await b.refresh()).toEqual({ balance: 0 })
    // A stale view neither fails nor satisfies the expected position.
    const seq = a.seq
    await b.do('deposit', { amount: 2 }, { expect: seq })
    await expect(a.do('deposit', { amount: 2 }, { expect: seq })).rejects.toEqual(code('CONFLICT'))
    await a.do('withdraw', { amount: 2 }, { expect: seq + 1 })
    expect(await b.refresh()).toEqual({ balance: 0 })
  })

  it('replicas in turns and all at once: every command of every one of them is done', async () => {
    const w = await world()
    const handles = await Promise.all([1, 2, 3].map(async () => await (await w.engine()).open(account, 'x')))
    for (let n = 0; n < 12; n++) await handles[n % 3]!.do('deposit', { amount: 1 }, { key: `turn-${n}` })
    await Promise.all(
      handles.map(async (handle, i) => {
        for (let n = 0; n < 10; n++) {
          await Promise.all([
            handle.do('deposit', { amount: 2 }, { key: `${i}-${n}` }),
            handle.do('withdraw', { amount: 1 }),
          ])
        }
      }),
    )
    const states = await Promise.all(handles.map((handle) => handle.refresh()))
    expect(states).toEqual([{ balance: 42 }, { balance: 42 }, { balance: 42 }])
  })

  it('a lost answer is not mistaken for the same command of another caller', async () => {
    const w = await world()
    let lose = 0
    const bend: { commit?: Store['commit'] } = {}
    const clock = { ...systemClock, now: () => 1_800_000_000_000 }
    const store = await w.store()
    bend.commit = (commits: readonly Commit[]) => {
      if (lose > 0 && commits.some(({ run }) => run)) {
        lose -= 1
        return other.do('deposit', { amount: 1 }).then(() => {
          throw new RepriseError('STORE_UNREACHABLE', 'the request was lost')
        })
      }
      return store.commit(commits)
    }
    const one = await w.engine({ ports: { store: bendable(store, bend), clock } })
    const two = await w.engine({ ports: { clock } })
    const a = await one.open(account, 'x')
    const other = await two.open(account, 'x')
    lose = 1
    // Both decide on nothing at the same moment, and would write the same bytes.
    await a.do('deposit', { amount: 1 })
    expect(await a.refresh()).toEqual({ balance: 2 })
    expect(await other.refresh()).toEqual({ balance: 2 })
  })

  it('gives up within its timeout, with a code and a remedy, and at once on request', async () => {
    const w = await world()
    const bend: { commit?: Store['commit'] } = {}
    const { rp, store } = await bentEngine(w, bend)
    const other = await (await w.engine()).open(account, 'x')
    await other.do('deposit', { amount: 1 })
    // Another process is always faster.
    bend.commit = async (commits) => {
      if (commits.some(({ run, take }) => run || take)) await other.do('deposit', { amount: 1 })
      return await store.commit(commits)
    }
    const a = await rp.open(account, 'x', { wait: 150 })
    const failure = await a.do('withdraw', { amount: 1 }).catch((error) => error)
    expect(failure).toMatchObject({ code: 'CONTENDED', remedy: 'retry', data: { timeline: place, waitMs: 150 } })
    const controller = new AbortController()
    const patient = await (await bentEngine(w, bend)).rp.open(account, 'x')
    const doing = patient.do('withdraw', { amount: 1 }, { signal: controller.signal })
    controller.abort(new Error('enough'))
    await expect(doing).rejects.toEqual(code('ABORTED'))
    delete bend.commit
    await a.do('withdraw', { amount: 1 })
    const events: string[] = []
    for await (const { event } of a.history()) events.push(event.type)
    expect(events.filter((type) => type === 'withdrawn')).toHaveLength(1)
  })

  it('continues after a rollback, a removal and a rewrite by another process', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const [a, b] = [await one.open(account, 'x'), await two.open(account, 'x')]
    for (let n = 0; n < 4; n++) await a.do('deposit', { amount: 1 })
    await b.refresh()
    await a.close()
    await one.rollback({ to: { timeline: place, seq: 2 } })
    expect((await b.do('deposit', { amount: 10 })).state).toEqual({ balance: 12 })
    await rewrite(one, account, 'x', 'x2', ({ event }) => event, 'a test')
    const head = (await one.head('events/account/x2'))!
    const c = await two.open(account, 'x2')
    expect(c.state).toEqual({ balance: 12 })
    const outcome = await hostOf(one).kernel.committer.submit({
      operation: 'gone' as never,
      guard: guardOf(head),
      forget: true,
    })
    expect(outcome.ok).toBe(true)
    expect((await c.do('deposit', { amount: 7 })).state).toEqual({ balance: 7 })
  })

  it('checkpoints are made once for all of them, and those of another process count', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const [a, b] = [await one.open(account, 'x'), await two.open(account, 'x')]
    for (let n = 0; n < 60; n++) await (n % 2 ? a : b).do('deposit', { amount: 1 })
    await one.close()
    await two.close()
    const three = await w.engine()
    const seqs = (await three.checkpoints(place)).map(({ seq }) => seq)
    expect(seqs.length).toBeGreaterThan(0)
    expect((await three.open(account, 'x')).recovery.entriesReplayed).toBeLessThan(20)
    expect((await three.drill()).ok).toBe(true)
  })
})

onEveryStore(
  'mail of an aggregate',
  (world) => {
    const deposit = (amount: number) => commandTo(account, 'x', 'deposit', { amount })

    it('a message that this process finds twice is applied once, and the next one reaches the aggregate', async () => {
      const rp = await (await world()).engine()
      const { store } = hostOf(rp).kernel
      const commit = store.commit.bind(store)
      let isSlow = true
      store.commit = async (commits) => {
        const isFirst = isSlow && commits.some(({ consume }) => consume !== undefined)
        if (isFirst) isSlow = false
        // Meanwhile, the process polls for mail of the aggregates that it owns, and finds the same message.
        if (isFirst) await new Promise((resolve) => setTimeout(resolve, 1500))
        return await commit(commits)
      }
      rp.work([account])
      const balance = async () => (await account.read(rp, 'x').catch(() => null))?.state.balance
      await sendCommand(rp, deposit(5))
      await expect.poll(balance).toBe(5)
      await sendCommand(rp, deposit(2))
      await expect.poll(balance).toBe(7)
    })

    it.each([0, 2])(
      'an aggregate that this process owns without knowing is released, and its next mail arrives (failed releases: %i)',
      async (failures) => {
        const rp = await (await world()).engine()
        rp.events.on('problem', () => undefined)
        const { store } = hostOf(rp).kernel
        const commit = store.commit.bind(store)
        let isLost = false
        let left = failures
        store.commit = async (commits) => {
          const released = commits.findIndex(({ guard, release }) => release && guard?.timeline === place)
          if (isLost && released >= 0 && left > 0) {
            left -= 1
            const [head] = await store.head([place as never])
            const refused = { ok: false, code: 'CONFLICT', reason: 'nothing was released', head: head! } as const
            return (await commit(commits.toSpliced(released, 1))).toSpliced(released, 0, refused)
          }
          const outcomes = await commit(commits)
          const at = commits.findIndex(({ consume }) => consume !== undefined)
          if (isLost || at < 0) return outcomes
          isLost = true
          const [head] = await store.head([commits[at]!.guard!.timeline])
          return outcomes.with(at, { ok: false, code: 'CONFLICT', reason: 'the answer was lost', head: head! })
        }
        rp.work([account])
        const balance = async () => (await account.read(rp, 'x').catch(() => null))?.state.balance
        await sendCommand(rp, deposit(5))
        await expect.poll(balance).toBe(5)
        await sendCommand(rp, deposit(2))
        await expect.poll(balance).toBe(7)
        expect([isLost, left]).toEqual([true, 0])
      },
    )

    it.each(['OUTCOME_UNKNOWN', 'CONFLICT', 'STORE_BUSY'] as const)(
      'a release that fails with %s is repeated, and the next mail of the aggregate arrives',
      async (code) => {
        const rp = await (await world()).engine()
        rp.events.on('problem', () => undefined)
        const { store } = hostOf(rp).kernel
        const commit = store.commit.bind(store)
        let failures = 0
        store.commit = async (commits) => {
          const at = commits.findIndex(({ guard, release, take }) => release && !take && guard?.timeline === place)
          if (at < 0 || failures > 0) return await commit(commits)
          failures += 1
          if (code !== 'CONFLICT') throw new RepriseError(code, 'nothing was released')
          const [head] = await store.head([place as never])
          return commits.map(() => ({ ok: false, code, reason: 'nothing was released', head: head! }))
        }
        rp.work([account])
        const balance = async () => (await account.read(rp, 'x').catch(() => null))?.state.balance
        await sendCommand(rp, deposit(5))
        await expect.poll(balance).toBe(5)
        await sendCommand(rp, deposit(2))
        await expect.poll(balance).toBe(7)
        expect(failures).toBe(1)
      },
    )
  },
  ['memory'],
)
