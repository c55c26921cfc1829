import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Marked, Marks } from './settled-positions.ts'

const moves = fc.array(fc.oneof(fc.constant('read' as const), fc.constant('pass' as const), fc.nat(50)), {
  maxLength: 80,
})

describe('the marks of a source', () => {
  it('reach a position exactly when everything read before it is settled', () => {
    fc.assert(
      fc.property(moves, (moves) => {
        const marks = new Marks(null)
        const outstanding: { readonly item: Marked; readonly read: number }[] = []
        let read = 0
        let passed = 0
        let written = 0
        for (const move of moves) {
          if (move === 'read') {
            const item = { mark: marks.tip }
            marks.take(item)
            outstanding.push({ item, read })
            read += 1
          } else if (move === 'pass') {
            passed = read
            marks.pass({ position: read, ordinal: read })
          } else {
            const settled = outstanding.splice(move % Math.max(1, outstanding.length), 1).map(({ item }) => item)
            const cursor = marks.reachedWith(settled)
            marks.settle(settled, cursor)
            if (cursor) written = cursor.ordinal
          }
          // Never past an unsettled item, nor past the source's position.
          const first = Math.min(...outstanding.map(({ read }) => read), passed)
          expect(written).toBeLessThanOrEqual(first)
        }
        const rest = outstanding.map(({ item }) => item)
        const last = marks.reachedWith(rest)
        marks.settle(rest, last)
        expect(last?.ordinal ?? written).toBe(passed)
      }),
      { numRuns: 500 },
    )
  })

  it('report nothing twice, and settle an item once', () => {
    const marks = new Marks(null)
    const item = { mark: marks.tip }
    marks.take(item)
    const cursor = { position: 'p', ordinal: 1 }
    marks.pass(cursor)
    expect(marks.reachedWith([])).toBeNull()
    expect(marks.reachedWith([item])).toBe(cursor)
    marks.settle([item], cursor)
    expect(marks.reachedWith([])).toBeNull()
    expect(() => marks.settle([item], null)).toThrow('settled once')
  })
})
