import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ExactReader } from './exact-reader.ts'

const short = () => new Error('too short')

async function* cut(bytes: Uint8Array, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  let at = 0
  for (const size of sizes) {
    yield bytes.subarray(at, at + size)
    at += size
  }
  yield bytes.subarray(at)
}

it('returns the requested lengths, however the stream is cut', async () => {
  const sizes = fc.array(fc.nat(9), { maxLength: 20 })
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 60 }), sizes, sizes, async (bytes, cuts, lengths) => {
      const reader = new ExactReader(cut(bytes, cuts), short)
      let at = 0
      for (const [i, length] of lengths.entries()) {
        if (at + length > bytes.length) {
          await expect(reader.exactly(length)).rejects.toThrow('too short')
          return
        }
        const read: number[] = []
        if (i % 2 === 0) read.push(...(await reader.exactly(length)))
        else for await (const piece of reader.pieces(length)) read.push(...piece)
        expect(read).toEqual([...bytes.subarray(at, at + length)])
        at += length
      }
      expect(await reader.isAtEnd()).toBe(at === bytes.length)
    }),
    { numRuns: 300 },
  )
})

it('returns a copy, which a reused buffer does not change', async () => {
  const buffer = Uint8Array.of(1, 2, 3)
  const reader = new ExactReader(cut(buffer, [3]), short)
  const [first, rest] = [await reader.exactly(1), await reader.exactly(2)]
  buffer.fill(9)
  expect([[...first], [...rest]]).toEqual([[1], [2, 3]])
})
