// A store that goes back to an older copy of itself: a failover to a lagging replica, a restored backup, a file put back. A
// process that remembers the newer history must not write into the older one.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { feedStart, open, type Reprise } from '../../src/index.ts'
import { added, counter } from '../support/definitions.ts'
import { hostOf } from '../support/host.ts'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })
const engines: Reprise[] = []

describe('a failover of PostgreSQL to an older copy', () => {
  let server: TestPostgres
  beforeAll(async () => {
    server = await startPostgres()
  })
  afterAll(async () => {
    await Promise.all(engines.splice(0).map((engine) => engine.close()))
    await server.stop()
  })

  async function engine(worker: string): Promise<Reprise> {
    const opened = await open(server.url, { worker, lease: 60_000 })
    engines.push(opened)
    return opened
  }

  /** Two owners under the same epoch and at the same sequence: one of the lost copy, one of the current copy. */
  async function diverged(id: string) {
    const first = await engine(`first-${id}`)
    const handle = await first.open(counter, id)
    await handle.append(added(1))
    await handle.close()
    const failover = await server.copy()
    const left = await engine(`left-${id}`)
    const abandoned = await left.open(counter, id)
    await abandoned.append(added(10))
    await abandoned.append(added(100))
    await failover()
    const owner = await engine(`owner-${id}`)
    const handleNow = await owner.open(counter, id)
    await handleNow.append(added(1000))
    await handleNow.append(added(10_000))
    expect(handleNow.coordinate).toMatchObject({ epoch: abandoned.coordinate.epoch, seq: abandoned.coordinate.seq })
    expect(handleNow.coordinate.digest).not.toBe(abandoned.coordinate.digest)
    return { left, abandoned, handle: handleNow, owner }
  }

  async function expectHealthy(owner: Reprise, id: string, total: number): Promise<void> {
    expect(await owner.verify({ timelines: [`counter/${id}`] })).toMatchObject({ ok: true, faults: [] })
    const fresh = await engine(`fresh-${id}`)
    const handle = await fresh.open(counter, id, { takeover: true })
    expect(handle.state.total).toBe(total)
  }

  it('G3: an append by the owner that was left behind is a CONFLICT, and history stays whole', async () => {
    const { abandoned, handle, owner } = await diverged('append')
    await expect(abandoned.append(added(5))).rejects.toEqual(code('CONFLICT'))
    await handle.append(added(1))
    await expectHealthy(owner, 'append', 11_002)
  })

  it('G3: so is every other change under its guard, and the owner of now is not disturbed', async () => {
    const { left, abandoned, handle, owner } = await diverged('changes')
    const shared = await hostOf(left).openTimeline(timelineId('counter/changes'), counter.fold)
    const before = await owner.head('counter/changes')
    const changes = [
      { status: 'haunted', attributes: { haunted: true } },
      { wakeup: 1, queue: 'crypt' },
      { cursors: { reader: feedStart } },
      { release: true },
      { trim: { seq: 1, digest: new Uint8Array(32), restsOn: [] } },
    ]
    for (const change of changes) await expect(shared.write([], change)).rejects.toEqual(code('CONFLICT'))
    await expect(abandoned.checkpoint()).rejects.toEqual(code('CONFLICT'))
    // An entry with more than itself takes another way into the database than an entry alone.
    const more = shared.write([{ type: 'added', data: { by: 1 } }], { status: 'x' })
    await expect(more).rejects.toEqual(code('CONFLICT'))
    await abandoned.close()
    expect(await owner.head('counter/changes')).toEqual(before)
    expect(await owner.checkpoints('counter/changes')).toEqual([])
    await handle.append(added(1))
    await expectHealthy(owner, 'changes', 11_002)
  })

  it('G3: a batch of many timelines refuses those that were left behind and takes the others', async () => {
    const left = await engine('left')
    for (const id of ['b1', 'b2', 'b3']) await (await left.open(counter, id)).append(added(1))
    await left.close()
    const failover = await server.copy()
    const before = await engine('before')
    const handles = await Promise.all(['b1', 'b2', 'b3'].map((id) => before.open(counter, id)))
    await Promise.all([handles[0]!.append(added(10)), handles[1]!.append(added(10))])
    await failover()
    const now = await engine('now')
    for (const id of ['b1', 'b2', 'b3']) {
      const handle = await now.open(counter, id)
      if (id !== 'b3') await handle.append(added(100))
    }
    const outcomes = await Promise.allSettled(handles.map((handle) => handle.append(added(1000))))
    expect(outcomes).toMatchObject([
      { status: 'rejected', reason: { code: 'CONFLICT' } },
      { status: 'rejected', reason: { code: 'CONFLICT' } },
      // The same history on both sides: they are indistinguishable, and nothing is broken.
      { status: 'fulfilled' },
    ])
    await expectHealthy(now, 'b1', 101)
    await expectHealthy(now, 'b2', 101)
    await expectHealthy(now, 'b3', 1001)
  })
})
