import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { numberNames, packChannel, spellNames, unpackChannel } from './names.ts'
import type { CheckpointData } from './thread-entries.ts'

const name = fc.oneof(
  fc.constantFrom('__start__', 'messages', 'step', 'branch:to:answer', '__proto__', 'constructor', ''),
  fc.string(),
)
const difference = <V>(value: fc.Arbitrary<V>) =>
  fc
    .tuple(fc.array(fc.tuple(name, value), { maxLength: 4 }), fc.array(name, { maxLength: 3 }))
    .map(([set, gone]): [(string | V)[], string[]] => [set.flat() as (string | V)[], gone])
const versions = fc.oneof(fc.nat(), fc.string())
const seen = fc
  .array(fc.tuple(name, versions), { maxLength: 3 })
  .map((pairs) => Object.fromEntries(pairs) as Record<string, string | number>)

describe('names of an entry', () => {
  it('C11 are the same after numbering and spelling, whatever they are', () => {
    fc.assert(
      fc.property(
        difference(versions),
        difference(seen),
        difference(fc.uint8Array({ maxLength: 4 })),
        difference(fc.nat(5)),
        (...[versionsOf, seenOf, metadata, channels]) => {
          const data: CheckpointData = ['', 'id', null, 4, 1, versionsOf, seenOf, metadata, channels, [], [], null]
          expect(spellNames(numberNames(data))).toEqual(data)
          // Entries written before names had numbers.
          expect(spellNames(data)).toBe(data)
        },
      ),
    )
  })

  it('C11 are written once an entry, and not at all where LangGraph itself uses them', () => {
    const of = 'branch:to:answer'
    const data: CheckpointData = [
      ...(['', 'id', null, 4, 1] as const),
      [[of, 1, 'messages', 1], []],
      [[of, { [of]: 1 }], []],
      [['step', new Uint8Array()], []],
      [['messages', 0], [of]],
      ...([[], [], null] as const),
    ]
    expect(numberNames(data).at(-1)).toEqual([of])
    expect(packChannel('messages')).toBe(12)
    for (const channel of ['messages', of]) expect(unpackChannel(packChannel(channel))).toBe(channel)
  })
})
