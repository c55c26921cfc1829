// Chunks in an object store, over one in memory: several processes, killed at every request, beside collectors, with outdated
// lists. The conformance suite tests the contract; these tests cover the specifics of object stores.

import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toHex } from '../../src/core/coordinate.ts'
import { S3Blobs } from '../../src/stores/s3/blobs.ts'
import { Bucket, type Fault, Killed, MemoryObjects } from './memory-objects.ts'

const hash = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest())
const chunk = (text: string, size = 10) => {
  const bytes = new Uint8Array(Buffer.from(text.padEnd(size, '.')))
  return { digest: hash(bytes), bytes }
}

function open(bucket: Bucket, fault?: (request: string) => Fault | Promise<Fault>, graceMs = 0, packBytes = 4096) {
  const objects = new MemoryObjects(bucket, fault)
  return { objects, blobs: new S3Blobs(objects, { hash, clock: () => bucket.now, graceMs, packBytes }) }
}

describe('chunks in an object store', () => {
  it('are packed: many chunks are one object, and one read gives them back', async () => {
    const bucket = new Bucket()
    const chunks = Array.from({ length: 50 }, (_, i) => chunk(`c${i}`, 60))
    const { objects, blobs } = open(bucket)
    await blobs.put(chunks)
    expect(objects.meter).toMatchObject({ puts: 1, gets: 0 })
    const other = open(bucket)
    const found = await other.blobs.get(chunks.map(({ digest }) => digest))
    expect(found.map((bytes) => bytes && toHex(bytes))).toEqual(chunks.map(({ bytes }) => toHex(bytes)))
    // Two lists, the list of the pack, and one range.
    expect(other.objects.meter).toMatchObject({ lists: 2, gets: 2 })
  })

  it('one that was written by another process is found without opening anew', async () => {
    const bucket = new Bucket()
    const [one, other] = [open(bucket), open(bucket)]
    const [a, b] = [chunk('a'), chunk('b')]
    await one.blobs.put([a])
    expect(await other.blobs.get([a.digest, b.digest])).toEqual([a.bytes, null])
    await one.blobs.put([b])
    expect(await other.blobs.get([b.digest])).toEqual([b.bytes])
  })

  it('notes are joined: an opening reads few objects, however many were written', async () => {
    const bucket = new Bucket()
    const { blobs } = open(bucket)
    const chunks = Array.from({ length: 300 }, (_, i) => chunk(`c${i}`))
    for (const each of chunks) await blobs.put([each])
    const late = open(bucket)
    expect((await late.blobs.list(null, 1000)).length).toBe(300)
    expect(late.objects.meter.gets).toBeLessThan(60)
    expect((await late.blobs.get(chunks.map(({ digest }) => digest))).includes(null)).toBe(false)
  })

  it('deleted chunks leave their pack: none of their bytes remains after a final compaction', async () => {
    const bucket = new Bucket()
    const { blobs } = open(bucket, undefined, 60_000)
    const [kept, gone] = [chunk('keep this one'), chunk('SECRET that must go')]
    await blobs.put([kept, gone])
    expect(await blobs.delete([gone.digest], bucket.now + 1000)).toBe(1)
    expect(await blobs.get([kept.digest, gone.digest])).toEqual([kept.bytes, null])
    const secret = () => [...bucket.objects.values()].some(({ bytes }) => Buffer.from(bytes).includes('SECRET'))
    expect(secret()).toBe(true)
    await blobs.compact(true)
    expect(secret()).toBe(false)
    expect(await open(bucket).blobs.get([kept.digest, gone.digest])).toEqual([kept.bytes, null])
  })

  it('packs that are spent go when the grace period is over, and not before', async () => {
    const bucket = new Bucket()
    const { blobs } = open(bucket, undefined, 60_000)
    const [a, b] = [chunk('a', 3000), chunk('b', 3000)]
    await blobs.put([a])
    await blobs.put([b])
    await blobs.delete([a.digest], bucket.now + 1)
    const packs = () => [...bucket.objects.keys()].filter((key) => key.startsWith('packs/')).length
    expect(packs()).toBe(2)
    bucket.now += 61_000
    await blobs.compact()
    expect(packs()).toBe(1)
    expect(await open(bucket).blobs.get([b.digest])).toEqual([b.bytes])
  })

  it('many small packs become few', async () => {
    const bucket = new Bucket()
    const { blobs } = open(bucket)
    const chunks = Array.from({ length: 40 }, (_, i) => chunk(`c${i}`))
    for (const each of chunks) await blobs.put([each])
    await blobs.compact()
    expect([...bucket.objects.keys()].filter((key) => key.startsWith('packs/')).length).toBeLessThan(4)
    expect((await open(bucket).blobs.get(chunks.map(({ digest }) => digest))).includes(null)).toBe(false)
  })

  it('a damaged pack hides only its own chunks, and damaged notes are refused', async () => {
    const bucket = new Bucket()
    const { blobs } = open(bucket)
    const [a, b] = [chunk('a'), chunk('b')]
    await blobs.put([a])
    await blobs.put([b])
    const [first] = [...bucket.objects.keys()].filter((key) => key.startsWith('packs/')).sort()
    const whole = bucket.objects.get(first!)!
    bucket.objects.set(first!, { ...whole, bytes: whole.bytes.slice(0, 20) })
    expect(await open(bucket).blobs.get([a.digest, b.digest])).toEqual([null, b.bytes])
    await blobs.touch([b.digest], bucket.now)
    const [note] = [...bucket.objects.keys()].filter((key) => key.startsWith('notes/'))
    bucket.objects.get(note!)!.bytes[10]! ^= 1
    await expect(open(bucket).blobs.get([b.digest])).rejects.toMatchObject({ code: 'MALFORMED' })
  })
})

describe('killed at every request', () => {
  /** The calls of one process, repeated until no request is left to die at. Nothing acknowledged may be lost. */
  it.each(['before', 'after'] as const)('%s it: what was acknowledged is there', async (when) => {
    let deaths = 0
    for (let k = 1; k < 200; k++) {
      const bucket = new Bucket()
      let count = 0
      const { blobs } = open(bucket, () => (++count === k ? when : 'none'))
      const acknowledged = new Map<string, Uint8Array>()
      const put = async (...names: string[]) => {
        const chunks = names.map((name) => chunk(name, 1500))
        await blobs.put(chunks)
        for (const { digest, bytes } of chunks) acknowledged.set(toHex(digest), bytes)
      }
      try {
        await put('a', 'b')
        await put('c', 'd', 'e', 'f')
        bucket.now += 1000
        const going = ['a', 'c', 'd'].map((name) => chunk(name, 1500))
        for (const { digest } of going) acknowledged.delete(toHex(digest))
        await blobs.delete(
          going.map(({ digest }) => digest),
          bucket.now,
        )
        await put('g', 'a')
        await blobs.touch([chunk('b', 1500).digest], bucket.now + 5)
        await blobs.compact(true)
        await put('h')
      } catch (error) {
        if (!(error instanceof Killed)) throw error
        deaths += 1
      }
      const after = open(bucket)
      const names = [...acknowledged.keys()].map((name) => new Uint8Array(Buffer.from(name, 'hex')))
      expect((await after.blobs.get(names)).map((bytes) => bytes && toHex(bytes))).toEqual(
        [...acknowledged.values()].map(toHex),
      )
      // The next process can continue.
      await after.blobs.compact(true)
      expect((await open(bucket).blobs.get(names)).includes(null)).toBe(false)
      if (count < k) break
    }
    expect(deaths).toBeGreaterThan(20)
  })
})

describe('beside each other', () => {
  const runs = Number(process.env.S3_RUNS ?? 60)

  /**
   * Writers put or touch chunks before they name them, and a collector removes unreferenced chunks, all requests in any
   * order. A chunk that was acknowledged and then named must stay for good. `late`: some lists are three changes old.
   */
  async function play(order: readonly number[], late: ReadonlySet<number>, graceMs: number): Promise<string[]> {
    const bucket = new Bucket()
    const waiting: (() => void)[] = []
    let step = 0
    const turn = async (request: string): Promise<Fault> => {
      await new Promise<void>((resolve) => void waiting.push(resolve))
      step += 1
      return request.startsWith('list') && late.has(step) ? 'late' : 'none'
    }
    const setup = open(bucket)
    const shared = ['x', 'y', 'z'].map((name) => chunk(name, 300_000))
    await setup.blobs.put(shared)
    bucket.now += 10_000
    const named = new Set<string>()
    const mark = bucket.now
    const writer = async (blobs: S3Blobs, own: string) => {
      const wanted = [shared[0]!, shared[1]!, chunk(own, 50)]
      await blobs.put(wanted, mark)
      for (const { digest } of wanted) named.add(toHex(digest))
    }
    const collector = async (blobs: S3Blobs) => {
      const rows = await blobs.list(null, 100)
      await blobs.delete(
        rows.map(({ digest }) => digest),
        mark,
      )
      await blobs.compact(graceMs === 0)
    }
    const big = 1024 * 1024
    const work = [
      writer(open(bucket, turn, graceMs, big).blobs, 'one'),
      writer(open(bucket, turn, graceMs, big).blobs, 'two'),
      collector(open(bucket, turn, graceMs, big).blobs),
      collector(open(bucket, turn, graceMs, big).blobs),
    ]
    let isOver = false
    const all = Promise.all(work).finally(() => {
      isOver = true
    })
    for (let i = 0; !isOver; i++) {
      await new Promise((resolve) => setImmediate(resolve))
      if (waiting.length === 0) continue
      const pick = order[i % order.length]! % waiting.length
      waiting.splice(pick, 1)[0]!()
    }
    await all
    // Whatever was left to do is done when lists have caught up.
    const late2 = open(bucket, undefined, graceMs, big)
    bucket.now += graceMs * 3
    await late2.blobs.compact()
    await late2.blobs.compact(true)
    const found = await open(bucket).blobs.get([...named].map((name) => new Uint8Array(Buffer.from(name, 'hex'))))
    return [...named].filter((_, i) => found[i] === null)
  }

  it('A4.5: no chunk that was acknowledged to a writer is collected, in any order of requests', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(9), { minLength: 5, maxLength: 60 }), async (order) => {
        expect(await play(order, new Set(), 0)).toEqual([])
      }),
      // A touch that came too late looked punctual to the next writer.
      { numRuns: runs, examples: [[[2, 2, 7, 0, 1, 9, 1, 1, 0, 7]]] },
    )
  })

  it('A4.5: nor with lists that come late, if the grace period is longer than that', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(9), { minLength: 5, maxLength: 60 }),
        fc.uniqueArray(fc.integer({ min: 1, max: 60 }), { maxLength: 20 }),
        async (order, late) => {
          expect(await play(order, new Set(late), 60_000)).toEqual([])
        },
      ),
      { numRuns: runs },
    )
  })
})
