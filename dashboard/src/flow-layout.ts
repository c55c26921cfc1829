// The layout of a flow: sources on the left, each part to the right of the parts that feed it.

import type { FlowPart } from './types.ts'

export const box = { width: 172, height: 74, gapX: 44, gapY: 16 }

export interface Placed {
  readonly part: FlowPart
  readonly x: number
  readonly y: number
}

export interface Layout {
  readonly width: number
  readonly height: number
  readonly boxes: readonly Placed[]
  readonly lines: readonly { readonly key: string; readonly path: string; readonly isHeld: boolean }[]
}

export function layoutOf(parts: readonly FlowPart[]): Layout {
  const columns = columnsOf(parts)
  const filled = new Map<number, number>()
  const boxes = parts.map((part): Placed => {
    const column = columns.get(part.name)!
    const row = filled.get(column) ?? 0
    filled.set(column, row + 1)
    return { part, x: column * (box.width + box.gapX) + 1, y: row * (box.height + box.gapY) + 1 }
  })
  const byName = new Map(boxes.map((each) => [each.part.name, each]))
  const lines = boxes.flatMap((from) =>
    from.part.to.flatMap((name) => {
      const to = byName.get(name)
      return to ? [lineOf(from, to)] : []
    }),
  )
  return {
    width: Math.max(0, ...boxes.map(({ x }) => x + box.width + 1)),
    height: Math.max(0, ...boxes.map(({ y }) => y + box.height + 1)),
    boxes,
    lines,
  }
}

/** The longest path from a source. The parts are ordered, but a cycle would not end: this many steps are enough. */
function columnsOf(parts: readonly FlowPart[]): Map<string, number> {
  const columns = new Map(parts.map(({ name }) => [name, 0]))
  for (let steps = 0; steps < parts.length; steps += 1) {
    let hasMoved = false
    for (const { name, to } of parts) {
      for (const next of to) {
        const column = Math.min(parts.length - 1, columns.get(name)! + 1)
        if ((columns.get(next) ?? column) >= column) continue
        columns.set(next, column)
        hasMoved = true
      }
    }
    if (!hasMoved) break
  }
  return columns
}

function lineOf(from: Placed, to: Placed) {
  const [x1, y1] = [from.x + box.width, from.y + box.height / 2]
  const [x2, y2] = [to.x - 5, to.y + box.height / 2]
  const middle = (x1 + x2) / 2
  return {
    key: `${from.part.name} ${to.part.name}`,
    path: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`,
    isHeld: from.part.backpressured >= 0.1,
  }
}
