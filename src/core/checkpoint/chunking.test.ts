import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type ChunkSizes, cutAll, defaultChunkSizes, nextCut } from './chunking.ts'

const small: ChunkSizes = { minBytes: 16, averageBytes: 64, maxBytes: 256 }

/** Repeatable pseudo-random bytes. */
function noise(seed: number, length: number): Uint8Array {
  let word = seed | 1
  return Uint8Array.from({ length }, () => {
    word ^= word << 13
    word ^= word >>> 17
    word ^= word << 5
    return word & 255
  })
}

function join(parts: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(parts.flatMap((part) => [...part]))
}

describe('content-defined chunking', () => {
  test('the chunks put together are the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 4000 }), (bytes) => {
        expect(join(cutAll(bytes, small))).toEqual(bytes)
      }),
    )
  })

  test('every chunk but the last keeps to the sizes, whatever the bytes', () => {
    const dull = fc.tuple(fc.nat(255), fc.nat(5000)).map(([byte, length]) => new Uint8Array(length).fill(byte))
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 5000 }), dull), (bytes) => {
        const sizes = cutAll(bytes, small).map((chunk) => chunk.length)
        for (const size of sizes.slice(0, -1)) expect(size >= small.minBytes && size <= small.maxBytes).toBe(true)
        for (const size of sizes.slice(-1)) expect(size >= 1 && size <= small.maxBytes).toBe(true)
      }),
    )
  })

  // Cuts realign by chance: each additional chunk is about 0.7 times as likely, so one case in 600 has over 20.
  test('an insertion anywhere leaves all but a few chunks as they were', () => {
    const counts: number[] = []
    fc.assert(
      fc.property(
        fc.integer(),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.uint8Array({ minLength: 1, maxLength: 40 }),
        (seed, where, added) => {
          const bytes = noise(seed, 50_000)
          const at = Math.floor(where * bytes.length)
          const changed = new Uint8Array(bytes.length + added.length)
          changed.set(bytes.subarray(0, at))
          changed.set(added, at)
          changed.set(bytes.subarray(at), at + added.length)
          const before = new Set(cutAll(bytes, small).map(String))
          const fresh = cutAll(changed, small).filter((chunk) => !before.has(String(chunk)))
          counts.push(fresh.length)
          expect(fresh.length).toBeLessThanOrEqual(60)
          expect(before.size).toBeGreaterThan(400)
        },
      ),
      { numRuns: 50, examples: [[140079350, 0, Uint8Array.from([0, 0])]] },
    )
    expect(counts.reduce((sum, count) => sum + count) / counts.length).toBeLessThan(8)
  })

  test('sizes of random bytes lie around the stated average', () => {
    const bytes = noise(7, 4_000_000)
    const average = bytes.length / cutAll(bytes).length
    expect(average).toBeGreaterThan(defaultChunkSizes.averageBytes / 2)
    expect(average).toBeLessThan(defaultChunkSizes.averageBytes * 2)
  })

  test('the cuts are part of the format and stay where they are', () => {
    const ends: number[] = []
    const bytes = noise(1, 100_000)
    for (let at = 0; at < bytes.length; at = ends.at(-1)!) ends.push(nextCut(bytes, at))
    expect(ends).toMatchInlineSnapshot(`
      [
        31446,
        48053,
        64459,
        87052,
        100000,
      ]
    `)
  })

  test('sizes that make no sense are refused', () => {
    expect(() => nextCut(new Uint8Array(9), 0, { minBytes: 9, averageBytes: 8, maxBytes: 7 })).toThrow(/chunk sizes/)
    expect(() => nextCut(new Uint8Array(9), 9)).toThrow(/starts inside/)
  })
})
