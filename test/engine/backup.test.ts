// A backup of a whole store and its restore into another, of another kind: all timelines of all models are complete, and
// waiting runs continue. Damage in the file is found before any of it is used.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, inject, it } from 'vitest'
import { open, timeline } from '../../src/index.ts'
import { consumer, job } from '../../src/layers/job/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { pause, temporaryFolder } from '../support/fixture.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'

const folder = temporaryFolder('backup')
const schema = newSchemaName()
const postgres = () => {
  const url = new URL(inject('postgresUrl'))
  url.searchParams.set('schema', schema)
  return url.href
}
afterAll(async () => {
  await dropSchema(inject('postgresUrl'), schema)
})

const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state: { total: number }, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
})
const items = job('items', { source: ['a', 'b'], each: () => undefined })
const waits = workflow('waits', async (ctx, n: number) => n + (await ctx.signal<number>('more')))
const sessions = table<number>('sessions')
const weights = save<{ step: number }>('weights', { keep: 2 })
const reads = consumer('reads', { from: ['job/items'], follow: false, each: () => undefined })

async function fill(url: string) {
  const rp = await open(url)
  const c = await rp.open(counter, 'c')
  for (let n = 1; n <= 5; n++) await c.append({ type: 'added', by: n })
  await c.checkpoint()
  await c.close()
  await rp.rollback({ to: { timeline: 'counter/c', seq: 4 } })
  await rp.fork({ timeline: 'counter/c', seq: 2 }, 'counter/fork')
  await (await rp.run(items)).result()
  await (await rp.run(reads)).result()
  const t = await rp.open(sessions)
  await t.set('x', 7)
  const w = await rp.open(weights)
  await w.put({ step: 1 })
  await w.putStream([new Uint8Array(100_000).fill(7)], { step: 2 })
  await rp.run(waits, 40, { id: 'one' })
  await pause(400)
  await rp.send('workflow/waits/one', 'signal', { name: 'more', value: 2 })
  await rp.close()
}

/** Without the note that records the generation of a timeline after a rollback: it no longer rests on an archive. */
const shown = ({ timeline, seq, digest, status, queue, priority, wakeup, mail, attributes: all }: Head) => ({
  ...{
    timeline,
    seq,
    status,
    queue,
    priority,
    wakeup,
    mail,
    attributes: { ...all, $identity: undefined, $inherited: undefined, $original: undefined },
  },
  digest: Buffer.from(digest).toString('hex'),
})
type Head = Awaited<ReturnType<Awaited<ReturnType<typeof open>>['list']>>[number]

describe('a backup', () => {
  it('of SQLite is restored to PostgreSQL and back, with everything that waits', async () => {
    const from = `sqlite:${join(folder, 'from.db')}`
    await fill(from)
    let url = from
    let before: ReturnType<typeof shown>[] = []
    for (const [n, to] of [postgres(), `sqlite:${join(folder, 'back.db')}`].entries()) {
      const source = await open(url)
      const file = join(folder, `${n}.rpb`)
      const report = await source.backup(file)
      if (n === 0) expect(report.leftOut.map((each) => each.timeline)).toEqual(['job/reads'])
      const left = new Set(report.leftOut.map((each) => each.timeline))
      const heads = (await source.list()).filter(({ timeline }) => !left.has(timeline) && timeline !== 'reprise/store')
      before = heads.map(shown)
      expect(report.timelines).toBe(before.length)
      await source.close()
      const target = await open(to)
      expect(await target.restore(file)).toMatchObject({ timelines: before.length, before: 0 })
      // The restore's own note belongs to that store alone.
      const there = (await target.list()).filter((head) => !head.timeline.startsWith('reprise/'))
      expect(there.map(shown)).toEqual(before)
      expect(await target.changes()).toEqual([])
      expect((await target.verify()).faults).toEqual([])
      // A repetition has nothing left to do.
      expect(await target.restore(file)).toMatchObject({ timelines: before.length, before: before.length })
      await target.close()
      url = to
    }
    const rp = await open(url)
    expect((await rp.open(counter, 'c')).state.total).toBe(10)
    expect((await rp.open(counter, 'fork')).state.total).toBe(3)
    expect((await rp.open(sessions)).get('x')).toBe(7)
    const latest = await weights.read(rp).latest()
    expect(latest.value.step).toBe(2)
    expect(await (await rp.run(items)).result()).toMatchObject({ done: 0, skipped: 2 })
    expect(await (await rp.run(waits, 40, { id: 'one' })).result({ timeout: '4m' })).toBe(42)
    await rp.close()
  })

  it('is refused by a store that is not empty, and when it is damaged or cut off', async () => {
    const file = join(folder, '0.rpb')
    const other = await open('memory:')
    const c = await other.open(counter, 'mine')
    await c.append({ type: 'added', by: 1 })
    await c.close()
    await expect(other.restore(file)).rejects.toMatchObject({ code: 'EXISTS' })
    await other.close()
    const whole = readFileSync(file)
    const empty = await open('memory:')
    for (const at of [0, 20, Math.floor(whole.length / 2), whole.length - 1]) {
      const flipped = Buffer.from(whole)
      flipped[at]! ^= 1
      writeFileSync(join(folder, 'bad.rpb'), flipped)
      await expect(empty.restore(join(folder, 'bad.rpb'))).rejects.toMatchObject({ code: 'NOT_A_SAVEPOINT' })
      writeFileSync(join(folder, 'bad.rpb'), whole.subarray(0, at))
      await expect(empty.restore(join(folder, 'bad.rpb'))).rejects.toMatchObject({ code: 'NOT_A_SAVEPOINT' })
    }
    expect(await empty.list()).toEqual([])
    await empty.close()
  })
})
