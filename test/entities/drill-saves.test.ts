// A drill reads the same data as a restore: for a save, also the bytes of its stream.

import { expect, it } from 'vitest'
import { save } from '../../src/layers/save/index.ts'
import { onEveryStore } from '../support/worlds.ts'
import { type Bend, bentEngine, flipped, noise } from './support.ts'

const models = save<{ step: number }>('models', { keep: 2 })

async function* bytes(seed: number) {
  for (let i = 0; i < 8; i++) yield Buffer.from(noise(seed + i, 64 * 1024))
}

onEveryStore('drill of saves', (world) => {
  it('A4.6: a save whose stream is damaged fails its drill, and the one before is found sound', async () => {
    const w = await world()
    const bend: Bend = {}
    const { rp, store } = await bentEngine(w, bend, { redundancy: false })
    const s = await rp.open(models)
    await s.putStream(bytes(1), { step: 1 })
    const first = new Set<string>()
    for (const { digest } of await store.blobs.list(null, 10_000)) first.add(Buffer.from(digest).toString('hex'))
    const saved = await s.putStream(bytes(100), { step: 2 })
    expect((await rp.drill()).ok).toBe(true)
    // One large chunk that only the second one has.
    const rows = await store.blobs.list(null, 10_000)
    const own = rows.filter(({ digest }) => !first.has(Buffer.from(digest).toString('hex')))
    const largest = own.reduce((a, b) => (b.bytes > a.bytes ? b : a))
    bend.blobsGet = async (digests) => {
      const found = await store.blobs.get(digests)
      return found.map((chunk, i) =>
        chunk && Buffer.compare(digests[i]!, largest.digest) === 0 ? flipped(chunk, 99) : chunk,
      )
    }
    const { ok, results } = await rp.drill()
    expect(ok).toBe(false)
    expect(results.filter((result) => !result.ok).map(({ checkpoint }) => checkpoint)).toEqual([saved.id])
    expect((await s.latest())!.value).toEqual({ step: 1 })
  })
})
