import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ByteWriter } from '../bytes.ts'
import { isReprise } from '../errors.ts'
import { beginBlock, readBlock, writeEntry } from './block.ts'

type Entry = readonly [string, Uint8Array | null]

const key = fc.oneof(
  fc.string({ maxLength: 10 }),
  fc.string({ unit: 'binary', maxLength: 5 }),
  fc.array(fc.nat(0xffff), { maxLength: 4 }).map((units) => String.fromCharCode(...units)),
  fc.nat(20_000).map((length) => 'x'.repeat(length)),
)

function blockOf(entries: readonly Entry[]): Uint8Array {
  const writer = new ByteWriter()
  beginBlock(writer)
  for (const [name, value] of entries) writeEntry(writer, name, value)
  return writer.take()
}

function entriesOf(block: Uint8Array): Entry[] {
  const entries: Entry[] = []
  readBlock(block, (name, value) => entries.push([name, value]))
  return entries
}

describe('a block of entries', () => {
  test('gives back every key, lone surrogates included, every value, and every key that is gone', () => {
    const entry = fc.tuple(key, fc.option(fc.uint8Array({ maxLength: 50 })))
    fc.assert(
      fc.property(fc.uniqueArray(entry, { selector: ([name]) => name }), (entries) => {
        const sorted = entries.sort(([a], [b]) => (a < b ? -1 : 1))
        expect(entriesOf(blockOf(sorted))).toEqual(sorted)
      }),
    )
  })

  test('keys out of order or twice are refused', () => {
    const empty = new Uint8Array()
    for (const second of ['a', 'b']) {
      const block = blockOf([
        ['b', empty],
        [second, empty],
      ])
      expect(() => entriesOf(block)).toThrow(/out of order/)
    }
  })

  test('G15: any bytes give entries or a typed error', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.boolean(), (bytes, isNear) => {
        if (isNear && bytes.length > 0) bytes[0] = 1
        try {
          entriesOf(bytes)
        } catch (error) {
          expect(isReprise(error, 'MALFORMED', 'INCOMPATIBLE_VERSION')).toBe(true)
        }
      }),
    )
  })
})
