// Policies about stored data are stored with that data: tools follow the stored policy, code with another policy changes it
// when it takes the timeline, which is recorded, and a timeline of another kind is refused.

import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { keepLog } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { storedPolicyOf } from '../../src/engine/checkpoint/stored-policy.ts'
import { timeline } from '../../src/index.ts'
import { consumer, job } from '../../src/layers/job/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { stateStore, table } from '../../src/layers/table/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

const counter = (retain: object) =>
  timeline('counter', {
    initial: () => 0,
    apply: (n, _entry: { type: 'tick' }) => n + 1,
    checkpoint: { every: 2 },
    retain,
  })

async function tick(rp: Reprise, retain: object, times: number): Promise<void> {
  const open = await rp.open(counter(retain), 'x')
  for (let n = 0; n < times; n++) {
    await open.append({ type: 'tick' })
    await open.checkpoint()
  }
  await rp.close()
}

const stored = async (rp: Reprise, id: string) => storedPolicyOf((await rp.head(id))!.attributes)

onEveryStore('a stored policy', (world) => {
  it('is what collect goes by, in a process that knows nothing and in one that would keep less', async () => {
    const w = await world()
    await tick(await w.engine(), { checkpoints: 5 }, 8)
    const nobody = await w.engine()
    expect((await nobody.collect()).timelines.map((each) => each.timeline)).toEqual(['counter/x'])
    expect(await nobody.checkpoints('counter/x')).toHaveLength(5)
    const frugal = await w.engine()
    hostOf(frugal).register('counter/', counter({ checkpoints: 2, history: 'needed' }).fold as never)
    await frugal.collect()
    expect(await frugal.checkpoints('counter/x')).toHaveLength(5)
    expect((await frugal.head('counter/x'))!.floor).toBe(0)
  })

  it('is named with its origin by the recovery card, as are those that are not stored', async () => {
    const w = await world()
    await tick(await w.engine(), { checkpoints: 5 }, 1)
    const rp = await w.engine()
    await declareKinds(rp)
    const settings = async (id: string) =>
      (await rp.card(id)).settings.map(({ name, value, from }) => [name, value, from])
    expect(await settings('counter/x')).toEqual([
      ['retain', { checkpoints: 5 }, 'stored'],
      ['checkpoint', { every: 2 }, 'stored'],
    ])
    await rp.run(
      workflow('one', async () => 1),
      { id: 'a' },
    )
    const next = await w.engine()
    expect((await next.card('workflow/one/a')).settings).toEqual([])
    await declareKinds(next)
    const { settings: ofRun } = await next.card('workflow/one/a')
    expect(ofRun.map(({ name, from }) => [name, from])).toEqual([
      ['retain', 'kind'],
      ['checkpoint', 'kind'],
    ])
  })

  it('is changed by the code that takes the timeline, and the change records the previous one', async () => {
    const w = await world()
    await tick(await w.engine(), { checkpoints: 5 }, 8)
    const rp = await w.engine()
    keepLog(rp)
    const changes: unknown[] = []
    rp.events.on('declared', (change) => changes.push(change))
    await tick(rp, { checkpoints: 2 }, 1)
    const next = await w.engine()
    expect(changes).toHaveLength(1)
    expect((await next.log({ kind: 'policy' })).map((report) => report.timeline)).toEqual(['counter/x'])
    expect(await stored(next, 'counter/x')).toMatchObject({
      retain: { checkpoints: 2 },
      changed: { from: { retain: { checkpoints: 5 } }, at: expect.any(Number), by: expect.any(String) },
    })
    await next.collect()
    expect(await next.checkpoints('counter/x')).toHaveLength(2)
    // Opened again by the same code, it stays as it is.
    const before = await stored(next, 'counter/x')
    await tick(next, { checkpoints: 2 }, 1)
    expect(await stored(await w.engine(), 'counter/x')).toEqual(before)
  })

  it('is stored by shared handles too, and a moved timeline takes no more of their writes', async () => {
    const w = await world()
    const rp = await w.engine()
    const shared = await rp.open(counter({ checkpoints: 5 }), 'x', { shared: true })
    await shared.append({ type: 'tick' })
    const stale = await (await w.engine()).open(counter({ checkpoints: 5 }), 'x', { shared: true })
    expect(await stored(rp, 'counter/x')).toMatchObject({ kind: 'timeline', retain: { checkpoints: 5 } })
    const other = await w.engine()
    const again = await other.open(counter({ checkpoints: 2 }), 'x', { shared: true })
    await again.append({ type: 'tick' })
    expect(await stored(rp, 'counter/x')).toMatchObject({ retain: { checkpoints: 2 } })
    await other.move('counter/x', join(mkdtempSync(join(tmpdir(), 'reprise-declared-')), 'moved.file'))
    await expect(stale.append({ type: 'tick' })).rejects.toThrow(code('NOT_FOUND'))
    const late = await w.engine()
    await expect(late.open(counter({ checkpoints: 2 }), 'x', { shared: true })).rejects.toThrow(code('NOT_FOUND'))
    expect((await late.head('counter/x'))!.seq).toBe(2)
  })

  it('holds for the archives and goes along with forks', async () => {
    const w = await world()
    await tick(await w.engine(), { checkpoints: 5 }, 8)
    const rp = await w.engine()
    hostOf(rp).register('counter/', counter({ checkpoints: 5 }).fold as never)
    await rp.rollback({ to: { timeline: 'counter/x', seq: 4 } })
    await rp.fork({ timeline: 'counter/x', seq: 3 }, 'fork')
    const nobody = await w.engine()
    await nobody.collect()
    expect(await nobody.checkpoints('counter/x~1')).toHaveLength(5)
    expect(await stored(nobody, 'counter/fork')).toMatchObject({ retain: { checkpoints: 5 } })
  })

  it('is always stored for jobs and saves, and omitted where a kind has its usual one', async () => {
    const w = await world()
    const rp = await w.engine()
    await (await rp.run(job('night', { source: ['1'], key: (item) => item, each: () => undefined }))).result()
    await (await rp.open(save<number>('weights', { keep: 7 }))).put(1)
    await (await rp.open(table<number>('rows'))).set('k', 1)
    await (await rp.open(table<number>('few', { retain: { checkpoints: 9 } }))).set('k', 1)
    expect(await stored(rp, 'job/night')).toMatchObject({ kind: 'job' })
    expect(await stored(rp, 'save/weights')).toMatchObject({ kind: 'save', retain: { checkpoints: 7 } })
    expect(await stored(rp, 'table/rows')).toBeNull()
    expect(await stored(rp, 'table/few')).toMatchObject({ kind: 'table', retain: { checkpoints: 9 } })
  })

  it('that is unknown leaves a timeline unchanged, and the report gives the reason', async () => {
    const w = await world()
    const rp = await w.engine()
    await (await rp.open(table<number>('rows'))).set('k', 1)
    await rp.close()
    const report = await (await w.engine()).collect()
    expect(report.timelines).toEqual([])
    expect(report.unknown).toMatchObject([{ timeline: 'table/rows', because: expect.stringContaining('not known') }])
  })
})

onEveryStore('one id', (world) => {
  const items = { source: ['1'], key: (item: string) => item, each: () => undefined }

  it('is not a job and a consumer: neither in one process nor in two', async () => {
    const w = await world()
    const rp = await w.engine()
    const mail = consumer('mail', { from: ['log'], follow: false, each: () => undefined })
    await (await rp.run(job('mail', items))).result()
    await expect(rp.run(mail)).rejects.toEqual(code('INVALID_ARGUMENT'))
    await rp.close()
    const other = await w.engine()
    await expect((await other.run(mail)).result()).rejects.toEqual(code('CONFLICT'))
    expect((await hostOf(other).kernel.store.cursors()).map((cursor) => cursor.name)).toEqual([])
    expect(await stored(other, 'job/mail')).toMatchObject({ kind: 'job' })
  })

  it('is not a table and a partition of a state store', async () => {
    const w = await world()
    const rp = await w.engine()
    await rp.open(stateStore<number>('counts', { partitions: 2 }))
    await rp.close()
    const other = await w.engine()
    await expect(other.open(table<number>('counts', { retain: { checkpoints: 9 } }), 'p0')).rejects.toEqual(
      code('CONFLICT'),
    )
  })
})

onEveryStore('an id', (world) => {
  it('for one table of many is built by segments, for at and follow too', async () => {
    const w = await world()
    const rp = await w.engine()
    const rows = table<number>('rows')
    const ann = await rp.open(rows, 'ann')
    await ann.set('k', 1)
    await (await rp.open(rows)).set('k', 2)
    expect((await rp.at(rows, 'ann', { seq: 1 })).coordinate.timeline).toBe('table/rows/ann')
    expect((await rp.at(rows, undefined, { seq: 1 })).coordinate.timeline).toBe('table/rows')
    const replica = await rp.follow(rows, 'ann')
    expect(replica.state.rows.get('k')).toBe(1)
    replica.close()
    const standby = await rows.standby(rp, 'ann')
    expect(standby.get('k')).toBe(1)
    standby.close()
  })
})

it('a raw timeline cannot have the name of a kind', () => {
  const make = (name: string) => () => timeline(name, { initial: () => 0, apply: (n, _e: { type: 'x' }) => n })
  for (const name of ['workflow', 'job', 'table', 'save', 'events', 'workflow-queue', 'langgraph', 'reprise']) {
    expect(make(name), name).toThrow(code('INVALID_ARGUMENT'))
  }
  expect(make('workflows')).not.toThrow()
})

onEveryStore('a cursor that holds history', (world) => {
  it('is named by the card and by the dry run, and collect keeps its data', async () => {
    const w = await world()
    const rp = await w.engine()
    const frugal = counter({ checkpoints: 2, history: 'needed' })
    const open = await rp.open(frugal, 'x')
    const mail = consumer('mail', { from: [frugal], follow: false, each: () => undefined })
    await open.append({ type: 'tick' })
    await (await rp.run(mail)).result()
    for (let n = 0; n < 6; n++) {
      await open.append({ type: 'tick' })
      await open.checkpoint()
    }
    const card = await rp.card('counter/x')
    expect(card.floor.heldBy).toContainEqual(
      expect.objectContaining({ what: expect.stringContaining('consumer/mail') }),
    )
    expect(card.floor.because).toContain('consumer/mail')
    const [planned] = (await rp.collect({ dryRun: true, timelines: ['counter/x'] })).timelines
    expect(planned!.floor.because).toContain('consumer/mail')
    expect(planned!.floor.seq).toBe(1)
    const [done] = (await rp.collect({ timelines: ['counter/x'] })).timelines
    expect(done).toMatchObject({ floor: planned!.floor, refused: [] })
    expect((await rp.head('counter/x'))!.floor).toBe(1)
    await (await rp.run(mail)).result()
    const [after] = (await rp.collect({ dryRun: true, timelines: ['counter/x'] })).timelines
    expect(after!.floor.seq).toBeGreaterThan(1)
    expect((await rp.card('counter/x')).floor.heldBy).not.toContainEqual(
      expect.objectContaining({ what: expect.stringContaining('consumer/mail') }),
    )
  })
})
