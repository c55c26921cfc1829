import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Codec } from '../../../core/codec/codec.ts'
import { ColumnPacker, ColumnReader, type PackedColumn } from './columns.ts'

const codec = new Codec()
const [packer, reader] = [new ColumnPacker(), new ColumnReader()]

function sent(items: readonly unknown[]): readonly unknown[] {
  return reader.list(codec.decode(codec.encode(packer.pack(items))) as PackedColumn)
}

const text = fc.oneof(fc.string({ maxLength: 80 }), fc.string({ unit: 'binary', maxLength: 20 }), fc.constant('ann'))
const field = fc.oneof(
  fc.double(),
  fc.integer(),
  text,
  fc.boolean(),
  fc.constantFrom(null, undefined, 12n, new Date(5)),
)
// The codec gives objects without a prototype the usual one.
const plain = { noNullPrototype: true }
const shape = fc.record({ n: fc.double(), user: text, at: fc.record({ x: fc.integer(), y: field }, plain) }, plain)
const other = fc.dictionary(fc.constantFrom('n', 'user', 'at', 'b'), field, plain)

it('a column arrives as it was sent: numbers, texts, objects of one form, and mixtures', () => {
  const long = { minLength: 6, maxLength: 40 }
  const column = fc.oneof(
    ...[fc.double(), fc.integer(), text, shape, other, field].map((each) =>
      fc.array(each as fc.Arbitrary<unknown>, long),
    ),
    fc.array(fc.oneof(shape, other, field, fc.array(field)), long),
  )
  const arrives = (items: readonly unknown[]) => {
    expect(sent(items)).toStrictEqual(items)
  }
  fc.assert(fc.property(column, arrives))
})

it('columns of one form become typed arrays, and equal texts one string', () => {
  const items = Array.from({ length: 5000 }, (_, n) => ({ n, user: `user-${n % 10}` }))
  const packed = packer.pack(items) as { readonly columns: readonly unknown[] }
  expect(packed.columns).toEqual([expect.any(Float64Array), expect.objectContaining({ ends: expect.any(Uint32Array) })])
  expect(sent(items)).toStrictEqual(items)
})

it('the codec still refuses what is no plain data', () => {
  const refused = { code: 'UNSERIALIZABLE' }
  const many = (item: unknown) => Array.from({ length: 20 }, () => item)
  for (const item of [{ run: () => 1 }, { [Symbol('s')]: 1 }, { list: new Worker() }]) {
    expect(() => sent(many(item))).toThrow(expect.objectContaining(refused))
  }
})

class Worker {}
