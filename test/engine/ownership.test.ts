// Ownership: a new owner has a new epoch, and the previous owner can no longer write.

import { expect, it } from 'vitest'
import type { Reprise } from '../../src/index.ts'
import { added, counter } from '../support/definitions.ts'
import { pause } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

/** As a killed process: no farewell to the store. */
function abandon(engine: Reprise): void {
  hostOf(engine).kernel.worker.abandon()
}

onEveryStore('ownership', (world) => {
  it('A6.3, G3: after a takeover the old owner can neither append, nor publish, nor release', async () => {
    const w = await world()
    const [a, b] = [await w.engine({ worker: 'a' }), await w.engine({ worker: 'b' })]
    const old = await a.open(counter, 'shared')
    await old.append(added(1))
    await expect(b.open(counter, 'shared')).rejects.toEqual(code('OWNED'))
    const now = await b.open(counter, 'shared', { takeover: true })
    expect(now.coordinate.epoch).toBe(old.coordinate.epoch + 1)
    const fenced: string[] = []
    a.events.on('fenced', ({ timeline }) => fenced.push(timeline))
    await expect(old.checkpoint()).rejects.toEqual(code('FENCED'))
    await expect(old.append(added(100))).rejects.toEqual(code('FENCED'))
    expect(fenced).toEqual(['counter/shared'])
    await now.append(added(1))
    await old.close()
    await now.append(added(1))
    expect(now.state.total).toBe(3)
    expect(await b.checkpoints('counter/shared')).toEqual([])
  })

  it('waits for an owner that releases it', async () => {
    const w = await world()
    const [a, b] = [await w.engine(), await w.engine()]
    const held = await a.open(counter, 'x')
    await held.append(added(5))
    const waiting = b.open(counter, 'x', { wait: '20s' })
    await held.close()
    expect((await waiting).state.total).toBe(5)
  })

  it('an owner whose lease ran out is dead: it is taken over and its heartbeat is refused', async () => {
    const w = await world()
    const [a, b] = [await w.engine({ lease: 60 }), await w.engine()]
    const old = await a.open(counter, 'x')
    await old.append(added(1))
    abandon(a)
    const now = await b.open(counter, 'x', { wait: '20s' })
    await now.append(added(1))
    await expect(old.append(added(1))).rejects.toEqual(code('FENCED'))
    expect(now.state.total).toBe(2)
  })

  it('a worker of this host whose process is gone is recognised at once, whatever its lease', async () => {
    const w = await world()
    const isGone = (other: { process: string }) => other.process === 'gone'
    const a = await w.engine({ lease: '1h', ports: { identity: { host: 'here', process: 'gone' } } })
    const b = await w.engine({ ports: { identity: { host: 'here', process: 'alive' }, isGone } })
    const retired: string[] = []
    b.events.on('worker-retired', (event) => retired.push(event.because))
    await (await a.open(counter, 'x')).append(added(1))
    abandon(a)
    expect((await b.open(counter, 'x')).state.total).toBe(1)
    expect(retired).toHaveLength(1)
  })

  it('A6.3: a worker that was declared dead loses its timelines and continues under a new identity', async () => {
    const w = await world()
    const a = await w.engine({ lease: 90 })
    const old = await a.open(counter, 'x')
    const before = hostOf(a).kernel.worker.id
    await hostOf(a).kernel.store.retire([before])
    await new Promise<void>((resolve) => {
      a.events.on('worker-renewed', () => resolve())
    })
    await expect(old.append(added(1))).rejects.toEqual(code('FENCED'))
    expect(hostOf(a).kernel.worker.id).not.toBe(before)
    const again = await a.open(counter, 'x')
    await again.append(added(1))
    expect(again.state.total).toBe(1)
  })

  it('opened twice in one process it is shared, and free when both have closed', async () => {
    const w = await world()
    const [a, b] = [await w.engine(), await w.engine()]
    const [one, two] = await Promise.all([a.open(counter, 'x'), a.open(counter, 'x')])
    await Promise.all([one.append(added(1)), two.append(added(1))])
    expect([one.state.total, two.state.total]).toEqual([2, 2])
    await one.close()
    await two.append(added(1))
    await expect(b.open(counter, 'x')).rejects.toEqual(code('OWNED'))
    await two.close()
    expect((await b.open(counter, 'x')).state.total).toBe(3)
  })

  it('A7.2: heartbeat and progress are distinguished', async () => {
    const w = await world()
    const a = await w.engine({ lease: 60 })
    const c = await a.open(counter, 'x')
    await c.append(added(1))
    const look = async () => {
      await pause(5)
      return (await a.workers()).find((row) => row.id === hostOf(a).kernel.worker.id)!
    }
    let row = await look()
    while (row.progress === 0) row = await look()
    const { beatAt, progressAt } = row
    while (row.beatAt === beatAt) row = await look()
    expect(row.progressAt).toBe(progressAt)
    expect(row.isAlive).toBe(true)
  })

  it('G14: namespaces see nothing of each other', async () => {
    const w = await world()
    const [a, b] = [await w.engine({ namespace: 'one' }), await w.engine({ namespace: 'two' })]
    await (await a.open(counter, 'x')).append(added(1))
    expect(await b.head('counter/x')).toBeNull()
    expect(await b.list()).toEqual([])
    expect((await b.open(counter, 'x')).state.total).toBe(0)
  })
})
