import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { toHex } from '../../../core/coordinate.ts'
import { isRedundancy } from '../../../core/store/blobs.ts'
import type { Blobs } from '../../../core/store/ports.ts'
import { createWorld, openMemory } from '../../../stores/memory/index.ts'
import { sha256 } from '../../base/platform.ts'
import { RedundantBlobs } from './blobs.ts'

type Step =
  | { readonly do: 'put'; readonly chunks: readonly number[] }
  | { readonly do: 'delete'; readonly chunks: readonly number[] }
  | { readonly do: 'tend' | 'reopen' }

const some = fc.uniqueArray(fc.nat(60), { minLength: 1, maxLength: 30 })
const steps = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: some.map((chunks): Step => ({ do: 'put', chunks })) },
    { weight: 3, arbitrary: some.map((chunks): Step => ({ do: 'delete', chunks })) },
    { weight: 1, arbitrary: fc.constantFrom<Step>({ do: 'tend' }, { do: 'reopen' }) },
  ),
  { minLength: 1, maxLength: 10 },
)

/** Chunks of very different sizes. */
const made = Array.from({ length: 61 }, (_, n) => {
  const bytes = Uint8Array.from({ length: 1 + ((n * 7919) % 1500) }, (_, i) => (n * 31 + i * 17 + (i >> 5)) & 255)
  return { digest: sha256(bytes), bytes }
})

function chunkOf(n: number): { digest: Uint8Array; bytes: Uint8Array } {
  return made[n]!
}

function world(): Blobs {
  return openMemory({ namespace: 'x', hash: sha256, world: createWorld() }).blobs
}

async function replace(blobs: Blobs, digest: Uint8Array, bytes: Uint8Array | null): Promise<void> {
  await blobs.delete([digest], Number.MAX_SAFE_INTEGER)
  if (bytes) await blobs.put([{ digest, bytes }])
}

async function all(blobs: Blobs): Promise<Uint8Array[]> {
  return (await blobs.list(null, 10_000)).map(({ digest }) => digest)
}

/** Runs a script, then damages each existing chunk in turn. Returns those that could not be rebuilt. */
async function play(script: readonly Step[], planted: ReadonlySet<string> = new Set()): Promise<number[]> {
  const inner = world()
  const open = () => new RedundantBlobs(inner, sha256, () => undefined, planted)
  let blobs = open()
  const there = new Set<number>()
  for (const step of script) {
    if (step.do === 'put') {
      await blobs.put(step.chunks.map(chunkOf))
      for (const n of step.chunks) there.add(n)
    } else if (step.do === 'delete') {
      await blobs.delete(
        step.chunks.map((n) => chunkOf(n).digest),
        Number.MAX_SAFE_INTEGER,
      )
      for (const n of step.chunks) there.delete(n)
    } else if (step.do === 'tend') {
      await blobs.tend(new Set([...there].map((n) => toHex(chunkOf(n).digest))))
    } else blobs = open()
  }
  expect((await all(blobs)).map(toHex).sort()).toEqual([...there].map((n) => toHex(chunkOf(n).digest)).sort())
  const lost: number[] = []
  for (const n of there) {
    const { digest, bytes } = chunkOf(n)
    const damaged = bytes.slice()
    damaged[0]! ^= 1
    for (const bad of [null, damaged]) {
      await replace(inner, digest, bad)
      const mended = await blobs.mend(digest)
      const [back] = await inner.get([digest])
      if (!mended || toHex(mended) !== toHex(bytes) || !back || toHex(back) !== toHex(bytes)) lost.push(n)
      if (!mended) await replace(inner, digest, bytes)
    }
  }
  return lost
}

describe('chunks with parity', () => {
  test('after any puts, sweeps and upkeep, each existing chunk can be rebuilt from the others', async () => {
    const whole = fc.asyncProperty(steps, async (script) => {
      expect(await play(script)).toEqual([])
    })
    await fc.assert(whole, { numRuns: 15 })
  })

  const everything: Step = { do: 'put', chunks: Array.from({ length: 61 }, (_, n) => n) }
  const few: Step = { do: 'delete', chunks: [3, 17] }
  for (const bug of ['parity-misses-one', 'sweep-leaves-groups', 'leaves-without-xor']) {
    test(`the planted bug ${bug} is found`, async () => {
      expect(await play([everything, few])).toEqual([])
      expect(await play([everything, few], new Set([bug]))).not.toEqual([])
    })
  }

  test('a damaged list or parity takes nothing with it, and is made again when the store is tended', async () => {
    const inner = world()
    const blobs = new RedundantBlobs(inner, sha256, () => undefined)
    const chunks = Array.from({ length: 30 }, (_, n) => chunkOf(n))
    await blobs.put(chunks)
    const live = new Set(chunks.map(({ digest }) => toHex(digest)))
    for (const key of (await all(inner)).filter(isRedundancy)) {
      await replace(inner, key, null)
      await blobs.tend(live)
      await replace(inner, chunks[3]!.digest, null)
      expect(await blobs.mend(chunks[3]!.digest)).toEqual(chunks[3]!.bytes)
    }
  })

  test('chunks that were put without parity get it when the store is tended', async () => {
    const inner = world()
    const chunks = Array.from({ length: 50 }, (_, n) => chunkOf(n))
    await inner.put(chunks)
    const blobs = new RedundantBlobs(inner, sha256, () => undefined)
    expect(await blobs.mend(chunks[7]!.digest)).toBeNull()
    expect((await blobs.tend(new Set())).joined).toBe(50)
    await replace(inner, chunks[7]!.digest, null)
    expect(await blobs.mend(chunks[7]!.digest)).toEqual(chunks[7]!.bytes)
  })

  test('a chunk that is missing and needed is healed when the store is tended', async () => {
    const inner = world()
    const told: string[] = []
    const blobs = new RedundantBlobs(inner, sha256, ({ digest }) => told.push(digest))
    const chunks = Array.from({ length: 50 }, (_, n) => chunkOf(n))
    await blobs.put(chunks)
    await replace(inner, chunks[7]!.digest, null)
    await blobs.tend(new Set(chunks.map(({ digest }) => toHex(digest))))
    expect((await inner.get([chunks[7]!.digest]))[0]).toEqual(chunks[7]!.bytes)
    expect(told).toEqual([toHex(chunks[7]!.digest)])
  })

  test('scrubbing visits all chunks, a part at a time, and repairs damaged ones', async () => {
    const inner = world()
    const told: string[] = []
    const blobs = new RedundantBlobs(inner, sha256, ({ digest }) => told.push(digest))
    const many = Array.from({ length: 200 }, (_, n) => {
      const bytes = Uint8Array.from({ length: 300 }, (_, i) => (n * 13 + i * (n + 7)) & 255)
      return { digest: sha256(bytes), bytes }
    })
    await blobs.put(many)
    for (const { digest } of [many[5]!, many[190]!]) await replace(inner, digest, new Uint8Array(300))
    let rounds = 0
    let healed = 0
    for (let next: Uint8Array | null = null; rounds === 0 || next !== null; rounds++) {
      const report: Awaited<ReturnType<typeof blobs.scrub>> = await blobs.scrub(next, 1000)
      expect(report.left).toBe(0)
      healed += report.healed
      next = report.next
    }
    expect({ isInParts: rounds > 2, healed, told: told.length }).toEqual({ isInParts: true, healed: 2, told: 2 })
    for (const { digest, bytes } of many) expect((await inner.get([digest]))[0]).toEqual(bytes)
  })

  test('many small puts do not each pay for parity: the overhead is below a fifth', async () => {
    const inner = world()
    const blobs = new RedundantBlobs(inner, sha256, () => undefined)
    const chunks = Array.from({ length: 60 }, (_, n) => chunkOf(n))
    for (const chunk of chunks) await blobs.put([chunk])
    await blobs.tend(new Set(chunks.map(({ digest }) => toHex(digest))))
    const bytes = async (isOurs: boolean) =>
      (await inner.list(null, 10_000))
        .filter(({ digest }) => isRedundancy(digest) === isOurs)
        .reduce((sum, row) => sum + row.bytes, 0)
    expect((await bytes(true)) / (await bytes(false))).toBeLessThan(0.2)
  })
})
