// Ids are matched by whole segments: a process that knows `a` neither applies its policy to `ab`, nor takes its history for its
// own, nor reads its events. Archives belong to the timeline that was rolled back; forks belong to the scope of their id.

import { expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import type { Entity } from '../../src/engine/model/definition.ts'
import { newOperation } from '../../src/engine/storage/kernel.ts'
import { timeline } from '../../src/index.ts'
import { agent, restoreCut } from '../../src/layers/agent/index.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { consumer, job } from '../../src/layers/job/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { pagedTable, stateStore, type TableHandle, table } from '../../src/layers/table/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

const few = save<number>('a', { keep: 2 })
const many = save<number>('ab', { keep: 8 })

async function fill(rp: Reprise, definition: typeof few, id: string | undefined, count: number): Promise<void> {
  const handle = await rp.open(definition, id)
  for (let n = 1; n <= count; n++) await handle.put(n)
  await handle.close()
}

/** As in an earlier version, which stored no policies: only a declaration defines the retention. */
async function withoutStored(rp: Reprise): Promise<void> {
  for (const { timeline, epoch } of await rp.list({ limit: 1000 })) {
    const operation = newOperation(hostOf(rp).kernel.random)
    await hostOf(rp).kernel.committer.submit({ operation, guard: { timeline, epoch }, attributes: { $declared: null } })
  }
}

const saved = async (rp: Reprise, id: string) => (await rp.checkpoints(id)).length

onEveryStore('a policy', (world) => {
  it('of save a does not reach save ab: collect keeps all eight', async () => {
    const w = await world()
    const writer = await w.engine()
    await fill(writer, many, undefined, 8)
    await fill(writer, many, 'x', 8)
    await fill(writer, few, undefined, 4)
    await fill(writer, few, 'x', 4)
    await withoutStored(writer)
    await writer.close()
    const rp = await w.engine()
    few.read(rp)
    const report = await rp.collect()
    expect(report.timelines.map((each) => each.timeline)).toEqual(['save/a', 'save/a/x'])
    expect([await saved(rp, 'save/ab'), await saved(rp, 'save/ab/x')]).toEqual([8, 8])
    expect([await saved(rp, 'save/a'), await saved(rp, 'save/a/x')]).toEqual([2, 2])
  })

  it('of a job, a table or a state store does not reach one with the same prefix', async () => {
    const w = await world()
    const writer = await w.engine()
    const make = (name: string) => job(name, { source: ['1', '2'], key: (item) => item, each: () => undefined })
    for (const name of ['night', 'nightly']) await (await writer.run(make(name))).result()
    for (const name of ['row', 'rows']) {
      const rows = await writer.open(table<number>(name))
      await rows.set('k', 1)
      await rows.checkpoint()
    }
    await (await writer.open(table<number>('counts'), 'people')).set('k', 1)
    await (await writer.open(table<number>('counts'), 'p10x')).set('k', 1)
    await withoutStored(writer)
    await writer.close()
    const rp = await w.engine()
    await (await rp.run(make('night'))).result()
    await rp.open(table<number>('row'))
    await rp.open(stateStore<number>('counts', { partitions: 2 }))
    const known = (await rp.collect({ dryRun: true })).timelines.map((each) => each.timeline)
    expect(known).toEqual(['job/night', 'table/counts/p0', 'table/counts/p1', 'table/row'])
  })

  it('reaches the archives of its own timelines, and a fork by its id', async () => {
    const w = await world()
    const rp = await w.engine()
    const short = timeline('short', { initial: () => 0, apply: (n, _entry: { type: 'tick' }) => n + 1 })
    const rows = await rp.open(table<number>('row'))
    for (let n = 0; n < 4; n++) await rows.set(`k${n}`, n)
    await rows.close()
    await rp.rollback({ to: { timeline: 'table/row', seq: 2 } })
    await rp.fork({ timeline: 'table/row', seq: 1 }, 'table/row/fork')
    await rp.fork({ timeline: 'table/row', seq: 1 }, 'table/rows')
    await rp.open(short, 'x')
    const known = (await rp.collect({ dryRun: true })).timelines.map((each) => each.timeline)
    expect(known).toEqual(['short/x', 'table/row', 'table/row/fork', 'table/row~1'])
  })
})

onEveryStore('a definition', (world) => {
  it('is not taken for that of a stranger by drill, card and savepoint', async () => {
    const w = await world()
    const writer = await w.engine()
    const rows = await writer.open(table<number>('rows'))
    await rows.set('k', 1)
    await rows.checkpoint()
    await writer.close()
    const rp = await w.engine()
    await rp.open(table<number>('row'))
    const drilled = await rp.drill()
    expect(drilled.unknown).toEqual(['table/rows'])
    expect(drilled.results.map((each) => each.timeline)).not.toContain('table/rows')
    expect((await rp.checkpoints('table/rows')).map((each) => each.drilledAt)).toEqual([null])
    expect((await rp.card('table/rows')).recovery).toBeNull()
    await expect(rp.savepoint({ timeline: 'table/rows', seq: 1 })).rejects.toEqual(code('INVALID_ARGUMENT'))
    expect((await rp.verify()).faults).toEqual([])
  })

  it('does not hide a rollback or a fork of another timeline', async () => {
    const w = await world()
    const rp = await w.engine()
    const night = job('night', { source: ['1'], key: (item) => item, each: () => undefined })
    await (await rp.run(night)).result()
    const other = timeline('other', { initial: () => 0, apply: (n, _entry: { type: 'tick' }) => n + 1 })
    // Another history under an id with the prefix of the job's.
    const line = await hostOf(rp).openTimeline('job/nights' as never, other.fold)
    await line.write(
      [
        { type: 'tick', data: {} },
        { type: 'tick', data: {} },
      ],
      { status: 'theirs' },
    )
    await line.close()
    await hostOf(rp).rollbackTimeline({ timeline: 'job/nights', seq: 1 })
    expect(await rp.head('job/nights')).toMatchObject({ seq: 1, attributes: {} })
    await hostOf(rp).forkTimeline({ timeline: 'job/nights', seq: 1 }, 'job/nights2')
    expect(await rp.head('job/nights2')).toMatchObject({ seq: 1, attributes: {} })
  })
})

onEveryStore('events', (world) => {
  const sum = (name: string) =>
    aggregate(name, {
      initial: () => ({ total: 0 }),
      evolve: { added: (s, e: { by: number }) => ({ total: s.total + e.by }) },
      decide: { add: (_s, c: { by: number }) => ({ type: 'added', by: c.by }) },
    })

  it('of accounting are not those of account, also after a rollback', async () => {
    const w = await world()
    const rp = await w.engine()
    const [account, accounting] = [sum('account'), sum('accounting')]
    for (const [definition, by] of [
      [account, 1],
      [accounting, 100],
    ] as const) {
      const one = await rp.open(definition, 'x')
      await one.do('add', { by })
      await one.do('add', { by })
      await one.close()
    }
    await rp.rollback({ to: { timeline: 'events/account/x', seq: 1 } })
    const totals = projection('totals', {
      from: [account],
      initial: () => ({ total: 0 }),
      on: { added: (s, e) => ({ total: s.total + e.by }) },
    })
    expect(await (await rp.open(totals)).catchUp()).toEqual({ total: 1 })
  })

  it('of ab and of a timeline that looks like an archive do not reach a consumer of a', async () => {
    const w = await world()
    const rp = await w.engine()
    const log = (name: string) => timeline(name, { initial: () => 0, apply: (n, _entry: { type: 'tick' }) => n + 1 })
    const write = async (name: string, id: string) => {
      const line = await rp.open(log(name), id)
      for (let n = 0; n < 2; n++) await line.append({ type: 'tick' })
      await line.close()
    }
    await write('log', 'a')
    await write('log', 'a/below')
    await write('log', 'ab')
    await write('log', 'a-b')
    await write('log', 'a~7')
    await write('logs', 'a')
    await rp.rollback({ to: { timeline: 'log/a', seq: 1 } })
    const of = async (name: string, from: string): Promise<string[]> => {
      const seen: string[] = []
      const reader = consumer(name, {
        from: [from],
        follow: false,
        each: (entry) => void seen.push(`${entry.timeline}@${entry.seq}`),
      })
      await (await rp.run(reader)).result()
      return seen.sort()
    }
    expect(await of('one', 'log/a')).toEqual(['log/a/below@1', 'log/a/below@2', 'log/a@1'])
    expect(await of('all', 'log')).toHaveLength(9)
    expect(await of('none', 'lo')).toEqual([])
  })

  it('of a job with the prefix of a consumer may be consumed, its own may not', () => {
    const make = (from: string) => () => consumer('mail', { from: [from], each: () => undefined })
    expect(make('job/mailer')).not.toThrow()
    expect(make('jobs')).not.toThrow()
    for (const own of ['job/mail', 'job/mail/', 'job/mail/3', 'job/', 'job', '']) expect(make(own)).toThrow()
  })
})

onEveryStore('a list', (world) => {
  it('holds whole segments: the agents of a team are not those of teams', async () => {
    const w = await world()
    const rp = await w.engine()
    const [team, teams] = ['team', 'teams'].map((name) => agent(name, { model: () => ({ content: 'ok' }) }))
    const [a, b] = [await rp.open(team!, 'a'), await rp.open(teams!, 'a')]
    await Promise.all([a.close(), b.close()])
    const list = async (prefix: string) => (await rp.list({ prefix })).map((head) => head.timeline)
    expect(await list('agent/team')).toEqual(['agent/team/a'])
    expect(await list('agent/team/')).toEqual(['agent/team/a'])
    expect(await list('agent/tea')).toEqual([])
    expect(await list('agent')).toEqual(['agent/team/a', 'agent/teams/a'])
  })
})

onEveryStore('mail of a group', (world) => {
  it('from a sender with an id as long as that of a member is not taken for mail of that member', async () => {
    const w = await world()
    const rp = await w.engine()
    const team = agent('team', { model: () => ({ content: 'ok' }) })
    const members = ['a', 'b']
    const [a, b] = await Promise.all(members.map((member) => rp.open(team, member)))
    await a!.captureCut('cut', members)
    await rp.send('agent/team/a', 'agent-message', { from: 'agent/teax/b', seq: 999, content: 'from a stranger' })
    await b!.send('a', 'after the cut')
    await Promise.all([a!.close(), b!.close()])
    await restoreCut(rp, team, 'cut')
    const again = await rp.open(team, 'a')
    await again.receive()
    expect(again.messages.map((message) => message.content)).toEqual(['from a stranger'])
  })
})

onEveryStore('a table under the id of a partition', (world) => {
  const conflict = code('CONFLICT')
  const store = stateStore<number>('t', { partitions: 2 })
  const tables = { table: table<number>('t'), pagedTable: pagedTable<number>('t') }

  it.each(Object.entries(tables))('is refused where a state store lies: %s', async (_, rows) => {
    const w = await world()
    const [rp, other] = [await w.engine(), await w.engine()]
    await (await rp.open(store)).set('k', 1)
    for (const id of ['p0', 'p1', 'generations']) {
      if (id !== 'generations') await expect(other.open(rows as Entity<unknown>, id)).rejects.toEqual(conflict)
      await expect(rp.open(rows as Entity<unknown>, id)).rejects.toEqual(conflict)
    }
    await rp.close()
    const later = await w.engine()
    await expect(later.open(rows as Entity<unknown>, 'p0')).rejects.toEqual(conflict)
    expect((await later.open(store)).get('k')).toBe(1)
  })

  it.each(Object.entries(tables))('keeps a state store from its place: %s', async (_, rows) => {
    const w = await world()
    const [rp, other] = [await w.engine(), await w.engine()]
    const open = (engine: Reprise) => engine.open(rows as Entity<TableHandle<number>>, 'p1')
    await (await open(rp)).set('k', 1)
    await expect(other.open(store)).rejects.toEqual(conflict)
    await expect(rp.open(store)).rejects.toEqual(conflict)
    await rp.close()
    const later = await w.engine()
    await expect(later.open(store)).rejects.toEqual(conflict)
    expect(await (await open(await w.engine())).get('k')).toBe(1)
  })

  it('of an earlier version gets the kind with which it is first opened, and keeps it', async () => {
    const w = await world()
    const writer = await w.engine()
    await (await writer.open(tables.table, 'p0')).set('k', 1)
    await (await writer.open(stateStore<number>('s', { partitions: 2 }))).set('k', 2)
    await withoutStored(writer)
    await writer.close()
    const rp = await w.engine()
    expect((await rp.open(tables.table, 'p0')).get('k')).toBe(1)
    expect((await rp.open(stateStore<number>('s', { partitions: 2 }))).get('k')).toBe(2)
    await rp.close()
    const later = await w.engine()
    await expect(later.open(store)).rejects.toEqual(conflict)
    await expect(later.open(table<number>('s'), 'p1')).rejects.toEqual(conflict)
  })
})
