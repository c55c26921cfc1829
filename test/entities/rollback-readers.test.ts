// A rollback of an aggregate: it names the readers of the undone events, and projections correct themselves.

import { expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import type { Entry } from '../../src/engine/model/entry.ts'
import { agent, mergeBranch, readTurn, restoreCut } from '../../src/layers/agent/index.ts'
import {
  aggregate,
  commandTo,
  processManager,
  projection,
  sqlProjection,
  tableProjection,
} from '../../src/layers/events/index.ts'
import { consumer } from '../../src/layers/job/index.ts'
import { collectSink, entrySource, pipeline } from '../../src/layers/pipeline/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { entryRow } from '../../src/layers/workflow/history/journal-rows.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { entriesAfter } from '../../src/operations/history.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }) },
})

const place = { timeline: 'events/account/ann', seq: 1 }

async function deposited(rp: Reprise): Promise<void> {
  const ann = await rp.open(account, 'ann')
  for (const amount of [10, 5, 100]) await ann.do('deposit', { amount })
  await ann.close()
}

const totals = projection('totals', {
  from: [account],
  initial: () => ({ sum: 0 }),
  on: {
    deposited: (s, e) => {
      s.sum += e.amount
    },
  },
})

const echo = agent('echo', { model: async () => ({ content: 'so it is' }) })

async function read(rp: Reprise, id: string, turn: number): Promise<void> {
  let text = ''
  for await (const event of readTurn(rp, echo, id, { turn })) if (event.kind === 'text') text += event.text
  expect(text).toBe('so it is')
}

const order = workflow('order', async (ctx) => {
  await ctx.step('pay', () => 1)
  await ctx.step('ship', () => 2)
  return await ctx.signal<string>('go')
})

async function started(rp: Reprise) {
  const run = await rp.run(order, { id: 'o' })
  await until(async () => (await run.waitsFor()).some(({ kind }) => kind === 'signal'))
  return run
}

async function historyOf(rp: Reprise, timeline: string): Promise<Entry[]> {
  const head = (await rp.head(timeline))!
  const entries: Entry[] = []
  for await (const entry of entriesAfter(rp, head, 0)) entries.push(entry)
  return entries
}

onEveryStore('rollbacks and readers', (world) => {
  it('G19, A6.7: a projection has the undone events no more, and the rollback is refused unless it is forced', async () => {
    const rp = await (await world()).engine()
    await deposited(rp)
    const p = await rp.open(totals)
    expect((await p.catchUp()).sum).toBe(115)
    const plan = await rp.planRollback(place.timeline, { seq: 2 })
    expect(plan.undone.consumers).toMatchObject([{ kind: 'projection', timeline: 'projection/totals' }])
    await expect(rp.rollback({ to: place })).rejects.toMatchObject({ code: 'CONSUMED' })
    expect((await rp.head(place.timeline))!.seq).toBe(3)
    const { consumed } = await rp.rollback({ to: place, consumed: 'force' })
    expect(consumed).toMatchObject([{ kind: 'projection', timeline: 'projection/totals' }])
    expect((await p.catchUp()).sum).toBe(10)
    expect(p.status()[0]!.stale).toBeNull()
    const ann = await rp.open(account, 'ann')
    expect(ann.state.balance).toBe(10)
    await ann.do('deposit', { amount: 1 })
    expect((await p.catchUp()).sum).toBe(11)
    expect((await rp.verify()).faults).toEqual([])
  })

  it('G19: also a projection that did not run during the rollback, and one whose status must be requested', async () => {
    const w = await world()
    const rp = await w.engine()
    await deposited(rp)
    const p = await rp.open(totals)
    expect((await p.catchUp()).sum).toBe(115)
    await p.checkpoint()
    await p.close()
    await rp.rollback({ to: place, consumed: 'force' })
    const other = await w.engine()
    const q = await other.open(totals)
    expect((await q.catchUp()).sum).toBe(10)
    expect(q.generation).toBe(2)
    const notes = Object.values((await rp.head('projection/totals'))!.attributes)
    expect(notes).toContain('events/account/ann was rolled back to 1')
    // Begun after the rollback: it has never seen the undone events, and is built once.
    const fresh = await other.open(
      projection('fresh', {
        from: [account],
        initial: () => [0],
        on: { deposited: (s, e) => [s[0]! + e.amount] },
      }),
    )
    expect((await fresh.catchUp())[0]).toBe(10)
    expect(fresh.generation).toBe(1)
  })

  it('G19: a projection into a table', async () => {
    const rp = await (await world()).engine()
    await deposited(rp)
    const sums = table<{ sum: number }>('sums')
    const into = tableProjection('into', {
      from: [account],
      into: sums,
      on: { deposited: (tx, e, at) => void tx.set(at.id, { sum: (tx.get(at.id)?.sum ?? 0) + e.amount }) },
    })
    const p = await rp.open(into)
    const sumOf = async (handle: typeof p) =>
      ((await handle.catchUp()) as unknown as { get(id: string): unknown }).get('ann')
    expect(await sumOf(p)).toEqual({ sum: 115 })
    await rp.rollback({ to: place, consumed: 'force' })
    expect(await sumOf(p)).toEqual({ sum: 10 })
  })

  it('G19, A6.7: a process manager is named: its sent commands are not undone', async () => {
    const rp = await (await world()).engine()
    await deposited(rp)
    const manager = processManager('thanks', {
      from: [account],
      on: {
        deposited: (_e, at) => (at.id === 'till' ? undefined : commandTo(account, 'till', 'deposit', { amount: 1 })),
      },
    })
    await (await rp.open(manager)).catchUp()
    await expect(rp.rollback({ to: place })).rejects.toMatchObject({
      code: 'CONSUMED',
      data: { consumers: [{ kind: 'process-manager', timeline: 'process/thanks' }] },
    })
  })

  it('G19: a consumer and a pipeline that have read the undone events are named, and those of other events are not', async () => {
    const rp = await (await world()).engine()
    await deposited(rp)
    const other = aggregate('other', { initial: () => 0, evolve: {}, decide: {} })
    for (const [name, from] of [
      ['mailer', account],
      ['stranger', other],
    ] as const) {
      await (await rp.run(consumer(name, { from: [from], follow: false, each: () => undefined }))).result()
      const flow = pipeline(
        name,
        (p) => void p.from('events', entrySource([from], { follow: false })).to('out', collectSink<unknown>()),
      )
      await (await rp.run(flow)).result()
    }
    const consumers = [
      { kind: 'consumer', timeline: 'job/mailer' },
      { kind: 'pipeline', timeline: 'pipeline/mailer' },
    ]
    await expect(rp.rollback({ to: place })).rejects.toMatchObject({ code: 'CONSUMED', data: { consumers } })
    expect((await rp.rollback({ to: place, consumed: 'force' })).consumed).toMatchObject(consumers)
  })

  it('G19: a session and a run refuse it as well, and a forced rollback records the readers in the store', async () => {
    const rp = await (await world()).engine()
    const reports: { kind: string; data?: unknown }[] = []
    rp.events.on('report', (report) => reports.push(report))
    const session = await rp.open(echo, 's')
    await session.turn('one')
    await session.fork('trial')
    await expect(session.rollback({ to: 0 })).rejects.toMatchObject({ code: 'CONSUMED' })
    await session.rollback({ to: 0, consumed: 'force' })
    const run = await started(rp)
    await rp.fork({ timeline: run.timeline, seq: (await rp.head(run.timeline))!.seq }, 'trial-2')
    await expect(run.rollback({ to: 'pay' })).rejects.toMatchObject({ code: 'CONSUMED' })
    await run.rollback({ to: 'pay', consumed: 'force' })
    const forced = reports.filter(({ kind }) => kind === 'forced')
    expect(forced).toMatchObject([
      { data: { consumers: [{ kind: 'fork', timeline: 'agent/echo/trial' }] } },
      { data: { consumers: [{ kind: 'fork' }] } },
    ])
  })

  it('G19, A6.7: a session whose turn was streamed to a reader goes back by force only, and the new branch has no reader', async () => {
    const rp = await (await world()).engine()
    const session = await rp.open(echo, 's')
    await session.turn('one')
    const before = session.coordinate.seq
    await session.turn('two')
    await read(rp, 's', 1)
    // The reader has the first turn, and not the second.
    await session.rollback({ to: { seq: before } })
    await read(rp, 's', 1)
    const stream = [{ kind: 'stream', timeline: 'agent/echo/s' }]
    expect((await rp.planRollback(session.timeline, { seq: 1 })).undone.consumers).toMatchObject(stream)
    await expect(session.rollback({ to: 0 })).rejects.toMatchObject({ code: 'CONSUMED', data: { consumers: stream } })
    await session.rollback({ to: 0, consumed: 'force' })
    const marked = (await historyOf(rp, session.timeline)).filter(({ type }) => type === '$rolled-back')
    expect(marked).toMatchObject([{ data: { consumed: stream } }])
    await session.turn('again')
    await session.rollback({ to: 0 })
    // A fork is another timeline, without readers.
    await session.turn('more')
    await read(rp, 's', 1)
    await session.fork('trial')
    const trial = await rp.open(echo, 'trial')
    await trial.rollback({ to: 0 })
  })

  it('G19, A6.7: a branch is merged by force only into a session whose turn was streamed, and keeps its calls till then', async () => {
    const rp = await (await world()).engine()
    const main = await rp.open(echo, 'main')
    await main.turn('one')
    await main.fork('gentle')
    await main.turn('two')
    await main.close()
    await read(rp, 'main', 2)
    await expect(mergeBranch(rp, echo, 'main', 'gentle')).rejects.toMatchObject({ code: 'CONSUMED' })
    const gentle = await rp.open(echo, 'gentle')
    expect(gentle.state.merged).toBeUndefined()
    await gentle.close()
    await mergeBranch(rp, echo, 'main', 'gentle', { consumed: 'force' })
  })

  it('G19, A6.7: a forced rollback of a run is in its history, with the readers that had acted on it', async () => {
    const rp = await (await world()).engine()
    const run = await started(rp)
    await rp.fork({ timeline: run.timeline, seq: (await rp.head(run.timeline))!.seq }, 'trial-3')
    await run.rollback({ to: 'ship', consumed: 'force' })
    const forced = async () => (await historyOf(rp, run.timeline)).filter(({ type }) => type === 'rollback')
    await until(async () => (await forced()).length > 0)
    const consumed = [{ kind: 'fork', timeline: 'workflow/order/trial-3' }]
    expect(await forced()).toMatchObject([{ data: { to: 'ship', consumed } }])
    const [entry] = await forced()
    expect(entryRow(entry!)).toMatchObject({ note: expect.stringMatching(/^forced: .*trial-3 was forked at/) })
  })

  it('G19, A6.7: a group needs force only if readers outside of it have acted on undone entries', async () => {
    const rp = await (await world()).engine()
    const reports: { kind: string; timeline: string | null }[] = []
    rp.events.on('report', (report) => reports.push(report))
    const ann = await rp.open(account, 'ann')
    await ann.do('deposit', { amount: 10 })
    const session = await rp.open(echo, 's')
    await session.turn('one')
    const members = [place.timeline, session.timeline]
    await rp.groups.capture('early', members)
    await ann.do('deposit', { amount: 100 })
    await ann.close()
    await session.turn('two')
    await session.close()
    // It is unread so far.
    expect((await rp.groups.plan({ cut: 'early' })).members.flatMap(({ consumers }) => consumers)).toEqual([])
    const p = await rp.open(totals)
    expect((await p.catchUp()).sum).toBe(110)
    await read(rp, 's', 2)
    const consumers = [
      { kind: 'projection', timeline: 'projection/totals' },
      { kind: 'stream', timeline: session.timeline },
    ]
    const plan = await rp.groups.plan({ cut: 'early' })
    expect(plan.members.flatMap((member) => member.consumers)).toMatchObject(consumers)
    const refused = rp.groups.restore({ cut: 'early' })
    await expect(refused).rejects.toMatchObject({ code: 'CONSUMED', data: { consumers } })
    await expect(restoreCut(rp, echo, 'early')).rejects.toMatchObject({ code: 'CONSUMED' })
    expect(await rp.groups.restores()).toEqual([])
    expect((await rp.head(place.timeline))!.seq).toBe(2)
    await rp.groups.restore({ cut: 'early' }, { consumed: 'force' })
    expect((await p.catchUp()).sum).toBe(10)
    expect((await rp.open(account, 'ann')).state.balance).toBe(10)
    // Found by a reader of each history, and in the record of the restore.
    for (const [i, timeline] of members.entries()) {
      const marked = (await historyOf(rp, timeline)).filter(({ type }) => type === '$rolled-back')
      expect(marked).toMatchObject([{ data: { consumed: [consumers[i]] } }])
    }
    const [restore] = await rp.groups.restores()
    expect(restore!.plan!.members.flatMap((member) => member.consumers)).toMatchObject(consumers)
    expect(reports.filter(({ kind }) => kind === 'forced').map(({ timeline }) => timeline)).toEqual(members)
  })

  it('G19: mail between members of a group is no reason to refuse, and mail to others is', async () => {
    const rp = await (await world()).engine()
    const [a, b] = [await rp.open(echo, 'a'), await rp.open(echo, 'b')]
    for (const each of [a, b]) await each.turn('one')
    await rp.groups.capture('both', [a.timeline, b.timeline])
    await rp.groups.capture('one', [a.timeline])
    await a.send('b', 'hello')
    expect(await b.receive()).toHaveLength(1)
    await Promise.all([a.close(), b.close()])
    const consumers = [{ kind: 'mail', timeline: b.timeline }]
    await expect(rp.groups.restore({ cut: 'one' })).rejects.toMatchObject({ code: 'CONSUMED', data: { consumers } })
    await rp.groups.restore({ cut: 'both' })
    const types = (await historyOf(rp, a.timeline)).map(({ type }) => type)
    expect(types).not.toContain('$rolled-back')
  })

  it('G19: a fork that was made from the undone part is named', async () => {
    const rp = await (await world()).engine()
    await deposited(rp)
    await rp.fork({ ...place, seq: 3 }, 'later')
    await rp.fork({ ...place, seq: 1 }, 'earlier')
    const consumers = [{ kind: 'fork', timeline: 'events/account/later' }]
    await expect(rp.rollback({ to: place })).rejects.toMatchObject({ code: 'CONSUMED', data: { consumers } })
    const { consumed } = await rp.rollback({ to: place, consumed: 'force' })
    expect(consumed).toMatchObject(consumers)
    expect((await rp.open(account, 'later')).state.balance).toBe(115)
  })
})

onEveryStore('rollbacks and SQL projections', (world) => {
  it('G19: a projection into SQL', async () => {
    const w = await world()
    if (w.kind === 'memory') return
    const rp = await w.engine()
    await deposited(rp)
    const ledger = sqlProjection('ledger', {
      from: [account],
      setup: (sql, generation) => sql.run(`CREATE TABLE sums_${generation} (amount INTEGER)`),
      on: {
        deposited: (sql, e, at) => {
          const mark = sql.dialect === 'postgres' ? '$1' : '?'
          return sql.run(`INSERT INTO sums_${at.generation} VALUES (${mark})`, e.amount)
        },
      },
    })
    const sum = async () =>
      Number((await rp.sql<{ sum: number }>`SELECT SUM(amount) AS sum FROM ${ledger.table('sums')}`)[0]!.sum)
    const p = await rp.open(ledger)
    await p.catchUp()
    expect(await sum()).toBe(115)
    await rp.rollback({ to: place, consumed: 'force' })
    await p.catchUp()
    expect(await sum()).toBe(10)
  })
})
