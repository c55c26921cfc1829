// The promises of a save about size and bytes: memory does not grow with the stream, and only data that was read back becomes
// visible.

import { expect, it } from 'vitest'
import { save } from '../../src/layers/save/index.ts'
import { onEveryStore } from '../support/worlds.ts'
import { type Bend, bentEngine, flipped, noise, soon } from './support.ts'

const megabyte = 1024 * 1024

onEveryStore('save bounds', (world) => {
  it('A8.3: a long stream is never in memory: unread and unwritten parts stay a few megabytes', async () => {
    const w = await world()
    const bend: Bend = {}
    const { rp, store } = await bentEngine(w, bend)
    const length = w.kind === 'postgres' ? 24 : 48
    let taken = 0
    let stored = 0
    let held = 0
    let largestAnswer = 0
    bend.blobsPut = async (chunks) => {
      held = Math.max(held, taken - stored)
      await store.blobs.put(chunks)
      for (const { bytes } of chunks) stored += bytes.length
    }
    bend.blobsGet = async (digests) => {
      const found = await store.blobs.get(digests)
      largestAnswer = Math.max(
        largestAnswer,
        found.reduce((sum, bytes) => sum + (bytes?.length ?? 0), 0),
      )
      return found
    }
    let word = 1
    function* source() {
      for (let n = 0; n < length; n++) {
        const piece = new Int32Array(megabyte / 4)
        for (let i = 0; i < piece.length; i++) {
          word = (Math.imul(word, 1664525) + 1013904223) | 0
          piece[i] = word ^ (word >>> 13)
        }
        taken += megabyte
        yield new Uint8Array(piece.buffer)
      }
    }
    const s = await rp.open(save<null>('long'))
    await s.putStream(source())
    expect(taken).toBe(length * megabyte)
    expect(stored).toBeGreaterThan(length * megabyte * 0.9)
    expect(held).toBeLessThan(10 * megabyte)
    let read = 0
    for await (const piece of (await s.latest()).stream()) read += piece.length
    expect(read).toBe(length * megabyte)
    expect(largestAnswer).toBeLessThan(10 * megabyte)
  })

  it('A1.2: verified after write: a save whose chunks do not come back as they were written is refused, the one before stays', async () => {
    const w = await world()
    const bend: Bend = {}
    const { rp, store } = await bentEngine(w, bend)
    const s = await rp.open(save<string>('verified'))
    await s.put(noise(1, 40_000))
    bend.blobsGet = async (digests) => (await store.blobs.get(digests)).map((bytes) => bytes && flipped(bytes, 9))
    await expect(s.put(noise(2, 40_000))).rejects.toMatchObject({ code: 'CHUNK_DAMAGED' })
    delete bend.blobsGet
    expect((await s.list()).length).toBe(1)
    expect((await s.latest()).value).toBe(noise(1, 40_000))
    await s.put(noise(2, 40_000))
    expect((await s.latest()).value).toBe(noise(2, 40_000))
  })

  it('A4.5: a collector beside a writer of saves takes nothing that a kept save names', async () => {
    const w = await world()
    const [rp, other] = [await w.engine(), await w.engine()]
    const s = await rp.open(save<string>('beside', { keep: 2 }))
    let isOver = false
    const collecting = (async () => {
      while (!isOver) {
        await other.collect({})
        await soon(2)
      }
    })()
    const base = noise(1, 120_000)
    for (let n = 0; n < 12; n++) await s.put(base.slice(0, 60_000) + noise(n, 300) + base.slice(60_000))
    isOver = true
    await collecting
    expect((await s.latest()).value).toBe(base.slice(0, 60_000) + noise(11, 300) + base.slice(60_000))
    for (const { id } of await s.list()) await s.load(id)
    expect((await rp.verify()).faults).toEqual([])
  })
})
