// "Stop with a savepoint, move to another machine, resume", for every model, in the middle of its work, between SQLite and
// PostgreSQL. A moved timeline continues there with its waits, and can no longer be written in its old place.

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { describes } from '../../src/engine/model/model.ts'
import { timeline } from '../../src/index.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { aggregate, commandTo, sendCommand } from '../../src/layers/events/index.ts'
import { consumer, job } from '../../src/layers/job/index.ts'
import { migrations } from '../../src/layers/migrate/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { stateStore, table } from '../../src/layers/table/index.ts'
import { queue, type WorkflowDefinition, workflow, workflowKind } from '../../src/layers/workflow/index.ts'
import { openPostgres } from '../../src/stores/postgres/index.ts'
import { openSqlite } from '../../src/stores/sqlite/index.ts'
import { pause, temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

let folder: string
let schema: string
let engines: Reprise[]

beforeEach(() => {
  folder = temporaryFolder('move')
  schema = newSchemaName()
  engines = []
})
afterEach(async () => {
  for (const engine of engines.reverse()) await engine.close()
  await dropSchema(inject('postgresUrl'), schema)
})

const places = {
  sqlite: () => openSqlite(join(folder, 'store.db'), { namespace: 'default', hash: sha256 }),
  postgres: () => openPostgres(inject('postgresUrl'), { namespace: 'default', schema, hash: sha256 }),
}
type Place = keyof typeof places

async function engineAt(place: Place): Promise<Reprise> {
  const engine = createEngine({ store: await places[place]() }, { worker: place })
  engines.push(engine)
  return engine
}

async function until(isDone: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 90_000
  while (!(await isDone())) {
    if (Date.now() > end) throw new Error('waited too long')
    await pause(20)
  }
}

/** Moved by another process than the one that used it, once straight and once by a file. */
async function moved(
  from: Place,
  to: Place,
  id: string,
  known: (rp: Reprise) => void,
  byFile: boolean,
): Promise<Reprise> {
  const [source, target] = [await engineAt(from), await engineAt(to)]
  known(source)
  known(target)
  if (byFile) {
    const file = join(folder, 'moved.reprise')
    await source.move(id, file)
    await target.import(file)
  } else await source.move(id, target)
  const [marked] = await source.list({ prefix: id, limit: 1 })
  expect(marked!.status).toBe('moved')
  return target
}

const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
  retain: { checkpoints: 7 },
})
const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }) },
})
const helper = agent('helper', { model: ({ messages }) => ({ content: `answer ${messages.length}` }) })

describe.each([
  ['sqlite', 'postgres', false],
  ['postgres', 'sqlite', true],
] as const)('moved from %s to %s (by a file: %s)', (from, to, byFile) => {
  it('a timeline, a table and an aggregate go on with their state, and the old place refuses', async () => {
    const rp = await engineAt(from)
    const ticks = await rp.open(counter, 'x')
    await ticks.append({ type: 'added', by: 2 })
    const rows = await rp.open(table<number>('rows'))
    await rows.set('k', 1)
    await (await rp.open(account, 'ann')).do('deposit', { amount: 5 })
    await rp.close()
    const target = await moved(from, to, 'counter/x', () => undefined, byFile)
    const there = await target.open(counter, 'x')
    await there.append({ type: 'added', by: 3 })
    expect(there.state.total).toBe(5)
    expect((await target.head('counter/x'))!.attributes.$declared).toContain('"checkpoints":7')
    const old = await engineAt(from)
    await expect(old.open(counter, 'x')).rejects.toEqual(code('NOT_FOUND'))
    const [tables, accounts] = [
      await moved(from, to, 'table/rows', () => undefined, byFile),
      await moved(from, to, 'events/account/ann', () => undefined, byFile),
    ]
    expect((await tables.open(table<number>('rows'))).get('k')).toBe(1)
    const ann = await accounts.open(account, 'ann')
    await ann.do('deposit', { amount: 1 })
    expect(ann.state.balance).toBe(6)
    expect((await target.verify()).faults).toEqual([])
  })

  it('a state store goes with all of its partitions, saves with their chunks, a session with its turns', async () => {
    // Rescaled before: where its partitions lie goes along.
    const first = stateStore<number>('counts', { partitions: 2 })
    const counts = stateStore<number>('counts', { partitions: 3 })
    const weights = save<Uint8Array>('weights', { keep: 3 })
    const rp = await engineAt(from)
    const s = await rp.open(first)
    for (let n = 0; n < 20; n++) await s.set(`k${n}`, n)
    await counts.rescale(rp)
    const saves = await rp.open(weights)
    for (let n = 0; n < 2; n++) await saves.put(new Uint8Array(300_000).fill(n))
    const session = await rp.open(helper, 'ann')
    await session.turn('hello')
    await rp.close()
    const know = (engine: Reprise) => {
      for (const model of [counts, weights].flatMap((each) => each[describes] as never)) engine.declare(model)
    }
    const target = await moved(from, to, 'table/counts', know, byFile)
    const again = await target.open(counts)
    expect([again.size, again.get('k7')]).toEqual([20, 7])
    const restored = await (await moved(from, to, 'save/weights', know, byFile)).open(weights)
    expect((await restored.latest()).value[0]).toBe(1)
    const there = await (await moved(from, to, 'agent/helper/ann', know, byFile)).open(helper, 'ann')
    await there.turn('again')
    expect(there.messages.map((message) => message.role)).toEqual(['user', 'assistant', 'user', 'assistant'])
  })

  it('a job stops in the middle and does the rest, each item once', async () => {
    const done: string[] = []
    let isSlow = true
    const items = Array.from({ length: 30 }, (_, n) => String(n))
    const night = job('night', {
      source: items,
      key: (item) => item,
      concurrency: 1,
      each: async (item) => {
        if (isSlow && done.length > 3) await new Promise((resolve) => setTimeout(resolve, 1000))
        done.push(item)
      },
    })
    const rp = await engineAt(from)
    const run = await rp.run(night)
    await until(() => done.length > 3)
    const stopped = run.result()
    const target = await moved(from, to, 'job/night', (engine) => engine.declare(night[describes] as never), byFile)
    expect((await stopped).status).toBe('stopped')
    expect(done.length).toBeLessThan(30)
    isSlow = false
    expect(await (await target.run(night)).result()).toMatchObject({ status: 'completed' })
    expect([...done].sort()).toEqual([...items].sort())
    await expect((await rp.run(night)).result()).rejects.toEqual(code('NOT_FOUND'))
  })

  it('migrations go on at the step that failed', async () => {
    const ran: string[] = []
    let isBroken = true
    const schemaSteps = migrations('schema', {
      steps: [
        { id: '001', run: () => void ran.push('001') },
        {
          id: '002',
          run: () => {
            if (isBroken) throw new Error('not yet')
            ran.push('002')
          },
        },
      ],
    })
    const rp = await engineAt(from)
    await expect((await rp.run(schemaSteps)).result()).rejects.toThrow()
    await rp.close()
    isBroken = false
    const target = await moved(from, to, 'migrate/schema', () => undefined, byFile)
    await (await target.run(schemaSteps)).result()
    expect(ran).toEqual(['001', '002'])
  })

  it('a workflow continues with its wakeup, its queue and its unread signals', async () => {
    const charged: string[] = []
    const lane = queue('lane', { concurrency: 1 })
    const pay: WorkflowDefinition<number, string> = workflow(
      'pay',
      async (ctx, cents: number) => {
        await ctx.step('charge', ({ key }) => void charged.push(key))
        const said = await ctx.signal<string>('go')
        await ctx.sleep(50)
        return `${cents} ${said}`
      },
      { queue: lane },
    )
    const rp = await engineAt(from)
    await rp.run(pay, 7, { id: 'o1' })
    await until(async () => charged.length === 1 && (await rp.head('workflow/pay/o1'))!.seq >= 3)
    // Not admitted: the first one keeps its place while it waits.
    await rp.run(pay, 8, { id: 'o2' })
    await rp.close()
    const sender = await engineAt(from)
    await sender.send('workflow/pay/o1', 'signal', { name: 'go', value: 'yes' })
    const know = (engine: Reprise) => engine.declare(workflowKind)
    const target = await moved(from, to, 'workflow/pay/o1', know, byFile)
    expect(await target.head('workflow/pay/o1')).toMatchObject({ queue: 'workflow/pay', mail: 1 })
    target.work([pay])
    await until(async () => (await target.head('workflow/pay/o1'))!.status === 'completed')
    expect(await (await target.run(pay, 7, { id: 'o1' })).result()).toBe('7 yes')
    expect(charged).toHaveLength(1)
    // Its place in the old queue is free for the one that waited for it.
    const old = await engineAt(from)
    old.work([pay])
    await until(() => charged.length === 2)
    await old.send('workflow/pay/o2', 'signal', { name: 'go', value: 'too' })
    await until(async () => (await old.head('workflow/pay/o2'))!.status === 'completed')
    expect((await old.head('workflow/pay/o1'))!.status).toBe('moved')
    const gone = await old.run(pay, 7, { id: 'o1' })
    await expect(gone.result()).rejects.toMatchObject({ code: 'NOT_FOUND', data: { to: expect.any(String) } })
    await expect(gone.signal('go')).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })
})

it('ends in a program that has nothing else to do', () => {
  const program = `
    import { open, timeline } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)}
    const counter = timeline('counter', { initial: () => 0, apply: (sum, entry) => sum + entry.by })
    const [from, to] = [await open('sqlite:from.db'), await open('sqlite:to.db')]
    const one = await from.open(counter, 'x')
    await one.append({ type: 'added', by: 1 })
    await one.close()
    await from.move('counter/x', to)
    console.log((await to.head('counter/x')).seq)
    await from.close()
    await to.close()`
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd: folder,
    encoding: 'utf8',
  })
  expect({ status, stdout, stderr }).toMatchObject({ status: 0, stdout: '1\n' })
})

describe('a move', () => {
  it('is resumed when repeated, and can be undone until it has arrived', async () => {
    const rp = await engineAt('sqlite')
    const ticks = await rp.open(counter, 'x')
    await ticks.append({ type: 'added', by: 2 })
    await ticks.close()
    const target = await engineAt('postgres')
    for (let n = 0; n < 2; n++) {
      await rp.move('counter/x', join(folder, 'once.reprise'))
      await expect(rp.open(counter, 'x')).rejects.toEqual(code('NOT_FOUND'))
      await rp.moveBack('counter/x')
      await (await rp.open(counter, 'x')).close()
    }
    await rp.move('counter/x', join(folder, 'once.reprise'))
    await rp.move('counter/x', target)
    await rp.move('counter/x', target)
    const there = await target.open(counter, 'x')
    expect(there.state.total).toBe(2)
    await there.close()
    // The other place has it: reviving it here, or moving it to a third place, would create a second one.
    const store = await openSqlite(join(folder, 'third.db'), { namespace: 'default', hash: sha256 })
    const elsewhere = createEngine({ store }, { worker: 'third' })
    // Another namespace of the store that it went to is another place.
    const blue = await openPostgres(inject('postgresUrl'), { namespace: 'blue', schema, hash: sha256 })
    const other = createEngine({ store: blue, namespace: 'blue' }, { worker: 'blue' })
    engines.push(elsewhere, other)
    for (const twice of [
      () => rp.moveBack('counter/x'),
      () => rp.moveBack('counter/x', { other: target }),
      () => rp.move('counter/x', elsewhere),
      () => rp.move('counter/x', other),
      () => rp.move('counter/x', join(folder, 'twice.reprise')),
    ]) {
      await expect(twice()).rejects.toMatchObject({
        code: 'CONFLICT',
        message: expect.stringContaining('move it from there'),
      })
    }
    await expect(rp.open(counter, 'x')).rejects.toEqual(code('NOT_FOUND'))
    expect(await elsewhere.head('counter/x')).toBeNull()
    await target.move('counter/x', rp)
    expect((await rp.open(counter, 'x')).state.total).toBe(2)
  })

  it('to a file is not undone if the named store has imported the file', async () => {
    const rp = await engineAt('sqlite')
    await rp.open(counter, 'x').append({ type: 'added', by: 2 })
    const file = join(folder, 'once.reprise')
    await rp.move('counter/x', file)
    const target = await engineAt('postgres')
    await target.import(file)
    const there = await target.open(counter, 'x')
    await there.append({ type: 'added', by: 3 })
    await there.close()
    const revived = rp.moveBack('counter/x', { other: target })
    await expect(revived).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringContaining('move it from there'),
    })
    await target.delete('counter/x')
    await rp.moveBack('counter/x', { other: target })
    expect((await rp.open(counter, 'x')).state.total).toBe(2)
  })

  it('and a move back include the work done elsewhere; another history under the same id is refused', async () => {
    const rp = await engineAt('sqlite')
    const ticks = await rp.open(counter, 'x')
    await ticks.append({ type: 'added', by: 2 })
    await ticks.close()
    const target = await engineAt('postgres')
    await rp.move('counter/x', target)
    const there = await target.open(counter, 'x')
    await there.append({ type: 'added', by: 3 })
    await there.close()
    await rp.export({ timeline: 'counter/x', seq: 1 }, join(folder, 'old.reprise'))
    await target.move('counter/x', rp)
    const again = await rp.open(counter, 'x')
    await again.append({ type: 'added', by: 4 })
    expect(again.state.total).toBe(9)
    await again.close()
    await expect(target.open(counter, 'x')).rejects.toEqual(code('NOT_FOUND'))
    await rp.move('counter/x', join(folder, 'away.reprise'))
    const stranger = await engineAt('postgres')
    const other = await stranger.open(counter, 'y')
    for (let n = 0; n < 3; n++) await other.append({ type: 'added', by: 1 })
    await other.close()
    await stranger.export({ timeline: 'counter/y', seq: 3 }, join(folder, 'y.reprise'))
    await expect(rp.import(join(folder, 'y.reprise'), { as: 'counter/x' })).rejects.toThrow()
    expect((await rp.head('counter/x'))!.status).toBe('moved')
    expect((await rp.verify()).faults).toEqual([])
  })

  it.each([
    ['sqlite', 'postgres', false],
    ['postgres', 'sqlite', false],
    ['sqlite', 'postgres', true],
  ] as const)('away and back, from %s to %s (by a file: %s), unread mail stays unread', async (from, to, byFile) => {
    const box = workflow('box', async (ctx) => {
      const got: unknown[] = []
      while (got.at(-1) !== 'end') got.push(await ctx.signal('next'))
      return got
    })
    const id = 'workflow/box/b'
    let files = 0
    const go = async (source: Reprise, target: Reprise) => {
      for (const rp of [source, target]) rp.declare(workflowKind)
      const file = join(folder, `${files++}.reprise`)
      await source.move(id, byFile ? file : target)
      if (byFile) await target.import(file)
    }
    const signal = (rp: Reprise, value: unknown) => rp.send(id, 'signal', { name: 'next', value })
    const [rp, target] = [await engineAt(from), await engineAt(to)]
    await (await rp.run(box, { id: 'b', here: false })).started()
    for (const value of [1, 2]) await signal(rp, value)
    await go(rp, target)
    expect((await target.head(id))!.mail).toBe(2)
    await go(target, rp)
    expect((await rp.head(id))!.mail).toBe(2)
    await go(rp, target)
    target.work([box])
    await until(async () => (await target.head(id))!.mail === 0)
    await target.close()
    // Sent to the old place, and to the new one: both are unread when it returns; messages that were read there are not.
    await signal(rp, 'late')
    const again = await engineAt(to)
    await signal(again, 3)
    await go(again, rp)
    expect((await rp.head(id))!.mail).toBe(2)
    await signal(rp, 'end')
    rp.work([box])
    await until(async () => (await rp.head(id))!.status === 'completed')
    expect(await (await rp.run(box, { id: 'b' })).result()).toEqual([1, 2, 'late', 3, 'end'])
  })

  it('keeps commands that are sent to the old place, and a second move takes them along', async () => {
    const rp = await engineAt('sqlite')
    await (await rp.open(account, 'ann')).do('deposit', { amount: 1 })
    rp.work([account])
    const problems: unknown[] = []
    rp.events.on('problem', ({ error }) => problems.push(error))
    const target = await engineAt('postgres')
    await rp.move('events/account/ann', target)
    const marked = (await rp.head('events/account/ann'))!
    await sendCommand(rp, commandTo(account, 'ann', 'deposit', { amount: 2 }))
    // A command to another one is executed by the same worker, after the moved one was found due, or not.
    await sendCommand(rp, commandTo(account, 'bob', 'deposit', { amount: 3 }))
    await until(async () => (await rp.head('events/account/bob'))?.seq === 1)
    expect(await rp.head('events/account/ann')).toMatchObject({ status: 'moved', queue: null, epoch: marked.epoch })
    expect(problems).toEqual([])
    await rp.move('events/account/ann', target)
    target.work([account])
    const there = await target.open(account, 'ann')
    await there.do('deposit', { amount: 4 })
    await until(() => there.state.balance === 7)
    await there.close()
    // The old place keeps the command for a return, and carries it once: also if its id is forgotten where it was executed.
    await until(async () => (await target.head('events/account/ann'))!.mail === 0)
    await target.close()
    const later = await engineAt('postgres')
    await hostOf(later).kernel.store.upkeep.tidy(Date.now() + 60_000)
    await rp.move('events/account/ann', later)
    expect((await later.head('events/account/ann'))!.mail).toBe(0)
  })

  it.each([
    ['a store', 'done'],
    ['a file', 'unknown'],
  ])('to %s is known to a restored backup: the timeline is not revived there (arrival %s)', async (where, arrival) => {
    const [rp, target] = [await engineAt('sqlite'), await engineAt('postgres')]
    await (await rp.open(account, 'ann')).do('deposit', { amount: 1 })
    const id = 'events/account/ann'
    await sendCommand(rp, commandTo(account, 'ann', 'deposit', { amount: 2 }))
    const file = join(folder, 'away.reprise')
    await rp.move(id, arrival === 'done' ? target : file)
    await sendCommand(rp, commandTo(account, 'ann', 'deposit', { amount: 4 }))
    await rp.backup(join(folder, 'all.rpb'))
    const store = await openSqlite(join(folder, 'restored.db'), { namespace: 'default', hash: sha256 })
    const restored = createEngine({ store }, { worker: 'restored' })
    engines.push(restored)
    await restored.restore(join(folder, 'all.rpb'))
    expect(await restored.head(id)).toMatchObject({ status: 'moved', queue: null })
    await expect(restored.open(account, 'ann')).rejects.toMatchObject({ code: 'NOT_FOUND' })
    // It continues in the other store, and returns with all of its mail: mail read there is not read again.
    if (where === 'a file') await target.import(file)
    else await expect(restored.moveBack(id)).rejects.toEqual(code('CONFLICT'))
    target.work([account])
    await until(async () => (await target.head(id))!.seq === 2)
    await target.close()
    await (await engineAt('postgres')).move(id, restored)
    expect((await restored.head(id))!.mail).toBe(1)
    restored.work([account])
    await until(async () => (await restored.head(id))!.mail === 0)
    expect((await restored.open(account, 'ann')).state.balance).toBe(7)
  })

  it('is undone by an import of the timeline from its old place alone', async () => {
    const [rp, target] = [await engineAt('sqlite'), await engineAt('postgres')]
    const lane = workflow('lane', async (ctx) => await ctx.signal('go'))
    await (await rp.run(lane, { id: 'a', here: false })).started()
    for (const each of [rp, target]) each.declare(workflowKind)
    const id = 'workflow/lane/a'
    const { status, queue, seq } = (await rp.head(id))!
    await rp.move(id, join(folder, 'lost.reprise'))
    await rp.export({ timeline: id, seq }, join(folder, 'again.reprise'))
    await target.import(join(folder, 'again.reprise'))
    expect(await target.head(id)).toMatchObject({ status, queue })
  })

  it('leaves no unrequested savepoint behind, and includes requested ones', async () => {
    const [rp, target] = [await engineAt('sqlite'), await engineAt('postgres')]
    for (const id of ['x', 'kept']) {
      const open = await rp.open(counter, id)
      await open.append({ type: 'added', by: 4 })
      await open.close()
    }
    await rp.savepoint({ timeline: 'counter/kept', seq: 1 }, { label: 'mine' })
    for (const id of ['counter/x', 'counter/kept']) await rp.move(id, target)
    for (const place of [rp, target]) {
      const pinned = async (id: string) =>
        (await hostOf(place).kernel.store.checkpoints(timelineId(id))).flatMap((one) => (one.isPinned ? one.label : []))
      expect([await pinned('counter/x'), await pinned('counter/kept')]).toEqual([[], ['mine']])
      expect((await hostOf(place).kernel.store.checkpoints(timelineId('counter/x'))).length).toBe(1)
    }
    await target.delete('counter/x')
    await rp.delete('counter/x', { unfinished: true })
    await expect(target.delete('counter/kept')).rejects.toEqual(code('PINNED'))
  })

  it('is refused for what reads the feed of its store, and for a run that others wait for', async () => {
    const rp = await engineAt('sqlite')
    const target = await engineAt('postgres')
    const mail = consumer('mail', { from: ['counter/'], follow: false, each: () => undefined })
    await (await rp.run(mail)).result()
    await expect(rp.move('job/mail', target)).rejects.toEqual(code('INVALID_ARGUMENT'))
    // A program without the definition refuses as well: it would move a part and report all of it.
    await expect((await engineAt('sqlite')).move('job/mail', target)).rejects.toEqual(code('INVALID_ARGUMENT'))
    const child = workflow('child', (ctx) => ctx.signal('go'))
    const parent = workflow('parent', async (ctx) => await ctx.child(child, { id: 'c' }))
    await rp.run(parent, { id: 'p' })
    await until(async () => (await rp.head('workflow/child/c')) !== null)
    await rp.close()
    const mover = await engineAt('sqlite')
    mover.declare(workflowKind)
    await expect(mover.move('workflow/child/c', target)).rejects.toEqual(code('INVALID_ARGUMENT'))
  })
})
