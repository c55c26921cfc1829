// Time as graphics: the bar of one row, and the strip that shows the whole run at once. Both accompany a list with the same
// content as text, so screen readers miss nothing.

import type { Row, Scale, SpanKind } from './journal.ts'

const barHeight = 10

export function Bar({ row, scale, width, now }: { row: Row; scale: Scale; width: number; now: number }) {
  const x = (time: number) => scale.place(time) * width
  const isPoint = row.spans.length === 0
  return (
    <svg class="bar" width={width} height="30" aria-hidden="true">
      {scale.folds.map((fold) => (
        <rect
          key={fold.from}
          class="fold"
          x={x(fold.from)}
          y="0"
          width={Math.max(1, x(fold.to) - x(fold.from))}
          height="30"
        />
      ))}
      {row.spans.map((span, i) => {
        const from = x(span.from)
        const to = x(Math.min(span.to ?? now, Math.max(now, span.from)))
        return (
          <rect
            key={i}
            class={`span ${span.kind}${span.to === null ? ' open' : ''}`}
            x={from}
            y={span.kind === 'pause' || span.kind === 'sleep' ? 13 : 10}
            width={Math.max(2, to - from)}
            height={span.kind === 'pause' || span.kind === 'sleep' ? 4 : barHeight}
            rx="2"
          />
        )
      })}
      {isPoint && (
        <circle class={`point ${row.state}`} cx={Math.min(Math.max(x(row.from), 4), width - 4)} cy="15" r="3.5" />
      )}
    </svg>
  )
}

const stripHeight = 44
const lanes = 5

/** Every row as a thin line, in lanes. It shows time; the visible part of the list is not marked. */
export function Strip({
  rows,
  scale,
  width,
  now,
  chosen,
}: {
  rows: readonly Row[]
  scale: Scale
  width: number
  now: number
  chosen: number
}) {
  const x = (time: number) => Math.round(scale.place(time) * width)
  const drawn = new Set<string>()
  // One path for each kind of span: thousands of shapes would be thousands of elements, drawn anew with every page of entries.
  const paths = new Map<SpanKind, string[]>()
  const lane = (stripHeight - 14) / lanes
  for (const [i, row] of rows.entries()) {
    for (const span of row.spans) {
      const from = x(span.from)
      const to = x(span.to ?? now)
      const y = 4 + (i % lanes) * lane
      const key = `${span.kind}:${from}:${to}:${y}`
      // Rows on the same pixels are drawn once: there may be thousands.
      if (drawn.has(key)) continue
      drawn.add(key)
      const boxes = paths.get(span.kind) ?? []
      paths.set(span.kind, boxes)
      boxes.push(`M${from} ${y}h${Math.max(1.5, to - from)}v${lane - 2}h-${Math.max(1.5, to - from)}z`)
    }
  }
  const row = rows[chosen]
  return (
    <svg class="strip" width={width} height={stripHeight} aria-hidden="true">
      {scale.folds.map((fold) => {
        const [from, to] = [x(fold.from), x(fold.to)]
        return (
          <g key={fold.from}>
            <rect class="fold" x={from} y="0" width={Math.max(1, to - from)} height={stripHeight} />
            <path class="fold-mark" d={`M${(from + to) / 2 - 2} ${stripHeight - 9}l2 -2.5 l2 5 l2 -2.5`} />
          </g>
        )
      })}
      {[...paths].map(([kind, boxes]) => (
        <path key={kind} class={`span ${kind}`} d={boxes.join('')} />
      ))}
      {row && <line class="cursor" x1={x(row.from)} x2={x(row.from)} y1="0" y2={stripHeight} />}
    </svg>
  )
}
