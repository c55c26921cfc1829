// Collection beside captures: chunks of running captures are kept, chunks that were removed nevertheless are put again, and a
// checkpoint that a paused process publishes is whole.

import { expect, it } from 'vitest'
import { type Digest, toHex, type WorkerId } from '../../src/core/coordinate.ts'
import type { Store } from '../../src/core/store/ports.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { ChunkHold } from '../../src/engine/storage/chunk-hold.ts'
import { timeline } from '../../src/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { pagedTable, table } from '../../src/layers/table/index.ts'
import { pause } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const text = timeline('text', {
  initial: () => '',
  apply: (_, entry: { type: 'wrote'; text: string }) => entry.text,
})
const paged = pagedTable<Uint8Array>('rows')
const weights = save<Uint8Array>('weights', { keep: 2 })

function noise(seed: number, length = 40_000): Uint8Array {
  let x = seed * 2654435761 + 1
  return new Uint8Array(length).map(() => {
    x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9
    return x >>> 16
  })
}

/** Calls once, between the last chunk and the publication: as long as a process may be away. */
function beforePublication(engine: Reprise, call: () => Promise<unknown>): { tries: number } {
  const { store } = hostOf(engine).kernel
  const commit = store.commit.bind(store)
  const seen = { tries: 0 }
  store.commit = (async (commits: Parameters<Store['commit']>[0]) => {
    if (!commits.some((one) => one.publish?.length)) return await commit(commits)
    seen.tries += 1
    if (seen.tries === 1) await call()
    return await commit(commits)
  }) as Store['commit']
  return seen
}

onEveryStore('collection', (world) => {
  it('A4.5: chunks of a capture under way are not collected, by whomever; afterwards they are', async () => {
    const at = await world()
    const [rp, other] = [await at.engine(), await at.engine()]
    const bytes = noise(1)
    const hold = await ChunkHold.begin(hostOf(rp).kernel)
    await hold.blobs.put([{ digest: hostOf(rp).kernel.hash(bytes), bytes }])
    expect((await rp.collect()).chunks).toMatchObject({ swept: 0, tooYoung: 1 })
    await hostOf(rp).kernel.worker.beatNow()
    expect((await other.collect()).chunks).toMatchObject({ swept: 0, tooYoung: 1 })
    hold.end()
    await hostOf(rp).kernel.worker.beatNow()
    await pause(50)
    await hostOf(other).kernel.worker.beatNow()
    expect((await other.collect()).chunks).toMatchObject({ swept: 1 })
  })

  it('A4.5: a worker that does not report its captures, as earlier versions do not, gets the grace period', async () => {
    const at = await world()
    const rp = await at.engine()
    const { store, hash, worker } = hostOf(rp).kernel
    const earlier = {
      id: 'earlier~1' as WorkerId,
      name: 'earlier',
      host: 'h',
      process: 'p',
      leaseMs: 1,
      info: {},
      progress: 0,
    }
    await store.beat(earlier)
    await store.blobs.put([{ digest: hash(noise(1)), bytes: noise(1) }])
    // Its lease is over by then; it may be back all the same.
    await pause(50)
    expect((await rp.collect()).chunks).toMatchObject({ swept: 0, tooYoung: 1 })
    await store.beat({ ...earlier, info: { captures: 'none' } })
    await worker.beatNow()
    expect((await rp.collect()).chunks).toMatchObject({ swept: 1 })
  })

  it('A4.5: a checkpoint whose chunks were collected before it was published is made again, and is whole', async () => {
    const at = await world()
    const [rp, other] = [await at.engine(), await at.engine()]
    const open = await rp.open(text, 'x')
    await open.append({ type: 'wrote', text: Buffer.from(noise(1)).toString('base64') })
    const seen = beforePublication(rp, () => other.collect({ graceMs: -1000 }))
    const renewed: number[] = []
    rp.events.on('chunks-renewed', ({ missing }) => renewed.push(missing))
    await open.checkpoint()
    expect(seen.tries).toBeGreaterThan(1)
    expect(renewed[0]).toBeGreaterThan(0)
    expect((await rp.verify()).faults).toEqual([])
    expect((await rp.drill()).results).toMatchObject([{ ok: true }])
  })

  it('A4.5: a savepoint aside, a save, a paged table: none of them is published over chunks that are gone', async () => {
    const at = await world()
    const [rp, other] = [await at.engine(), await at.engine()]
    const open = await rp.open(text, 'x')
    await open.append({ type: 'wrote', text: Buffer.from(noise(2)).toString('base64') })
    await open.close()
    const collectAll = () => other.collect({ graceMs: -1000 })
    beforePublication(rp, collectAll)
    await rp.savepoint({ timeline: 'text/x', seq: 1 })
    const series = await rp.open(weights)
    beforePublication(rp, collectAll)
    await series.put(noise(3))
    expect((await series.latest()).value).toEqual(noise(3))
    // A stream was read and cannot be read again: its owner has to send it again.
    beforePublication(rp, collectAll)
    await expect(series.putStream(noise(4))).rejects.toMatchObject({ code: 'CONTENDED' })
    expect((await series.latest()).value).toEqual(noise(3))
    const rows = await rp.open(paged)
    for (let n = 0; n < 20; n++) await rows.set(`k${n}`, noise(n, 4000))
    beforePublication(rp, collectAll)
    await rows.checkpoint()
    await rows.close()
    const again = await other.open(paged, undefined, { takeover: true })
    expect(await again.get('k7')).toEqual(noise(7, 4000))
    expect((await rp.verify()).faults).toEqual([])
  })

  it('A4.5: who reads a save that goes away meanwhile gets a newer one', async () => {
    const at = await world()
    const [rp, other] = [await at.engine(), await at.engine()]
    const series = await rp.open(weights)
    await series.put(noise(1))
    const { blobs } = hostOf(other).kernel.store
    const get = blobs.get.bind(blobs)
    let reads = 0
    blobs.get = async (digests) => {
      reads += 1
      if (reads === 1) {
        for (const n of [2, 3, 4]) await series.put(noise(n))
        await rp.collect({ graceMs: -1000 })
      }
      return await get(digests)
    }
    expect((await weights.read(other).latest()).value).toEqual(noise(4))
  })

  it('A4.5: existing chunks are only touched, and a later publication of them is not swept', async () => {
    const at = await world()
    const [rp, other] = [await at.engine(), await at.engine()]
    const series = await rp.open(weights)
    await series.put(noise(1))
    const mark = async () =>
      await hostOf(other).kernel.store.sweepMark(
        (await hostOf(other).kernel.store.sweepMark()) + 3_600_000 + Date.now(),
      )
    const seen = beforePublication(rp, mark)
    const renewed: { chunks: number; missing: number }[] = []
    rp.events.on('chunks-renewed', (event) => renewed.push(event))
    await series.put(noise(2))
    expect(seen.tries).toBe(2)
    expect(renewed).toMatchObject([{ missing: 0 }])
    // The mark is in the future, as after a clock that was set back: work continues.
    await series.put(noise(3))
    await series.put(noise(4))
    await other.collect()
    expect((await series.latest()).value).toEqual(noise(4))
    expect((await rp.verify()).faults).toEqual([])
  })

  it('A4.5: while any chunk is unreachable others are collected; when it is back, everything is complete', async () => {
    const rp = await (await world()).engine({ redundancy: false })
    const kept = await rp.open(weights)
    for (let n = 1; n <= 2; n++) await kept.put(noise(n, 3_000_000))
    const rows = await rp.open(table<string>('numbers', { checkpoint: { every: 1000 } }))
    for (let n = 0; n < 1000; n++) rows.set(`${n}`, toHex(noise(n, 400)))
    await rows.checkpoint()
    const { blobs } = hostOf(rp).kernel.store
    // A collection reads only chunks that refer to others.
    const inner: Digest[] = []
    const get = blobs.get.bind(blobs)
    blobs.get = async (digests) => {
      inner.push(...digests)
      return await get(digests)
    }
    await rp.collect()
    blobs.get = get
    let held = 0
    for (const digest of inner) {
      const [bytes] = await blobs.get([digest])
      await blobs.delete([digest], Number.MAX_SAFE_INTEGER)
      const { unreadable, swept } = (await rp.collect({ graceMs: -60_000 })).chunks
      if (unreadable.length > 0) held += 1
      expect(unreadable.length === 0 || swept === 0).toBe(true)
      await blobs.put([{ digest, bytes: bytes! }])
    }
    expect(held).toBeGreaterThan(0)
    expect(await rp.verify()).toMatchObject({ ok: true, faults: [] })
    expect((await rp.collect()).chunks.unreadable).toEqual([])
  })
})
