import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { toHex } from '../coordinate.ts'
import {
  besides,
  decodeGroup,
  encodeGroup,
  type Group,
  lanes,
  type Member,
  ParityBuilder,
  rebuild,
  stripes,
} from './parity.ts'

const hash = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest())
const chunk = fc.uint8Array({ minLength: 1, maxLength: 400 })
const chunks = (maxLength: number) =>
  fc.uniqueArray(chunk, { minLength: 1, maxLength, selector: (bytes) => toHex(bytes) })

function groupOf(builder: ParityBuilder): Group {
  const { parity, members } = builder
  return { members: [...members], parityBytes: parity.length, parityDigest: hash(parity) }
}

/** Rebuilds each member from the others alone, then each lane as a whole, as if one damaged place had lost it. */
function expectEachRebuilt(builder: ParityBuilder, bytesOf: ReadonlyMap<string, Uint8Array>): void {
  const group = groupOf(builder)
  const { parity } = builder
  for (const wanted of group.members) {
    const beside = besides(group, wanted)
    expect(beside.every(({ lane }) => lane !== wanted.lane)).toBe(true)
    const others = beside.map((member): [Member, Uint8Array] => [member, bytesOf.get(toHex(member.digest))!])
    expect(hash(rebuild(wanted, parity, others))).toEqual(wanted.digest)
  }
}

function filled(all: readonly Uint8Array[], builder = new ParityBuilder()) {
  const bytesOf = new Map<string, Uint8Array>()
  for (const bytes of all) {
    bytesOf.set(toHex(hash(bytes)), bytes)
    builder.add(hash(bytes), bytes)
  }
  return { builder, bytesOf }
}

describe('parity', () => {
  test('any one chunk, and any one lane of chunks, is rebuilt from the others', () => {
    fc.assert(
      fc.property(chunks(40), (all) => {
        const { builder, bytesOf } = filled(all)
        expectEachRebuilt(builder, bytesOf)
      }),
    )
  })

  test('a group whose members leave, and that others join, still rebuilds each', () => {
    fc.assert(
      fc.property(chunks(30), chunks(30), fc.array(fc.nat(60), { maxLength: 40 }), (some, more, leaving) => {
        const { builder, bytesOf } = filled(some)
        const isNew = more.filter((bytes) => !bytesOf.has(toHex(hash(bytes))))
        const other = filled(isNew)
        builder.adopt(groupOf(other.builder), other.builder.parity)
        for (const [name, bytes] of other.bytesOf) bytesOf.set(name, bytes)
        for (const at of leaving) {
          const member = builder.members[at]
          if (member) builder.remove(member, bytesOf.get(toHex(member.digest))!)
        }
        expectEachRebuilt(builder, bytesOf)
        const again = isNew[0]
        if (again && !builder.members.some(({ digest }) => toHex(digest) === toHex(hash(again)))) {
          builder.add(hash(again), again)
          expectEachRebuilt(builder, bytesOf)
        }
      }),
    )
  })

  test('no two chunks of a lane lie on each other', () => {
    fc.assert(
      fc.property(chunks(40), chunks(20), (some, more) => {
        const { builder } = filled(some)
        const other = filled(more)
        builder.adopt(groupOf(other.builder), other.builder.parity)
        for (let lane = 0; lane < lanes; lane++) {
          const own = builder.members.filter((member) => member.lane === lane).sort((a, b) => a.offset - b.offset)
          for (const [i, member] of own.entries()) {
            expect(member.offset).toBeGreaterThanOrEqual(i === 0 ? 0 : own[i - 1]!.offset + own[i - 1]!.bytes)
          }
        }
      }),
    )
  })

  test('a full group of chunks of any size costs little more than one lane', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 4096, max: 65536 }), { minLength: 64, maxLength: 80 }), (sizes) => {
        const builder = new ParityBuilder()
        let sum = 0
        for (const [i, size] of [...sizes].sort((a, b) => b - a).entries()) {
          builder.add(hash(Uint8Array.of(i)), new Uint8Array(size))
          sum += size
        }
        expect(builder.parity.length / sum).toBeLessThan(0.1)
      }),
      { numRuns: 20 },
    )
  })

  test('chunks that begin anywhere in a buffer are rebuilt: as parts of a larger one they often do', () => {
    fc.assert(
      fc.property(chunks(20), fc.integer({ min: 1, max: 7 }), (all, shift) => {
        const shifted = all.map((bytes) => {
          const buffer = new Uint8Array(bytes.length + shift)
          buffer.set(bytes, shift)
          return buffer.subarray(shift)
        })
        const { builder, bytesOf } = filled(shifted)
        expectEachRebuilt(builder, bytesOf)
      }),
    )
  })

  test('the number of lanes is part of the format: files have a table for each', () => {
    expect([lanes, stripes]).toEqual([14, 15])
  })

  test('bytes that are no group are refused, whichever byte is cut or changed', () => {
    const { builder } = filled(Array.from({ length: 20 }, (_, i) => new Uint8Array(i + 1).fill(i)))
    const encoded = encodeGroup(groupOf(builder))
    expect(decodeGroup(encoded)).toEqual(groupOf(builder))
    for (let end = 0; end < encoded.length; end++) {
      expect(() => decodeGroup(encoded.subarray(0, end))).toThrow(expect.objectContaining({ code: 'MALFORMED' }))
    }
    expect(() => decodeGroup(Uint8Array.of(9, ...encoded.subarray(1)))).toThrow(
      expect.objectContaining({ code: 'INCOMPATIBLE_VERSION' }),
    )
  })
})
