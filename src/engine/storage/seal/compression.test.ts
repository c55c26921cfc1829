import { inflateRawSync } from 'node:zlib'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { defaultLimits } from '../../../core/limits.ts'
import { compress, decompress } from './compression.ts'

test('a small value that was decompressed keeps about as much memory as it has bytes', () => {
  const values = Array.from({ length: 200 }, (_, i) => {
    const plain = new TextEncoder().encode(`value ${i} `.repeat(80))
    return { plain, opened: decompress(compress(plain)!, plain.length, defaultLimits) }
  })
  for (const { plain, opened } of values) expect(Buffer.compare(plain, opened)).toBe(0)
  const kept = [...new Set(values.map(({ opened }) => opened.buffer))].reduce((sum, each) => sum + each.byteLength, 0)
  const bytes = values.reduce((sum, { opened }) => sum + opened.length, 0)
  expect(kept).toBeLessThan(3 * bytes)
})

test('values around the size of a piece come out whole', () => {
  for (const size of [200, 4095, 16_383, 16_384, 16_385, 70_000]) {
    const plain = new Uint8Array(size).fill(7)
    expect(Buffer.compare(decompress(compress(plain)!, plain.length, defaultLimits), plain)).toBe(0)
  }
})

/** The result of the platform: the bytes, or null if their number is not exactly `size`. */
function asNodeDoes(bytes: Uint8Array, size: number): Uint8Array | null {
  try {
    const plain = inflateRawSync(bytes, { maxOutputLength: size })
    return plain.length === size ? plain : null
  } catch {
    return null
  }
}

test('whatever is flipped, cut off or promised, small values come out as the platform inflates them, or not at all', () => {
  const changes = fc.record({
    words: fc.array(fc.stringMatching(/^[a-z]{1,9}$/), { minLength: 40, maxLength: 400, size: 'max' }),
    flip: fc.option(fc.nat(), { nil: null }),
    cut: fc.option(fc.nat({ max: 40 }), { nil: null }),
    more: fc.integer({ min: -3, max: 3 }),
  })
  fc.assert(
    fc.property(changes, ({ words, flip, cut, more }) => {
      const plain = new TextEncoder().encode(words.join(' '))
      const made = compress(plain)
      if (made?.algorithm !== 1) return
      const bytes = Uint8Array.from(made.bytes.subarray(0, made.bytes.length - (cut ?? 0)))
      if (flip !== null && bytes.length > 0) bytes[flip % bytes.length]! ^= 1 << (flip % 8)
      const size = plain.length + more
      const expected = asNodeDoes(bytes, size)
      let opened: Uint8Array | null = null
      try {
        opened = decompress({ algorithm: 1, bytes }, size, defaultLimits)
      } catch (error) {
        expect((error as { code: string }).code).toMatch(/^(MALFORMED|LIMIT_EXCEEDED)$/)
      }
      expect(opened && Buffer.from(opened).toString('hex')).toBe(expected && Buffer.from(expected).toString('hex'))
    }),
    { numRuns: 300 },
  )
})
