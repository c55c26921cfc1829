// One subscription under consumers, projections and process managers: no gap, no repeat, dead letters that come back,
// and an answer when a position is too old. The first test plays crashes at random commits on a seed.

import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { resolveRetry } from '../../src/core/retry/retry.ts'
import type { Sql } from '../../src/core/store/ports.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { FeedStream } from '../../src/engine/feed/feed-stream.ts'
import { PositionSink } from '../../src/engine/feed/position-sink.ts'
import { type Occurred, PoisonError } from '../../src/engine/feed/sink.ts'
import { Subscription } from '../../src/engine/feed/subscription.ts'
import {
  aggregate,
  commandTo,
  processManager,
  projection,
  sqlProjection,
  tableProjection,
} from '../../src/layers/events/index.ts'
import { Events, type Occurrence } from '../../src/layers/events/source.ts'
import { type Transaction, table } from '../../src/layers/table/index.ts'
import { mortal, until } from '../entities/support.ts'
import { added, counter } from '../support/definitions.ts'
import { hostOf } from '../support/host.ts'
import { seeded } from '../support/seeded.ts'
import { onEveryStore } from '../support/worlds.ts'

const account = aggregate('account', {
  initial: () => ({ sum: 0 }),
  evolve: { added: (s, e: { amount: number }) => ({ sum: s.sum + e.amount }) },
  decide: { add: (_s, c: { amount: number }) => ({ type: 'added', amount: c.amount }) },
})

async function add(rp: Reprise, id: string, ...amounts: number[]) {
  const open = await rp.open(account, id)
  for (const amount of amounts) await open.do('add', { amount })
  await open.close()
}

/** Every item becomes one message to a ledger: an item that was applied twice would be there twice. */
class LedgerSink extends PositionSink<Occurred> {
  readonly isPoison: (item: Occurred) => boolean

  constructor(rp: Reprise, isPoison: (item: Occurred) => boolean) {
    super(hostOf(rp), 'process/ledger')
    this.isPoison = isPoison
  }

  protected effectsOf(items: readonly Occurred[]) {
    const { random } = this.kernel
    const send = items.map((item) => {
      if (this.isPoison(item)) throw new PoisonError(item, new Error('unlucky'))
      const data = new TextEncoder().encode(`${item.at.timeline}@${item.at.seq}`)
      const id = [...random.bytes(12)].map((byte) => byte.toString(16)).join('.') as never
      return { id, to: timelineId('process/inbox'), kind: 'item', data }
    })
    return { send }
  }
}

function subscribe(rp: Reprise, isPoison: (item: Occurred) => boolean, attempts = 1) {
  return new Subscription<Occurrence>(hostOf(rp).kernel, {
    name: 'ledger',
    reading: new Events(hostOf(rp).kernel, [account], () => true),
    sink: new LedgerSink(rp, isPoison) as unknown as Subscription<Occurrence>['sink'],
    poison: 'quarantine',
    retry: resolveRetry({ attempts, backoff: 1, jitter: 0 }),
  })
}

onEveryStore(
  'a subscription',
  (world) => {
    for (let seed = 1; seed <= 5; seed++) {
      it(`applies each item once, whatever commit a process dies at (seed ${seed})`, async () => {
        const chance = seeded(seed)
        const w = await world()
        const rp = await w.engine()
        const inbox = await hostOf(rp).openTimeline(timelineId('process/inbox'), { ...counter.fold, version: 'x' })
        let total = 0
        const write = async () => {
          const count = 1 + Math.floor(chance() * 4)
          total += count
          await add(
            rp,
            `a${Math.floor(chance() * 3)}`,
            ...Array.from({ length: count }, () => Math.floor(chance() * 5)),
          )
        }
        // Poison at first, mended in the end.
        const bad = (item: Occurred) => (item as Occurrence & { event: { amount: number } }).event.amount === 0
        for (let life = 0; life < 4; life++) {
          await write()
          const last = 2 + Math.floor(chance() * 6)
          const fate = chance() < 0.5 ? 'before' : 'after'
          let isDead = false
          const { engine, die } = await mortal(w, (commit) => {
            isDead = commit >= last
            return isDead ? fate : 'live'
          })
          const subscription = subscribe(engine, bad)
          await write()
          await Promise.race([subscription.catchUp().catch(() => undefined), until(() => isDead)])
          die()
          await subscription.stop().catch(() => undefined)
          const { registered } = hostOf(engine).kernel.worker
          if (registered) await hostOf(rp).kernel.store.retire([registered])
        }
        const last = subscribe(await w.engine(), () => false)
        await last.catchUp()
        await last.redrive()
        expect(last.sink.quarantine).toEqual([])
        const letters = (await inbox.inbox(1000)).map(({ data }) => new TextDecoder().decode(data))
        expect(new Set(letters).size).toBe(letters.length)
        expect(letters).toHaveLength(total)
        await last.stop()
      })
    }
  },
  ['memory'],
)

/** Reads from `after` to the end, and returns the items with the position of each page. */
async function readOn(rp: Reprise, after: string, pages = Number.POSITIVE_INFINITY) {
  const stream = new FeedStream(hostOf(rp).kernel, { scopes: ['counter/'], after, follow: false, pageRuns: 2 })
  const read: string[] = []
  for await (const page of stream) {
    read.push(...page.entries.map(({ timeline, seq }) => `${timeline}@${seq}`))
    if (--pages === 0) break
  }
  return { read, position: stream.position }
}

onEveryStore('a stream of the feed', (world) => {
  it('continues from the position of any page: no gap, no repeat', async () => {
    const rp = await (await world()).engine()
    for (const id of ['a', 'b', 'c']) {
      const open = await rp.open(counter, id)
      for (let i = 0; i < 3; i++) await open.append(added(1))
      await open.close()
    }
    const whole = (await readOn(rp, '')).read
    expect(whole).toHaveLength(9)
    for (let pages = 1; pages <= 4; pages++) {
      const first = await readOn(rp, '', pages)
      expect([...first.read, ...(await readOn(rp, first.position)).read]).toEqual(whole)
    }
  })

  it('waits for more, hears of it, and ends when its signal fires', async () => {
    const rp = await (await world()).engine()
    const asked = new AbortController()
    const read: number[] = []
    const stream = new FeedStream(hostOf(rp).kernel, { scopes: ['counter/'], signal: asked.signal })
    const over = (async () => {
      for await (const { entries } of stream) read.push(...entries.map(({ seq }) => seq))
    })()
    const open = await rp.open(counter, 'a')
    await open.append(added(1))
    await until(() => read.length === 1)
    await open.append(added(1))
    await until(() => read.length === 2)
    asked.abort()
    await over
    expect(read).toEqual([1, 2])
  })

  it('refuses a position behind the cursor that holds history, also one that falls behind while it reads', async () => {
    const rp = await (await world()).engine()
    const open = await rp.open(counter, 'a')
    const keeper = await hostOf(rp).openTimeline(timelineId('keeper/x'), {
      version: '1',
      initial: () => 0,
      apply: (s) => s,
    })
    await open.append(added(1))
    const { position: early } = await readOn(rp, '')
    await open.append(added(1))
    const { position: late } = await readOn(rp, '')
    const options = { scopes: ['counter/'], heldBy: 'window', follow: false } as const
    const next = (after: string) => new FeedStream(hostOf(rp).kernel, { ...options, after }).next()
    await expect(next(late)).rejects.toMatchObject({ code: 'POSITION_GONE' })
    await keeper.write([], { cursors: { window: early } })
    const slow = new FeedStream(hostOf(rp).kernel, { ...options, after: early })
    expect((await next(early))?.entries).toHaveLength(1)
    await keeper.write([], { cursors: { window: late } })
    await expect(slow.next()).rejects.toMatchObject({ code: 'POSITION_GONE' })
    await expect(next(early)).rejects.toMatchObject({ code: 'POSITION_GONE' })
    expect((await next(late))?.entries ?? []).toEqual([])
  })
})

/** A handler that fails on 13 until it is mended, and counts its calls. */
function flaky() {
  const handler = {
    isMended: false,
    calls: 0,
    check(amount: number) {
      if (amount !== 13) return
      handler.calls += 1
      if (!handler.isMended) throw new Error('unlucky')
    },
  }
  return handler
}

onEveryStore(
  'dead letters',
  (world) => {
    const poison = 'quarantine'
    const from = [account] as const

    it('of a projection in memory are retried by policy, listed, and redriven once the handler is fixed', async () => {
      const w = await world()
      const rp = await w.engine()
      const handler = flaky()
      const sums = () =>
        projection('sums', {
          from,
          poison,
          retry: { attempts: 3, backoff: 1 },
          initial: () => ({ sum: 0 }),
          on: {
            added: (s, e) => {
              handler.check(e.amount)
              return { sum: s.sum + e.amount }
            },
          },
        })
      await add(rp, 'ann', 1, 13, 2)
      const p = await rp.open(sums())
      expect(await p.catchUp()).toEqual({ sum: 3 })
      expect(handler.calls).toBe(3)
      await expect(p.redrive()).rejects.toThrow('unlucky')
      expect(await p.catchUp()).toEqual({ sum: 3 })
      expect(await p.deadLetters()).toHaveLength(1)
      handler.isMended = true
      expect(await p.redrive([{ timeline: 'events/account/ann', seq: 2 }])).toBe(1)
      expect([p.state, await p.deadLetters()]).toEqual([{ sum: 16 }, []])
      await rp.close()
      const next = await w.engine()
      const q = await next.open(sums())
      expect(await q.catchUp()).toEqual({ sum: 16 })
      expect(await q.deadLetters()).toEqual([])
    })

    it('of a table and of a process manager are redriven once, in the commit that removes them from the list', async () => {
      const rp = await (await world()).engine()
      const handler = flaky()
      const balances = table<number>('balances')
      const into = tableProjection('balances', {
        from,
        into: balances,
        poison,
        on: {
          added: (tx: Transaction<number>, e, at) => {
            handler.check(e.amount)
            tx.set(at.id, (tx.get(at.id) ?? 0) + e.amount)
          },
        },
      })
      const echo = aggregate('echo', {
        initial: () => ({ heard: [] as number[] }),
        evolve: { heard: (s, e: { amount: number }) => ({ heard: [...s.heard, e.amount] }) },
        decide: { hear: (_s, c: { amount: number }) => ({ type: 'heard', amount: c.amount }) },
      })
      const manager = processManager('echoes', {
        from,
        poison,
        on: {
          added: (e) => {
            handler.check(e.amount)
            return commandTo(echo, 'e', 'hear', { amount: e.amount })
          },
        },
      })
      await add(rp, 'ann', 1, 13, 2)
      const [p, m] = [await rp.open(into), await rp.open(manager)]
      await Promise.all([p.catchUp(), m.catchUp()])
      expect([await p.deadLetters(), await m.deadLetters()]).toMatchObject([[{ seq: 2 }], [{ seq: 2 }]])
      handler.isMended = true
      expect([await p.redrive(), await m.redrive()]).toEqual([1, 1])
      expect([await p.deadLetters(), await m.deadLetters()]).toEqual([[], []])
      expect([await p.redrive(), await m.redrive()]).toEqual([0, 0])
      const [t, e] = [await rp.open(balances), await rp.open(echo, 'e')]
      await e.receive()
      expect([t.get('ann'), [...e.state.heard].sort((a, b) => a - b)]).toEqual([16, [1, 2, 13]])
      const gone = { timeline: 'events/account/ann', seq: 2 }
      await expect(m.redrive([gone])).rejects.toMatchObject({ code: 'NOT_FOUND' })
    })
  },
  ['sqlite'],
)

onEveryStore(
  'dead letters in SQL',
  (world) => {
    it('are redriven in the transaction that takes them off the list', async () => {
      const rp = await (await world()).engine()
      const handler = flaky()
      const rows = `rows_${process.pid}`
      const into = sqlProjection('rows', {
        from: [account],
        poison: 'quarantine',
        setup: (sql) => sql.run(`CREATE TABLE IF NOT EXISTS ${rows} (amount INTEGER)`),
        on: {
          added: async (sql: Sql, e) => {
            await sql.run(`INSERT INTO ${rows} VALUES (${e.amount})`)
            handler.check(e.amount)
          },
        },
      })
      await add(rp, 'ann', 1, 13, 2)
      const p = await rp.open(into)
      await p.catchUp()
      const probe = await hostOf(rp).openTimeline(timelineId('probe/x'), {
        version: '1',
        initial: () => 0,
        apply: (s) => s,
      })
      const sum = async () => {
        const userSql = (sql: Sql) => sql.get(`SELECT sum(amount) AS n FROM ${rows}`)
        return Number(((await probe.write([], { userSql })).sqlResult as { n: number }).n)
      }
      expect(await sum()).toBe(3)
      await expect(p.redrive()).rejects.toThrow('unlucky')
      expect(await sum()).toBe(3)
      handler.isMended = true
      expect(await p.redrive()).toBe(1)
      expect([await sum(), await p.deadLetters()]).toEqual([16, []])
    })
  },
  ['sqlite', 'postgres'],
)
