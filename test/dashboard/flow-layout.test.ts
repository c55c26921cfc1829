// Where the parts of a pipeline are drawn.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { box, layoutOf } from '../../dashboard/src/flow-layout.ts'
import type { FlowPart } from '../../dashboard/src/types.ts'

function part(name: string, to: readonly string[]): FlowPart {
  const figures = { records: 0, perSecond: 0, busy: 0, backpressured: 0, idle: 1, keys: 0, inFlight: 0 }
  return { name, kind: 'operator', to, ...figures, watermark: null, lagMs: null, isEnded: false }
}

/** Each part sends to later ones only. */
const graphs = fc.integer({ min: 1, max: 12 }).chain((count) =>
  fc
    .array(fc.array(fc.integer({ min: 1, max: count }), { maxLength: 3 }), { minLength: count, maxLength: count })
    .map((steps) =>
      steps.map((each, i) => {
        const to = [...new Set(each.map((step) => i + step).filter((next) => next < count))]
        return part(
          `p${i}`,
          to.map((next) => `p${next}`),
        )
      }),
    ),
)

it('each part is to the right of its inputs, and none covers another', () => {
  fc.assert(
    fc.property(graphs, (parts) => {
      const { boxes, lines, width, height } = layoutOf(parts)
      const byName = new Map(boxes.map((each) => [each.part.name, each]))
      for (const from of boxes) {
        for (const to of from.part.to) expect(byName.get(to)!.x).toBeGreaterThanOrEqual(from.x + box.width + box.gapX)
        expect(from.x + box.width).toBeLessThanOrEqual(width)
        expect(from.y + box.height).toBeLessThanOrEqual(height)
      }
      expect(new Set(boxes.map(({ x, y }) => `${x} ${y}`)).size).toBe(parts.length)
      expect(lines).toHaveLength(parts.reduce((sum, { to }) => sum + to.length, 0))
    }),
  )
})

it('a cycle, or an edge to a missing part, is still drawn', () => {
  const { boxes, lines } = layoutOf([part('a', ['b', 'gone']), part('b', ['a'])])
  expect(boxes.map(({ part: { name } }) => name)).toEqual(['a', 'b'])
  expect(lines).toHaveLength(2)
})
