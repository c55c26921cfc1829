// The checksum of a row is that of zlib over its values, also where it is computed here.

import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { checksumOf } from './row-checksum.ts'

const value = fc.oneof(
  fc.constant(null),
  fc.integer(),
  fc.double({ noNaN: true }),
  fc.string(),
  fc.string({ unit: 'grapheme' }),
  fc.uint8Array(),
)

it('equals the checksum of the values, one after another, by zlib', () => {
  fc.assert(
    fc.property(fc.array(value, { maxLength: 20 }), (row) => {
      const bytes = row.map((each) => {
        if (each === null) return Buffer.from('n')
        if (each instanceof Uint8Array) return Buffer.concat([Buffer.from(`b${each.length}:`), each])
        const text = String(each)
        return Buffer.from(`${typeof each === 'string' ? 's' : 'd'}${text.length}:${text}`)
      })
      expect(checksumOf(row)).toBe(crc32(Buffer.concat(bytes)))
    }),
  )
})
