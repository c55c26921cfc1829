// Deleting for good: the affected timelines are listed first, timelines that others need are refused, and nothing of a deleted
// one remains.

import { expect, it } from 'vitest'
import { timeline } from '../../src/index.ts'
import { consumer, job } from '../../src/layers/job/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state: { total: number }, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
})

onEveryStore('delete', (world) => {
  it('lists the affected data, refuses while it is owned, and leaves nothing behind', async () => {
    const engine = await (await world()).engine()
    const open = await engine.open(counter, 'a')
    for (let n = 0; n < 5; n++) await open.append({ type: 'added', by: 1 })
    await open.checkpoint()
    await engine.send('counter/a', 'hello', {})
    await expect(engine.delete('counter/a')).rejects.toMatchObject({ code: 'OWNED' })
    await open.close()
    const plan = await engine.delete('counter/a', { dryRun: true })
    expect(plan).toMatchObject({
      isDryRun: true,
      refusals: [],
      timelines: [{ timeline: 'counter/a', because: 'asked for', entries: 5, checkpoints: 1, mail: 1 }],
    })
    expect(await engine.head('counter/a')).not.toBeNull()
    await engine.delete('counter/a')
    expect(await engine.head('counter/a')).toBeNull()
    expect(await engine.checkpoints('counter/a')).toEqual([])
    expect((await engine.verify()).faults).toEqual([])
    await expect(engine.delete('counter/a')).rejects.toMatchObject({ code: 'NOT_FOUND' })
    // The id is free again, and begins anew.
    const again = await engine.open(counter, 'a')
    expect([again.state.total, (await engine.head('counter/a'))!.mail]).toEqual([0, 0])
  })

  it('includes archives, refuses while a fork shares its history, and includes forks on request', async () => {
    const engine = await (await world()).engine()
    const open = await engine.open(counter, 'a')
    for (let n = 0; n < 6; n++) await open.append({ type: 'added', by: 1 })
    await open.close()
    await engine.rollback({ to: { timeline: 'counter/a', seq: 4 } })
    await engine.rollback({ to: { timeline: 'counter/a', seq: 2 } })
    await engine.fork({ timeline: 'counter/a', seq: 1 }, 'counter/what-if')
    await expect(engine.delete('counter/a')).rejects.toMatchObject({ code: 'PINNED' })
    const plan = await engine.delete('counter/a', { dryRun: true, forks: true })
    expect(plan.refusals).toEqual([])
    const order = plan.timelines.map((each) => `${each.timeline} ${each.because}`)
    expect([...order].sort()).toEqual([
      'counter/a asked for',
      'counter/a~1 archive',
      'counter/a~2 archive',
      'counter/what-if fork',
    ])
    await engine.delete('counter/a', { forks: true })
    expect(await engine.list({ prefix: 'counter/' })).toEqual([])
    expect((await engine.verify()).faults).toEqual([])
  })

  it('needs confirmation for savepoints and unfinished runs, and includes cursors', async () => {
    const engine = await (await world()).engine()
    const open = await engine.open(counter, 'a')
    await open.append({ type: 'added', by: 1 })
    await open.close()
    await engine.savepoint({ timeline: 'counter/a', seq: 1 }, { label: 'before' })
    await expect(engine.delete('counter/a')).rejects.toMatchObject({ code: 'PINNED' })
    await engine.delete('counter/a', { savepoints: true })
    expect(await engine.head('counter/a')).toBeNull()

    const stopped = job('half', { source: [1, 2, 3], each: (n: number) => void (n === 2 && run.stop()) })
    const run = await engine.run(stopped)
    await run.result()
    await expect(engine.delete('job/half')).rejects.toMatchObject({ code: 'CONFLICT' })
    await engine.delete('job/half', { unfinished: true })

    const reads = consumer('reads', { from: [counter], follow: false, each: () => undefined })
    await (await engine.run(reads)).result()
    const plan = await engine.delete('job/reads', { dryRun: true })
    expect(plan.timelines[0]!.cursors).toEqual(['consumer/reads'])
    await engine.delete('job/reads')
    expect(await hostOf(engine).kernel.store.cursors()).toEqual([])
  })
})
