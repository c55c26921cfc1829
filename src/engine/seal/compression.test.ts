import { expect, test } from 'vitest'
import { defaultLimits } from '../../core/limits.ts'
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
