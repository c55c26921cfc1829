// The signature failures of a write-ahead log with checkpoints (B3; page before log has a file of its own) and of
// incremental checkpoints (B8), each provoked and survived.

import { expect, it } from 'vitest'
import { decodeManifest } from '../../src/core/checkpoint/manifest.ts'
import { toHex } from '../../src/core/coordinate.ts'
import { stateIo } from '../../src/engine/snapshot/kernel-io.ts'
import { liveChunks, verifyChunks } from '../../src/engine/snapshot/restore.ts'
import { isReprise } from '../../src/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'
import { type Bend, bentEngine, flipped, noise } from './support.ts'

const rows = table<string>('rows', { checkpoint: {}, retain: { checkpoints: 2, history: 'needed' } })
const kept = table<string>('kept', { checkpoint: {}, retain: { checkpoints: 3, history: 'all' } })

onEveryStore('signature failures', (world) => {
  it('B3: log truncated early: history goes only behind checkpoints that were read back', async () => {
    const w = await world()
    const bend: Bend = {}
    const { rp, store } = await bentEngine(w, bend)
    const t = await rp.open(rows)
    const value = (n: number) => noise(n, 2600)
    let isRotten = true
    // The data read back differs from the written data.
    bend.blobsGet = async (digests) => {
      const found = await store.blobs.get(digests)
      return isRotten ? found.map((bytes) => bytes && flipped(bytes, 5)) : found
    }
    for (let n = 0; n < 3; n++) {
      await t.set(`k${n}`, value(n))
      await expect(t.checkpoint()).rejects.toThrow()
    }
    expect((await rp.head('table/rows'))!.floor).toBe(0)
    isRotten = false
    for (let n = 3; n < 6; n++) {
      await t.set(`k${n}`, value(n))
      await t.checkpoint()
    }
    expect((await rp.head('table/rows'))!.floor).toBeGreaterThan(0)
    await rp.close()
    const again = await (await w.engine()).open(rows)
    expect(again.size).toBe(6)
  })

  it('B3: checkpoint metadata that lies: a catalog line or manifest of another coordinate is passed over', async () => {
    const w = await world()
    const first = await w.engine()
    const t = await first.open(kept)
    for (let n = 0; n < 4; n++) {
      await t.set(`k${n}`, `${n}`)
      await t.checkpoint()
    }
    await t.set('last', 'x')
    await first.close()
    const bend: Bend = {}
    const { rp, store } = await bentEngine(w, bend)
    bend.checkpoints = async (timeline) => {
      const records = await store.checkpoints(timeline)
      const [newest, second, third, ...rest] = records
      return [
        { ...newest!, seq: newest!.seq + 1 },
        { ...second!, digest: flipped(second!.digest, 3) },
        // Whole in itself, but of an older coordinate than its catalog line.
        { ...third!, body: rest[0]?.body ?? third!.body, bodyDigest: rest[0]?.bodyDigest ?? third!.bodyDigest },
        ...rest,
      ]
    }
    const again = await rp.open(kept)
    expect([...again.keys()]).toEqual(['k0', 'k1', 'k2', 'k3', 'last'])
    expect(again.recovery.skipped.length).toBeGreaterThanOrEqual(2)
  })

  it('B8: long chains: after many incremental checkpoints a restore reads one manifest and about the size of the state', async () => {
    const w = await world()
    const rp = await w.engine()
    const t = await rp.open(rows)
    await t.transaction((tx) => {
      for (let n = 0; n < 2000; n++) tx.set(`k${String(n).padStart(5, '0')}`, `value of ${n}`)
    })
    const full = await t.checkpoint()
    let added = 0
    let layersSeen = 0
    const newest = async () => {
      const [record] = await rp.checkpoints('table/rows')
      return decodeManifest(record!.body).parts.filter((part) => part.kind === 'keyed')
    }
    for (let round = 0; round < 60; round++) {
      await t.set(`k${String((round * 37) % 2000).padStart(5, '0')}`, `round ${round}`)
      added += (await t.checkpoint()).addedBytes
      for (const { layers } of await newest()) layersSeen = Math.max(layersSeen, layers.length)
    }
    // A restore reads a bounded number of layers, however many checkpoints there were; and there were layers.
    expect(layersSeen).toBeGreaterThan(1)
    expect(layersSeen).toBeLessThanOrEqual(9)
    await rp.close()
    const again = await (await w.engine()).open(rows)
    expect(again.recovery).toMatchObject({ entriesReplayed: 0 })
    expect(again.recovery.bytesRead).toBeLessThan(full.totalBytes * 3 + 65_536)
    expect(added).toBeLessThan(full.totalBytes * 60)
    expect(again.get('k00037')).toBe('round 1')
  })

  it('B8: manifest without its fragments: recovery uses the previous one and the log, to the same state', async () => {
    const w = await world()
    const rp = await w.engine()
    const t = await rp.open(kept)
    const value = (n: number) => noise(n, 4000)
    for (let n = 0; n < 30; n++) await t.set(`k${n}`, value(n))
    await t.checkpoint()
    const before = new Set(
      (await hostOf(rp).kernel.store.blobs.list(null, 10_000)).map((row) => Buffer.from(row.digest).toString('hex')),
    )
    for (let n = 30; n < 60; n++) await t.set(`k${n}`, value(n))
    await t.checkpoint({ full: true })
    const fresh = (await hostOf(rp).kernel.store.blobs.list(null, 10_000)).filter(
      (row) => !before.has(Buffer.from(row.digest).toString('hex')),
    )
    expect(fresh.length).toBeGreaterThan(0)
    await hostOf(rp).kernel.store.blobs.delete(
      fresh.map((row) => row.digest),
      Number.MAX_SAFE_INTEGER,
    )
    await rp.close()
    const next = await w.engine()
    const again = await next.open(kept)
    expect(again.size).toBe(60)
    expect(again.recovery.skipped).toHaveLength(1)
    expect((await next.checkpoints('table/kept'))[0]!.invalid).toContain('chunk')
  })

  it('B8: collector eats a shared base: it runs beside writers and forks, and nothing live is lost', async () => {
    const w = await world()
    const rp = await w.engine()
    const t = await rp.open(rows)
    const value = (n: number) => noise(n, 1000)
    await t.transaction((tx) => {
      for (let n = 0; n < 200; n++) tx.set(`k${n}`, value(n))
    })
    await t.checkpoint()
    await rp.fork(t.coordinate, 'table/rows/fork')
    const collecting = (async () => {
      // The grace period protects only younger chunks; here there are none, so only reachability protects.
      for (let n = 0; n < 5; n++) await rp.collect({ graceMs: 0 })
    })()
    for (let n = 0; n < 12; n++) {
      await t.set(`k${n}`, `changed ${n}`)
      await t.checkpoint().catch((error) => {
        // Without any grace, a collector may take chunks that are being written: the checkpoint then fails, and nothing else.
        if (!isReprise(error, 'CHUNK_MISSING')) throw error
      })
    }
    await collecting
    await t.checkpoint({ full: true })
    await t.transaction((tx) => {
      for (let n = 0; n < 200; n++) tx.set(`k${n}`, n < 12 ? `changed ${n}` : value(n + 1000))
    })
    await t.checkpoint({ full: true })
    await rp.collect({ graceMs: -1000 })
    expect((await rp.verify()).faults).toEqual([])
    // Not only the newest one can be read: each kept checkpoint can, and they share little by now.
    const io = stateIo(hostOf(rp).kernel)
    const live = await Promise.all(
      (await rp.checkpoints('table/rows')).map(async ({ body }) => {
        await verifyChunks(decodeManifest(body), io)
        return new Set((await liveChunks(decodeManifest(body), io)).map(toHex))
      }),
    )
    expect(live.length).toBeGreaterThanOrEqual(2)
    expect([...live[1]!].some((digest) => !live[0]!.has(digest))).toBe(true)
    await rp.close()
    const next = await w.engine()
    expect((await next.open(rows)).get('k3')).toBe('changed 3')
    expect((await next.open(rows, 'fork')).get('k3')).toBe(value(3))
  })
})
