// Readers of the feed beside timelines that arrived from elsewhere: a copy under another id, and a fork that was restored,
// moved or imported, start from the origin of another timeline. Readers verify them all the same, and treat them as forks:
// hidden unless the reader includes forks.

import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { timeline } from '../../src/index.ts'
import { aggregate, processManager, projection } from '../../src/layers/events/index.ts'
import { consumer } from '../../src/layers/job/index.ts'
import { collectSink, entrySource, httpSource, pipeline } from '../../src/layers/pipeline/index.ts'
import { added, counter } from '../support/definitions.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const folder = temporaryFolder('arrived')
let files = 0
const newFile = () => join(folder, `${++files}.file`)

async function add(rp: Reprise, id: string, count: number): Promise<void> {
  const open = await rp.open(counter, id)
  for (let n = 0; n < count; n++) await open.append(added(1))
  await open.close()
}

/** The entries that a consumer of this name has not read yet. */
async function consumed(rp: Reprise, name: string, forks = false): Promise<string[]> {
  const seen: string[] = []
  const each = ({ timeline, seq }: { timeline: string; seq: number }) => void seen.push(`${timeline}@${seq}`)
  await (await rp.run(consumer(name, { from: ['counter/'], follow: false, forks, each }))).result()
  return seen.sort()
}

async function piped(rp: Reprise): Promise<string[]> {
  const out = collectSink<string>()
  const flow = pipeline('flow', (p) =>
    p
      .from('in', entrySource([counter], { follow: false }))
      .map(({ timeline, seq }) => `${timeline}@${seq}`)
      .to('out', out),
  )
  await (await rp.run(flow)).result()
  return [...out.values].sort()
}

const own = ['counter/x@1', 'counter/x@2', 'counter/x@3']
const trial = ['counter/trial@1', 'counter/trial@2', 'counter/trial@3']

onEveryStore('readers of the feed', (world) => {
  /** Three entries, and a trial that left after the second and has one of its own. */
  async function withTrial(): Promise<Reprise> {
    const rp = await (await world()).engine()
    await add(rp, 'x', 3)
    await rp.fork({ timeline: 'counter/x', seq: 2 }, 'counter/trial')
    await add(rp, 'trial', 1)
    return rp
  }

  it('read a restored store with a fork, and take the fork for one', async () => {
    const rp = await withTrial()
    const file = newFile()
    await rp.backup(file)
    const restored = await (await world()).engine()
    await restored.restore(file)
    expect(await consumed(restored, 'all', true)).toEqual([...trial, ...own])
    expect(await consumed(restored, 'some')).toEqual(own)
    expect(await piped(restored)).toEqual(own)
    // A reader that did not read its beginning recognises it as well.
    await add(restored, 'trial', 1)
    await add(restored, 'x', 1)
    expect(await consumed(restored, 'some')).toEqual(['counter/x@4'])
    expect(await consumed(restored, 'all', true)).toEqual(['counter/trial@4', 'counter/x@4'])
  })

  it('take a fork that was rolled back after its restore for a fork', async () => {
    const rp = await withTrial()
    const file = newFile()
    await rp.backup(file)
    const restored = await (await world()).engine()
    await restored.restore(file)
    await restored.rollback({ to: { timeline: 'counter/trial', seq: 1 } })
    await add(restored, 'trial', 1)
    await restored.rollback({ to: { timeline: 'counter/x', seq: 2 } })
    expect(await consumed(restored, 'some')).toEqual(own.slice(0, 2))
    expect(await consumed(restored, 'all', true)).toEqual([...trial.slice(0, 2), ...own.slice(0, 2)])
  })

  it('read beside a copy under another id, and take it for a fork', async () => {
    const rp = await (await world()).engine()
    await add(rp, 'x', 3)
    const file = newFile()
    await rp.export({ timeline: 'counter/x', seq: 2 }, file)
    await rp.import(file, { as: 'counter/trial' })
    await add(rp, 'trial', 1)
    expect(await consumed(rp, 'some')).toEqual(own)
    expect(await consumed(rp, 'all', true)).toEqual([...trial, ...own])
  })

  it('take a copy whose history was trimmed for a fork', async () => {
    const brief = timeline('brief', {
      initial: () => 0,
      apply: (sum: number) => sum + 1,
      checkpoint: { every: 1 },
      retain: { checkpoints: 1, history: 'needed' },
    })
    const append = async (rp: Reprise, id: string, count: number) => {
      const open = await rp.open(brief, id)
      for (let n = 0; n < count; n++) {
        await open.append(added(1))
        await open.checkpoint()
      }
      await open.close()
    }
    const rp = await (await world()).engine()
    await append(rp, 'x', 3)
    const file = newFile()
    await rp.export({ timeline: 'brief/x', seq: 3 }, file)
    await rp.import(file, { as: 'brief/trial' })
    await append(rp, 'trial', 3)
    await rp.collect()
    expect((await rp.head('brief/trial'))?.floor).toBeGreaterThan(0)
    const seen = new Set<string>()
    const each = ({ timeline: id }: { timeline: string }) => void seen.add(id)
    await (await rp.run(consumer('brief', { from: ['brief/'], follow: false, each }))).result()
    expect([...seen]).toEqual(['brief/x'])
  })

  it('read beside a fork that was moved here, or imported', async () => {
    const rp = await withTrial()
    const file = newFile()
    await rp.export({ timeline: 'counter/trial', seq: 3 }, file)
    const imported = await (await world()).engine()
    await imported.import(file)
    const moved = await (await world()).engine()
    await rp.move('counter/trial', moved, { takeover: true })
    for (const there of [imported, moved]) {
      await add(there, 'y', 1)
      expect(await consumed(there, 'some')).toEqual(['counter/y@1'])
      expect(await consumed(there, 'all', true)).toEqual([...trial, 'counter/y@1'])
    }
  })

  it('build a projection of a restored store with a fork', async () => {
    const account = aggregate('account', {
      initial: () => 0,
      evolve: { paid: (sum: number, event: { type: 'paid'; cents: number }) => sum + event.cents },
      decide: { pay: (_: number, { cents }: { cents: number }) => ({ type: 'paid', cents }) },
    })
    const sum = projection('sum', {
      from: [account],
      initial: () => 0,
      on: { paid: (total, { cents }) => total + cents },
    })
    const rp = await (await world()).engine()
    const open = await rp.open(account, 'x')
    for (const cents of [1, 10]) await open.do('pay', { cents })
    await open.close()
    await rp.fork({ timeline: 'events/account/x', seq: 1 }, 'events/account/trial')
    const file = newFile()
    await rp.backup(file)
    const restored = await (await world()).engine()
    await restored.restore(file)
    const built = await restored.open(sum)
    await built.catchUp()
    expect(built.state).toBe(11)
    await built.close()
  })
})

onEveryStore('a reader of the feed that was exported', (world) => {
  const account = aggregate('account', {
    initial: () => 0,
    evolve: { paid: (sum: number, event: { type: 'paid'; cents: number }) => sum + event.cents },
    decide: { pay: (_: number, { cents }: { cents: number }) => ({ type: 'paid', cents }) },
  })
  const sum = projection('sum', {
    from: [account],
    initial: () => 0,
    on: { paid: (total, { cents }) => total + cents },
  })

  async function pay(rp: Reprise, id: string, count: number): Promise<void> {
    const open = await rp.open(account, id)
    for (let n = 0; n < count; n++) await open.do('pay', { cents: 1 })
    await open.close()
  }

  /** How many events each reader has handled since. */
  async function readAll(rp: Reprise): Promise<number[]> {
    const seen = [0, 0, 0]
    const each = () => void seen[0]!++
    await (await rp.run(consumer('reads', { from: [account], follow: false, each }))).result()
    const react = () => {
      seen[1]!++
      return undefined
    }
    const manager = await rp.open(processManager('manager', { from: [account], on: { paid: react } }))
    await manager.catchUp()
    await manager.close()
    const out = collectSink<unknown>()
    const flow = pipeline('flow', (p) => p.from('in', entrySource([account])).to('out', out))
    const run = await (await rp.run(flow)).started()
    const head = await rp.head('job/reads')
    // It stops with a checkpoint of where it is.
    await expect.poll(() => out.values.length, { timeout: 20_000 }).toBe(head!.attributes.done === 12 ? 12 : 9)
    await run.stop()
    seen[2] = out.values.length
    const built = await rp.open(sum)
    await built.catchUp()
    const { state } = built
    await built.close()
    return [...seen, state]
  }

  it('is refused in another store, and starts there from the beginning', async () => {
    const rp = await (await world()).engine()
    await pay(rp, 'a', 12)
    expect(await readAll(rp)).toEqual([12, 12, 12, 12])
    const posts = httpSource<number>('orders')
    const take = posts.handler(rp)
    await take(new Request('http://x/', { method: 'POST', body: '1' }))
    const taken = collectSink<number>()
    const orders = await (await rp.run(pipeline('orders', (p) => p.from('in', posts).to('out', taken)))).started()
    await expect.poll(() => taken.values.length, { timeout: 20_000 }).toBe(1)
    await orders.stop()
    const other = await (await world()).engine()
    await pay(other, 'z', 9)
    const ids = (await rp.list({ limit: 100 })).map(({ timeline }) => timeline)
    const reading = ids.filter((id) => /^(job|projection|process|pipeline)\//.test(id))
    expect(reading).toHaveLength(6)
    for (const timeline of reading) {
      const file = newFile()
      await rp.export({ timeline, seq: (await rp.head(timeline))!.seq }, file)
      await expect(other.import(file)).rejects.toMatchObject({ code: 'POSITION_GONE' })
      expect(await other.head(timeline)).toBeNull()
    }
    expect(await readAll(other)).toEqual([9, 9, 9, 9])
  })

  it('comes back into its own store, and reads on from where it was', async () => {
    const rp = await (await world()).engine()
    await add(rp, 'x', 2)
    expect(await consumed(rp, 'reads')).toHaveLength(2)
    const file = newFile()
    await rp.export({ timeline: 'job/reads', seq: (await rp.head('job/reads'))!.seq }, file)
    await rp.delete('job/reads')
    await rp.import(file)
    await add(rp, 'x', 1)
    expect(await consumed(rp, 'reads')).toEqual(['counter/x@3'])
  })
})
