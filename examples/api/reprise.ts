// Examples of `reprise`: the engine, timelines, effects, groups and the tools of a store.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import {
  errorCodes,
  explain,
  feedStart,
  GiveUp,
  isGiveUp,
  isReprise,
  isRetryLater,
  type Keyed,
  keyed,
  open,
  RepriseError,
  RetryLater,
  timeline,
} from 'reprise'
import { example } from './example.ts'

const counter = timeline('counter', {
  initial: () => 0,
  apply: (total: number, entry: { type: 'added'; by: number }) => total + entry.by,
})

export default [
  example(
    ['open', 'timeline', 'Reprise.open', 'TimelineHandle.append', 'TimelineHandle.close', 'Reprise.close'],
    async () => {
      const rp = await open('memory:')
      const visits = await rp.open(counter, 'visits')
      await visits.append({ type: 'added', by: 2 })
      assert.equal(visits.state, 2)
      await visits.close()
      await rp.close()
    },
  ),
  example(['TimelineHandle.watch', 'TimelineHandle.checkpoint', 'StoreTools.checkpoints'], async (rp) => {
    const visits = await rp.open(counter, 'visits')
    const stop = visits.watch((entries) => assert.equal(entries[0]!.by, 2))
    await visits.append({ type: 'added', by: 2 })
    stop()
    const { id } = await visits.checkpoint()
    assert.equal((await rp.checkpoints('counter/visits'))[0]!.id, id)
  }),
  example(['TimelineHandle.refresh'], async (rp) => {
    const visits = await rp.open(counter, 'visits', { shared: true })
    await visits.append((total) => ({ type: 'added', by: total + 1 }))
    assert.equal(await visits.refresh(), 1)
  }),
  example(['Effects.run', 'Effects.list', 'Effects.get', 'Effects.inDoubt', 'Effects.compensate'], async (rp) => {
    const { effects } = await rp.open(counter, 'visits')
    const receipt = await effects.run('charge', ({ key }) => `receipt for ${key}`)
    const [charge] = effects.list()
    assert.equal(effects.get(charge!.id)!.result, receipt)
    assert.deepEqual(effects.inDoubt(), [])
    await effects.compensate(charge!.id, (effect, key) => console.assert(effect.name === 'charge' && key !== ''))
  }),
  example(['StoreTools.effectsOf'], async (rp) => {
    const { effects } = await rp.open(counter, 'visits')
    await effects.run('charge', () => 'receipt')
    assert.equal((await rp.effectsOf('counter/visits'))[0]!.state, 'done')
  }),
  example(
    ['Effects.settle', 'Reprise.settleEffect'],
    async (rp) => {
      // A crash left an outcome unknown: a person decides it, through the timeline's owner or without one.
      const visits = await rp.open(counter, 'visits')
      for (const { id } of visits.effects.inDoubt()) await visits.effects.settle(id, 'failed', 'ann')
      await visits.close()
      await rp.settleEffect('counter/visits', 'charge', 'done', 'ann', { receipt: 'r-7' })
    },
    'compiled',
  ),
  example(['Events.on', 'Events.has'], async (rp) => {
    const stop = rp.events.on('problem', ({ where, error }) => console.error(where, error))
    assert.equal(rp.events.has('problem'), true)
    stop()
  }),
  example(['Reprise.at', 'Reprise.fork', 'Reprise.rollback', 'StoreTools.planRollback'], async (rp) => {
    const visits = await rp.open(counter, 'visits')
    for (const by of [1, 2, 3]) await visits.append({ type: 'added', by })
    await visits.close()
    assert.equal((await rp.at(counter, 'visits', { seq: 2 })).state, 3)
    await rp.fork({ timeline: 'counter/visits', seq: 1 }, 'counter/trial')
    const plan = await rp.planRollback('counter/visits', { seq: 3 })
    await rp.rollback({ to: { timeline: plan.timeline, seq: plan.to } })
    assert.equal((await rp.open(counter, 'visits')).state, 3)
  }),
  example(['Reprise.savepoint', 'Reprise.release', 'StoreTools.card', 'StoreTools.drill'], async (rp) => {
    await rp.open(counter, 'visits').append({ type: 'added', by: 1 })
    const { id } = await rp.savepoint({ timeline: 'counter/visits', seq: 1 }, { label: 'before the release' })
    assert.equal((await rp.drill()).ok, true)
    console.assert((await rp.card('counter/visits')) !== null)
    await rp.release('counter/visits', id)
  }),
  example(['StoreTools.markCheckpoint', 'StoreTools.unmarkCheckpoint'], async (rp) => {
    const visits = await rp.open(counter, 'visits')
    await visits.append({ type: 'added', by: 1 })
    const { id } = await visits.checkpoint()
    await rp.markCheckpoint('counter/visits', id, { why: 'made by a broken build', by: 'ann' })
    await rp.unmarkCheckpoint('counter/visits', id)
  }),
  example(['Reprise.export', 'Reprise.import', 'Reprise.move', 'Reprise.moveBack'], async (rp, folder) => {
    await rp.open(counter, 'visits').append({ type: 'added', by: 1 })
    await rp.savepoint({ timeline: 'counter/visits', seq: 1 })
    const file = join(folder, 'visits.reprise')
    await rp.export({ timeline: 'counter/visits', seq: 1 }, file)
    await rp.import(file, { as: 'counter/copy' })
    await rp.move('counter/visits', join(folder, 'moved.reprise'), { takeover: true })
    await rp.moveBack('counter/visits')
  }),
  example(['Reprise.follow', 'Replica.watch', 'Replica.refresh', 'Replica.takeOver', 'Replica.close'], async (rp) => {
    const visits = await rp.open(counter, 'visits')
    const replica = await rp.follow(counter, 'visits')
    const stop = replica.watch((entries) => console.assert(entries.length === 1))
    await visits.append({ type: 'added', by: 2 })
    await replica.refresh()
    assert.equal(replica.state, 2)
    stop()
    await visits.close()
    const owner = await replica.takeOver()
    await owner.append({ type: 'added', by: 1 })
    replica.close()
  }),
  example(
    ['Groups.capture', 'Groups.cut', 'Groups.cuts', 'Groups.plan', 'Groups.restore', 'Groups.release'],
    async (rp) => {
      for (const id of ['a', 'b']) await rp.open(counter, id).append({ type: 'added', by: 1 })
      await rp.groups.capture('before', ['counter/a', 'counter/b'])
      assert.equal((await rp.groups.cut('before')).status, 'completed')
      await rp.open(counter, 'a').append({ type: 'added', by: 5 })
      console.assert((await rp.groups.plan({ cut: 'before' })).members.length === 2)
      await rp.groups.restore({ cut: 'before' }, { takeover: true })
      assert.equal((await rp.open(counter, 'a')).state, 1)
      await rp.groups.release('before')
      for (const cut of await rp.groups.cuts()) assert.notEqual(cut.status, 'completed')
    },
  ),
  example(['Groups.schedule', 'Groups.schedules', 'Groups.endSchedule'], async (rp) => {
    for (const id of ['a', 'b']) await rp.open(counter, id).append({ type: 'added', by: 1 })
    const hourly = await rp.groups.schedule('hourly', ['counter/a', 'counter/b'], { each: '1h', keep: 24 })
    assert.equal((await rp.groups.schedules())[0]!.status, 'running')
    await hourly.close()
    await rp.groups.endSchedule('hourly')
    assert.equal((await rp.groups.schedules())[0]!.status, 'stopped')
  }),
  example(['Groups.restores', 'Groups.resume', 'Groups.abandon', 'Groups.expire'], async (rp) => {
    // After a crash in the middle of a restore: continue it, or abandon it and keep the members as they are.
    for (const { id, status } of await rp.groups.restores()) {
      if (status === 'restoring') await rp.groups.resume(id)
      else await rp.groups.abandon(id, 'a member cannot be restored')
    }
    assert.equal(await rp.groups.expire(), 0)
  }),
  example(['Reprise.run', 'Reprise.work'], async (rp) => {
    const { job } = await import('reprise/job')
    const papers = job('papers', { source: ['a', 'b'], each: (paper) => paper.toUpperCase() })
    assert.equal((await rp.run(papers).result()).done, 2)
    rp.work([papers])
  }),
  example(['Reprise.workUntil'], async (rp) => {
    const { workflow } = await import('reprise/workflow')
    const greet = workflow('greet', async (ctx, name: string) => await ctx.step('say', () => `hello ${name}`))
    const run = await rp.run(greet, 'ann', { here: false })
    const { done, handedOver, nextDueAt } = await rp.workUntil([greet], { budget: '50s', idle: 100 })
    assert.deepEqual([done, handedOver, nextDueAt], [1, [], null])
    assert.equal(await run.result(), 'hello ann')
  }),
  example(['Reprise.send'], async (rp) => {
    const { workflow } = await import('reprise/workflow')
    const checkout = workflow('checkout', async (ctx) => await ctx.signal<number>('paid'))
    const run = await rp.run(checkout, { id: 'order-1' })
    await rp.send('workflow/checkout/order-1', 'signal', { name: 'paid', value: 7 }, { key: 'payment-7' })
    assert.equal(await run.result(), 7)
  }),
  example(
    ['Reprise.sql', 'Sql.run', 'Sql.all', 'Sql.get', 'Sql.rows'],
    async (rp) => {
      const { workflow } = await import('reprise/workflow')
      const fill = workflow('fill', async (ctx) => {
        await ctx.transaction('create', (sql) => sql.run('CREATE TABLE totals (id TEXT, cents INTEGER)'))
        return await ctx.transaction('insert', async (sql) => {
          await sql.run('INSERT INTO totals VALUES (?, ?)', 'ann', 7)
          console.assert((await sql.all('SELECT * FROM totals')).length === 1)
          console.assert((await sql.rows('SELECT id, cents FROM totals'))[0]?.[1] === 7)
          return (await sql.get('SELECT cents FROM totals WHERE id = ?', 'ann'))!.cents
        })
      })
      assert.equal(await rp.run(fill).result(), 7)
      const rows = await rp.sql<{ cents: number }>`SELECT cents FROM totals WHERE id = ${'ann'}`
      assert.deepEqual(rows, [{ cents: 7 }])
    },
    'sqlite',
  ),
  example(['Reprise.declare', 'StoreTools.head', 'StoreTools.list', 'StoreTools.each'], async (rp) => {
    const { jobKind } = await import('reprise/job')
    rp.declare(jobKind)
    await rp.open(counter, 'visits').append({ type: 'added', by: 1 })
    assert.equal((await rp.head('counter/visits'))!.seq, 1)
    assert.equal((await rp.list({ prefix: 'counter/' })).length, 1)
    for await (const { timeline } of rp.each()) console.assert(timeline !== '')
  }),
  example(
    [
      'Reprise.collect',
      'StoreTools.collect',
      'StoreTools.tiers',
      'StoreTools.verify',
      'StoreTools.facts',
      'StoreTools.workers',
    ],
    async (rp) => {
      const { faults } = await rp.verify()
      assert.deepEqual(faults, [])
      await rp.collect({ dryRun: true })
      const { tiers } = await rp.tiers({ dryRun: true })
      assert.equal(tiers[0]?.name, 'hot')
      for (const worker of await rp.workers()) assert.equal(worker.isAlive, true)
      console.assert((await rp.facts()).location !== '')
    },
  ),
  example(['StoreTools.shards', 'StoreTools.addShard'], async (_, folder) => {
    const address = (name: string) => `sqlite:${join(folder, name)}`
    const rp = await open({ shards: [address('a.db'), address('b.db')] })
    const { moved, stays } = await rp.addShard(address('c.db'), { onProgress: ({ moved }) => console.log(moved) })
    assert.deepEqual([moved, stays], [0, []])
    assert.deepEqual(
      (await rp.shards()).map(({ shard, isAway }) => [shard, isAway]),
      [0, 1, 2].map((shard) => [shard, false]),
    )
    await rp.close()
  }),
  example(['StoreTools.changes', 'Reprise.resumeChange', 'StoreTools.abandonChange'], async (rp) => {
    // After a crash in the middle of a restore or an import: continue it, or undo it.
    for (const { id, kind, isRunning } of await rp.changes()) {
      if (isRunning) continue
      if (kind === 'restore') await rp.resumeChange(id)
      else await rp.abandonChange(id)
    }
  }),

  example(['StoreTools.backup', 'StoreTools.restore'], async (rp, folder) => {
    await rp.open(counter, 'visits').append({ type: 'added', by: 1 })
    const file = join(folder, 'all.backup')
    await rp.backup(file)
    const other = await open('memory:', { namespace: 'other' })
    await other.restore(file)
    assert.equal((await other.head('counter/visits'))!.seq, 1)
    await other.close()
  }),
  example(['StoreTools.giveUp'], async (rp) => {
    await rp.open(counter, 'b').append({ type: 'added', by: 1 })
    const { lost, refusal } = await rp.giveUp('counter/b', { by: 'ann', reason: 'a lost sector', dryRun: true })
    assert.deepEqual(lost, [])
    console.log(refusal)
  }),
  example(['StoreTools.losses', 'StoreTools.acceptLoss'], async (rp) => {
    for (const { id } of await rp.losses()) await rp.acceptLoss(id, { by: 'ann', reason: 'no backup has it' })
    assert.deepEqual(await rp.losses(), [])
  }),
  example(['StoreTools.delete', 'StoreTools.erase', 'StoreTools.eraseEntries'], async (rp) => {
    for (const id of ['a', 'b', 'c']) await rp.open(counter, id).append({ type: 'added', by: 1 })
    await rp.delete('counter/a', { dryRun: true })
    await rp.eraseEntries('counter/b', { entries: { from: 1, to: 1 }, dryRun: true })
    const c = await rp.open(counter, 'c')
    await c.close()
    await rp.erase('counter/c', { dryRun: true })
  }),
  example(['StoreTools.log', 'StoreTools.feed', 'feedStart'], async (rp) => {
    await rp.open(counter, 'visits').append({ type: 'added', by: 1 })
    const { items } = await rp.feed(feedStart, { prefixes: ['counter/'] })
    assert.equal(items.length, 1)
    console.assert((await rp.log({ kind: 'damage' })).length === 0)
  }),
  example(['StoreTools.rekey', 'StoreTools.keys', 'StoreTools.hashed'], async () => {
    const [first, second, hashing] = [1, 2, 3].map((n) => new Uint8Array(32).fill(n))
    const ring = { first: first!, second: second! }
    const rp = await open('memory:', { keys: { current: 'second', keys: ring, hashing: { key: hashing! } } })
    await rp.open(counter, rp.hashed('ann@example.com')).append({ type: 'added', by: 1 })
    await rp.rekey()
    assert.deepEqual((await rp.keys()).lacking, [])
    await rp.close()
  }),
  example(
    ['keyed', 'Keyed.set', 'Keyed.get', 'Keyed.has', 'Keyed.delete', 'Keyed.entries', 'Keyed.keys', 'Keyed.values'],
    async (rp) => {
      const stock = timeline('stock', {
        initial: () => keyed<number>(),
        apply: (rows: Keyed<number>, { key, count }: { type: 'counted'; key: string; count: number }) => {
          if (count === 0) rows.delete(key)
          else rows.set(key, count)
        },
      })
      const shop = await rp.open(stock, 'berlin')
      await shop.append([
        { type: 'counted', key: 'tea', count: 3 },
        { type: 'counted', key: 'mugs', count: 0 },
      ])
      assert.deepEqual([shop.state.get('tea'), shop.state.has('mugs')], [3, false])
      assert.deepEqual([[...shop.state.entries()], [...shop.state.keys()], [...shop.state.values()]].flat().length, 3)
    },
  ),
  example(['Keyed.clear', 'Keyed.snapshot'], async () => {
    const rows = keyed<number>()
    rows.set('tea', 3)
    const before = rows.snapshot()
    rows.clear()
    assert.deepEqual([rows.size, before.size], [0, 1])
  }),
  example(['isReprise', 'RepriseError', 'errorCodes', 'explain'], async (rp) => {
    await assert.rejects(rp.open(counter, '\0'), (error) => isReprise(error, 'INVALID_ID'))
    const error = new RepriseError('NOT_FOUND', 'there is no timeline counter/visits')
    console.assert(explain(error.code).remedy === 'fix' && errorCodes().includes('FENCED'))
  }),
  example(['RetryLater', 'GiveUp', 'isRetryLater', 'isGiveUp'], async (rp) => {
    const { job } = await import('reprise/job')
    let calls = 0
    const fetching = job('fetching', {
      source: ['a', 'gone'],
      each: (paper) => {
        if (paper === 'gone') throw new GiveUp('it was withdrawn')
        calls += 1
        if (calls === 1) throw new RetryLater('1ms')
      },
    })
    const report = await rp.run(fetching).result()
    assert.deepEqual([report.done, report.failed, calls], [1, 1, 2])
    console.assert(isRetryLater(new RetryLater('1s')) && isGiveUp(new GiveUp()))
  }),
  example(
    ['StoreTools.ship'],
    async (rp, folder) => {
      await rp.open(counter, 'visits').append({ type: 'added', by: 1 })
      await rp.ship(join(folder, 'shipped'), { once: true })
    },
    'sqlite',
  ),
]
