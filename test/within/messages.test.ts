// Commands to aggregates and entries for timelines, sent in the application's transaction: applied once if it commits, by the
// process that works on their definition, also where another process owns the timeline.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { aggregate, commandTo, Refused } from '../../src/layers/events/index.ts'
import { consumer, itemQueue } from '../../src/layers/job/index.ts'
import { Metrics } from '../../src/server/metrics.ts'
import { within } from '../../src/within.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { type StoreUrl, storeUrls } from '../support/store-urls.ts'
import { type Application, application } from './database.ts'

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
  decide: {
    deposit: (_, c: { amount: number }) => {
      if (c.amount <= 0) throw new Refused('nothing to deposit')
      return { type: 'deposited' as const, amount: c.amount }
    },
  },
})
type Visit = { readonly type: 'visited'; readonly by: string }
const visits = timeline('visits', {
  initial: (): readonly string[] => [],
  apply: (seen, entry: Visit) => {
    if (entry.by === 'poison') throw new Error('poison')
    return [...seen, entry.by]
  },
})

describe.each(Object.keys(storeUrls))('messages in a transaction of the application (%s)', (kind) => {
  let store: StoreUrl
  let rp: Reprise
  let app: Application
  beforeEach(async () => {
    store = storeUrls[kind]!()
    rp = await open(store.url)
    app = await application(store.url)
  })
  afterEach(async () => {
    await app.close()
    await rp.close()
    await store.remove()
  })

  const requests = () => hostOf(rp).kernel.store.requests!.list({ limit: 100 })
  const commit = async (work: (tx: unknown) => Promise<void>, end = 'COMMIT') => {
    await app.run('BEGIN')
    await work(app.tx)
    await app.run(end)
  }
  const seen = async (id: string) =>
    (await rp.at(visits, id, { seq: (await hostOf(rp).head(`visits/${id}`))!.seq })).state
  const balance = async (id: string) => (await account.read(rp, id).catch(() => null))?.state.balance
  const length = async (id: string) => (await hostOf(rp).head(`visits/${id}`))?.seq ?? 0

  it('E3: a command reaches its aggregate if the transaction commits, once per key', async () => {
    const deposit = (amount: number) => commandTo(account, 'ann', 'deposit', { amount })
    await commit((tx) => within(rp, tx).send(deposit(100), { key: 'gone' }), 'ROLLBACK')
    await commit(async (tx) => {
      await within(rp, tx).send(deposit(5), { key: 'a' })
      await within(rp, tx).send(deposit(5), { key: 'a' })
      await within(rp, tx).send(deposit(2), { meta: { actor: 'bob' } })
    })
    // No process works on the aggregate yet.
    expect(await requests()).toHaveLength(3)
    rp.work([account])
    await expect.poll(() => balance('ann')).toBe(7)
    await commit((tx) => within(rp, tx).send(deposit(5), { key: 'a' }))
    await commit((tx) => within(rp, tx).send(deposit(1)))
    await expect.poll(() => balance('ann')).toBe(8)
    expect(await requests()).toEqual([])
  })

  it('E3: SQL alone sends commands and entries', async () => {
    const send = async (target: string, timeline: string, topic: string, data: unknown) => {
      const columns = '(verb, target, id, topic, data)'
      if (kind === 'postgres') await app.send(timeline, topic, data)
      else
        await app.run(
          `INSERT INTO reprise_request ${columns} VALUES ('send', '${target}', '${timeline}', '${topic}', '${JSON.stringify(data)}')`,
        )
    }
    // A worker without these definitions must not take them.
    const other = await open(store.url)
    other.work([timeline('other', { initial: () => 0, apply: (n: number) => n + 1 })])
    await commit(async () => {
      await send('events/account', 'events/account/eve', 'command', { command: 'deposit', input: { amount: 3 } })
      await send('timeline/visits', 'visits/sql', 'append', { type: 'visited', by: 'sql' })
      await send('timeline/visits', 'visits/sql', 'append', [
        { type: 'visited', by: 'a' },
        { type: 'visited', by: 'b' },
      ])
      await send('timeline/visits', 'visits/sql', 'append', { by: 'nobody' })
    })
    rp.work([account, visits])
    await expect.poll(() => balance('eve')).toBe(3)
    await expect.poll(() => length('sql')).toBe(3)
    expect(await seen('sql')).toEqual(['sql', 'a', 'b'])
    expect((await requests()).map(({ problem }) => problem)).toEqual([expect.stringContaining('must be an object')])
    await other.close()
  })

  it('E3: entries are appended to a timeline that no process, another process or this process owns', async () => {
    const owner = await open(store.url)
    owner.work([visits])
    const held = await owner.open(visits, 'held')
    await held.append({ type: 'visited', by: 'owner' })
    const append = (id: string, by: string, key?: string) =>
      commit((tx) => within(rp, tx).append(visits, id, { type: 'visited', by }, key === undefined ? {} : { key }))
    await append('held', 'first', 'k')
    await append('free', 'second', 'k')
    await append('held', 'again', 'k')
    await expect.poll(async () => [await length('held'), await length('free')]).toEqual([2, 1])
    expect(held.state).toEqual(['owner', 'first'])
    await held.append({ type: 'visited', by: 'last' })
    await append('held', 'first', 'k')
    await append('held', 'end')
    await until(() => held.state.includes('end'))
    expect(held.state).toEqual(['owner', 'first', 'last', 'end'])
    expect(await seen('free')).toEqual(['second'])
    await owner.close()
  })

  it('E3: an entry that the timeline refuses is reported and dropped, and the next ones are appended', async () => {
    const problems: string[] = []
    rp.events.on('problem', ({ error }) => problems.push((error as Error).message))
    const metrics = new Metrics(hostOf(rp).events, () => 0)
    rp.work([visits])
    await expect(commit((tx) => within(rp, tx).append(visits, 'p', []))).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
    await app.run('ROLLBACK')
    await commit(async (tx) => {
      await within(rp, tx).append(visits, 'p', { type: 'visited', by: 'poison' })
      await within(rp, tx).append(visits, 'p', { type: 'visited', by: 'fine' })
    })
    await expect.poll(() => length('p')).toBe(1)
    expect(await seen('p')).toEqual(['fine'])
    expect(problems).toEqual([expect.stringContaining('was dropped')])
    expect(await metrics.write(rp)).toContain('\nreprise_dropped_messages_total 1\n')
    await expect.poll(() => rp.log({ kind: 'mail-dropped' })).toMatchObject([{ timeline: 'visits/p' }])
  })

  it('E3: the items of a consumer can be appended in a transaction', async () => {
    const done: string[] = []
    const greet = consumer('greet', { from: [visits], each: async ({ data }) => void done.push((data as Visit).by) })
    rp.work([visits, greet])
    await commit(async (tx) => {
      await within(rp, tx).append(visits, 'door', [
        { type: 'visited', by: 'ann' },
        { type: 'visited', by: 'bob' },
      ])
    })
    await until(() => done.length === 2)
    expect(done).toEqual(['ann', 'bob'])
  })

  it('E3: items of a job are added if the transaction commits, once per key, and handled in their order', async () => {
    const mails = itemQueue<{ to: string }>('mails')
    const handled: string[] = []
    const mailer = consumer('mailer', {
      from: [mails],
      order: 'kept',
      each: async ({ item }) => void handled.push(item.to),
    })
    const add = (names: readonly string[], key?: string, end?: string) =>
      commit(
        (tx) =>
          within(rp, tx).items(
            mails,
            names.map((to) => ({ to })),
            key === undefined ? {} : { key },
          ),
        end,
      )
    await add(['gone'], 'rolled back', 'ROLLBACK')
    await add(['ann', 'bob'], 'k')
    await add(['ann', 'bob'], 'k')
    await app.run('BEGIN')
    await within(rp, app.tx).items(mails, [{ to: 'cid' }])
    await app.run('SAVEPOINT s')
    await within(rp, app.tx).items(mails, [{ to: 'undone' }])
    await app.run('ROLLBACK TO SAVEPOINT s')
    await app.run('COMMIT')
    rp.work([mailer])
    await until(() => handled.includes('cid'))
    await add(['dan'], 'rolled back')
    await until(() => handled.includes('dan'))
    expect(handled).toEqual(['ann', 'bob', 'cid', 'dan'])
    expect(await requests()).toEqual([])
  })

  it('items for a definition that is no queue, and items that are no list, are refused in the transaction', async () => {
    const mails = itemQueue<number>('mails')
    await app.run('BEGIN')
    const fill = (queue: unknown, items: unknown) => within(rp, app.tx).items(queue as typeof mails, items as number[])
    for (const wrong of [null, {}, visits])
      await expect(fill(wrong, [1])).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    for (const wrong of [null, 5, []])
      await expect(fill(mails, wrong)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await app.run('COMMIT')
    expect(await requests()).toEqual([])
  })
})
