import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ByteWriter } from '../bytes.ts'
import { RepriseError } from '../errors.ts'
import { beginBlock, readBlock, writeEntry } from './block.ts'
import { BlockView } from './block-view.ts'

const key = fc.oneof(
  fc.string({ maxLength: 6 }),
  fc.string({ unit: 'binary', maxLength: 4 }),
  fc.string({ minLength: 60, maxLength: 140 }),
  fc.constantFrom('', 'a', 'a\u0000', 'aa', '\ud800', '\udc00a', 'é', '\uffff'),
)
const value = fc.option(fc.uint8Array({ maxLength: 200 }), { nil: null })
const entries = fc
  .uniqueArray(fc.tuple(key, value), { selector: ([each]) => each, maxLength: 40 })
  .map((all) => all.sort(([a], [b]) => (a < b ? -1 : 1)))

function blockOf(all: readonly (readonly [string, Uint8Array | null])[]): Uint8Array {
  const writer = new ByteWriter(64)
  beginBlock(writer)
  for (const [each, bytes] of all) writeEntry(writer, each, bytes)
  return writer.take()
}

const refused = (word: string) => expect.objectContaining({ code: 'MALFORMED', message: expect.stringContaining(word) })

describe('BlockView', () => {
  it('has the entries that were written, in order, and finds each by its key and no other', () => {
    fc.assert(
      fc.property(entries, key, (all, other) => {
        // Stores return blocks in the middle of other bytes.
        const block = blockOf(all)
        const view = new BlockView(Buffer.concat([Buffer.from([9, 9]), block]).subarray(2), all.length)
        expect(view.size).toBe(all.length)
        all.forEach(([each, bytes], at) => {
          expect(view.key(at)).toBe(each)
          expect(view.value(at)).toEqual(bytes === null ? null : new Uint8Array(bytes))
          expect(view.find(each)).toBe(at)
        })
        expect(view.find(other)).toBe(all.findIndex(([each]) => each === other))
      }),
    )
  })

  it('refuses what readBlock refuses, whatever bytes it is given', () => {
    fc.assert(
      fc.property(entries, fc.nat(), fc.nat({ max: 255 }), fc.nat({ max: 40 }), (all, place, byte, cut) => {
        const block = blockOf(all)
        block[place % block.length] = byte
        const bytes = block.subarray(0, Math.max(1, block.length - cut))
        const read: string[] = []
        let isRefused = false
        try {
          readBlock(bytes, (each) => read.push(each))
        } catch {
          isRefused = true
        }
        const keys = () => {
          const view = new BlockView(bytes, all.length)
          return Array.from(all, (_, at) => view.key(at))
        }
        if (isRefused || read.length !== all.length) expect(keys).toThrow(RepriseError)
        else expect(keys()).toEqual(read)
      }),
      { numRuns: 2000 },
    )
  })

  it('refuses another number of entries than is known of it, and keys out of order', () => {
    const some = ['a', 'b', 'c'].map((each) => [each, new Uint8Array([1])] as const)
    expect(() => new BlockView(blockOf(some), 2)).toThrow(refused('more than 2'))
    expect(() => new BlockView(blockOf(some), 4)).toThrow(refused('has 3'))
    expect(() => new BlockView(blockOf(some), 1e9)).toThrow(refused('fewer'))
    expect(() => new BlockView(blockOf([some[1]!, some[0]!]), 2)).toThrow(refused('order'))
    expect(() => new BlockView(blockOf([some[0]!, some[0]!]), 2)).toThrow(refused('order'))
    expect(
      () =>
        new BlockView(
          blockOf([
            [`é`, null],
            ['a', null],
          ]),
          2,
        ),
    ).toThrow(refused('order'))
  })
})
