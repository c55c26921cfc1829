// Saves on every store: put, latest, list, restore, compare; streams; formats; and damage that never goes unnoticed.

import { describe, expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { open } from '../../src/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

interface Model {
  readonly step: number
  readonly weights: Float64Array
}

const model = (step: number, size = 4): Model => ({
  step,
  weights: Float64Array.from({ length: size }, (_, n) => n * step),
})
const training = save<Model>('training', { keep: 3 })

/** Pseudo-random bytes, the same for the same seed. */
function noise(length: number, seed = 1): Uint8Array {
  const bytes = new Uint8Array(length)
  let word = seed
  for (let i = 0; i < length; i++) {
    word = (Math.imul(word, 1664525) + 1013904223) | 0
    bytes[i] = word >>> 24
  }
  return bytes
}

async function collected(stream: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  for await (const piece of stream) pieces.push(piece)
  return new Uint8Array(Buffer.concat(pieces))
}

it('a value is put again, as often as its chunks are taken before they count', async () => {
  const rp = await open('memory:', { housekeeping: false, redundancy: false })
  const saves = await rp.open(training)
  await saves.put(model(1, 50_000))
  const { blobs } = hostOf(rp).kernel.store
  const get = blobs.get.bind(blobs)
  let taken = 0
  // A collector was faster, three times: as beside a process that is stopped now and then.
  blobs.get = async (digests) => (taken < 3 && ++taken ? digests.map(() => null) : await get(digests))
  await saves.put(model(2, 50_000))
  expect(taken).toBe(3)
  expect((await saves.latest())?.value.step).toBe(2)
  await rp.close()
})

/** Replaces stored chunks by others, as rot would: the newest `count` of those that `pick` chooses. */
async function rot(rp: Reprise, pick: (bytes: number) => boolean): Promise<number> {
  const { blobs } = hostOf(rp).kernel.store
  const rows = (await blobs.list(null, 10_000)).filter((row) => pick(row.bytes))
  await blobs.delete(
    rows.map((row) => row.digest),
    Number.MAX_SAFE_INTEGER,
  )
  return rows.length
}

onEveryStore('save', (world) => {
  it('C7: puts, finds the latest, lists, keeps the last N, and is restored after the engine is gone', async () => {
    const w = await world()
    const rp = await w.engine()
    const s = await rp.open(training)
    await expect(s.latest()).rejects.toEqual(code('NOT_FOUND'))
    for (let step = 1; step <= 6; step++) await s.put(model(step), { label: `step ${step}` })
    expect((await s.list()).map((each) => each.label)).toEqual(['step 6', 'step 5', 'step 4'])
    const { value, savedAt, skipped } = await s.latest()
    expect(value).toEqual(model(6))
    expect(savedAt).toBeInstanceOf(Date)
    expect(skipped).toEqual([])
    await rp.close()
    const again = await (await w.engine()).open(training)
    expect((await again.latest()).value.step).toBe(6)
    const older = (await again.list())[2]!
    expect((await again.load(older.id)).value.step).toBe(4)
    await again.restore(older.id)
    expect((await again.latest()).value.step).toBe(4)
  })

  it('is read beside its writer, and a second writer takes over with a fence', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const s = await one.open(training)
    await s.put(model(1))
    expect((await training.read(two).latest()).value.step).toBe(1)
    await expect(two.open(training)).rejects.toEqual(code('OWNED'))
    const t = await two.open(training, undefined, { takeover: true })
    await t.put(model(2))
    await expect(s.put(model(9))).rejects.toEqual(code('FENCED'))
    expect((await training.read(one).latest()).value.step).toBe(2)
  })

  it('streams bytes of any length, and a small change costs little', async () => {
    const rp = await (await world()).engine()
    const s = await rp.open(save<{ step: number }>('stream'))
    const bytes = noise(3_000_000)
    const pieces = function* () {
      for (let at = 0; at < bytes.length; at += 77_777) yield bytes.subarray(at, at + 77_777)
    }
    const first = await s.putStream(pieces(), { step: 1 })
    const loaded = await s.latest()
    expect(loaded).toMatchObject({ kind: 'bytes', size: bytes.length, value: { step: 1 } })
    expect(Buffer.compare(await collected(loaded.stream()), bytes)).toBe(0)
    // One byte more near the start moves everything behind it, yet few chunks change.
    const changed = new Uint8Array([...bytes.subarray(0, 1000), 7, ...bytes.subarray(1000)])
    const second = await s.putStream(changed, { step: 2 })
    expect(second.addedBytes).toBeLessThan(first.addedBytes / 5)
    expect(Buffer.compare(await collected((await s.latest()).stream()), changed)).toBe(0)
    const between = await s.compare(first.id, second.id)
    expect(between.bytesSame).toBeGreaterThan(between.bytesOnlyInSecond * 4)
    expect((await rp.verify()).faults).toEqual([])
    expect((await rp.drill()).ok).toBe(true)
  })

  it('compares two values by place', async () => {
    const rp = await (await world()).engine()
    const s = await rp.open(save<unknown>('compared'))
    const a = await s.put({ name: 'x', deep: { list: [1, 2], gone: true }, same: new Date(5) })
    const b = await s.put({ name: 'y', deep: { list: [1, 3], come: 1 }, same: new Date(5) })
    expect((await s.compare(a.id, b.id)).differences).toEqual([
      { path: 'deep.gone', kind: 'removed' },
      { path: 'deep.list.1', kind: 'changed' },
      { path: 'deep.come', kind: 'added' },
      { path: 'name', kind: 'changed' },
    ])
  })

  it('is forked from the branch that the coordinate names, also from an archived one', async () => {
    const rp = await (await world()).engine()
    const s = await rp.open(save<string>('branched'), 'a')
    await s.put('first')
    await s.put('undone')
    const { coordinate } = await rp.savepoint({ timeline: 'save/branched/a', seq: 2 })
    await s.close()
    await rp.rollback({ to: { timeline: 'save/branched/a', seq: 1 } })
    const again = await rp.open(save<string>('branched'), 'a')
    await again.put('second')
    await rp.fork(coordinate, 'save/branched/b')
    expect((await (await rp.open(save<string>('branched'), 'b')).latest()).value).toBe('undone')
  })

  it('A1.2: falls back to the previous save when the newest is damaged, and reports it', async () => {
    const w = await world()
    const rp = await w.engine()
    const s = await rp.open(save<Uint8Array>('rotten'))
    const [good, bad] = [noise(300_000, 1), noise(400_000, 2)]
    await s.put(good)
    const before = new Set(
      (await hostOf(rp).kernel.store.blobs.list(null, 10_000)).map((row) => Buffer.from(row.digest).toString('hex')),
    )
    const newest = await s.put(bad)
    const fresh = (await hostOf(rp).kernel.store.blobs.list(null, 10_000)).filter(
      (row) => !before.has(Buffer.from(row.digest).toString('hex')),
    )
    await hostOf(rp).kernel.store.blobs.delete([fresh[3]!.digest], Number.MAX_SAFE_INTEGER)
    const found = await s.latest()
    expect(Buffer.compare(found.value, good)).toBe(0)
    expect(found.skipped).toMatchObject([{ id: newest.id }])
    expect((await s.list())[0]).toMatchObject({ id: newest.id, damage: expect.stringContaining('chunk') })
    // It continues: the same value is stored again, though its damaged chunks have the same names.
    await s.put(bad)
    expect(Buffer.compare((await s.latest()).value, bad)).toBe(0)
    expect(await rot(rp, () => true)).toBeGreaterThan(0)
    await expect(s.latest()).rejects.toEqual(code('UNRECOVERABLE'))
  })

  it('B2: format breaks on deploy: old formats are upgraded, gaps and newer ones are refused by name', async () => {
    const w = await world()
    const rp = await w.engine()
    const s = await rp.open(save<unknown>('formats'))
    await s.put({ n: 1 })
    await s.close()
    const three = save<unknown>('formats', {
      version: 3,
      upcasters: { 1: (v) => ({ ...(v as object), two: true }), 2: (v) => ({ ...(v as object), three: true }) },
    })
    expect(await three.read(rp).latest()).toMatchObject({ value: { n: 1, two: true, three: true }, format: 1 })
    const gap = save<unknown>('formats', { version: 3, upcasters: { 2: (v) => v } })
    await expect(gap.read(rp).latest()).rejects.toEqual(code('UPCAST_MISSING'))
    const t = await rp.open(three)
    await t.put({ n: 2 })
    // Not a fall back to the readable older one: that would lose work in silence.
    await expect(save<unknown>('formats').read(rp).latest()).rejects.toEqual(code('INCOMPATIBLE_VERSION'))
  })

  it('B2: partial publish: whatever the store call that fails, the save before stays the latest', async () => {
    const w = await world()
    const rp = await w.engine()
    const s = await rp.open(save<Uint8Array>('partial'))
    await s.put(noise(200_000, 1))
    const { store } = hostOf(rp).kernel
    const failAt = async (method: 'commit' | 'put') => {
      const target = method === 'put' ? store.blobs : store
      const original = Reflect.get(target, method) as (...args: unknown[]) => unknown
      Object.defineProperty(target, method, {
        configurable: true,
        writable: true,
        value: () => Promise.reject(new Error('power')),
      })
      await expect(s.put(noise(200_000, 2))).rejects.toThrow()
      Object.defineProperty(target, method, { configurable: true, writable: true, value: original })
      expect(Buffer.compare((await s.latest()).value, noise(200_000, 1))).toBe(0)
      // Nothing of it is in the catalog, not even as a damaged one.
      expect(await s.list()).toHaveLength(1)
    }
    await failAt('put')
    await failAt('commit')
    await s.put(noise(200_000, 3))
    expect(Buffer.compare((await s.latest()).value, noise(200_000, 3))).toBe(0)
  })

  it('B2: state and position disagree: a save is published at the very coordinate of its own entry', async () => {
    const rp = await (await world()).engine()
    const s = await rp.open(save<number>('bound'))
    for (let n = 1; n <= 4; n++) {
      const saved = await s.put(n)
      const head = await rp.head(s.timeline)
      const [record] = await rp.checkpoints(s.timeline)
      expect([saved.seq, head!.seq, record!.seq]).toEqual([n, n, n])
      expect(Buffer.compare(record!.digest, head!.digest)).toBe(0)
    }
  })

  it('B8: collector eats a shared base: chunks that a kept save names survive collection, all others go', async () => {
    const rp = await (await world()).engine()
    const s = await rp.open(save<Uint8Array>('collected', { keep: 2 }))
    const bytes = noise(500_000)
    await s.putStream(bytes)
    for (let n = 0; n < 4; n++) {
      bytes[n * 100_000] = 255 - bytes[n * 100_000]!
      await s.putStream(bytes)
    }
    const report = await rp.collect({ graceMs: -1000 })
    expect(report.chunks.swept).toBeGreaterThan(0)
    expect(await s.list()).toHaveLength(2)
    for (const { id } of await s.list()) expect((await collected((await s.load(id)).stream())).length).toBe(500_000)
    expect((await rp.verify()).faults).toEqual([])
  })
})

describe('save definitions', () => {
  it('refuse what cannot work', () => {
    expect(() => save('a/b')).toThrow(code('INVALID_ARGUMENT'))
    expect(() => save('a', { keep: 0 })).toThrow(code('INVALID_ARGUMENT'))
    expect(() => save('a', { version: 0 })).toThrow(code('INVALID_ARGUMENT'))
  })
})
