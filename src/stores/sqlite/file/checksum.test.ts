import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { checksum } from './checksum.ts'

it('the checksum is that of zlib, for short and for long arrays, from any seed', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 1, maxLength: 2000, size: 'max' }),
      fc.nat(),
      fc.nat(0xffffffff),
      (bytes, cut, seed) => {
        const start = cut % bytes.length
        expect(checksum(bytes, start, bytes.length, seed)).toBe(crc32(bytes.subarray(start), seed))
      },
    ),
  )
})
