// Forks and rollbacks as a graph, like `git log --graph`: one line per branch, drawn from the point where it left its parent.

import { hrefOf } from './route.ts'
import type { Relative } from './travel.tsx'
import { Status, Time } from './ui.tsx'

const lineHeight = 46
const laneWidth = 18

interface Placed extends Relative {
  readonly lane: number
  readonly line: number
}

/** Parents before children, each child directly below its parent. */
export function placeBranches(relatives: readonly Relative[]): Placed[] {
  const known = new Set(relatives.map(({ timeline }) => timeline))
  const children = new Map<string, Relative[]>()
  for (const each of relatives) {
    const parent = each.base && known.has(each.base.timeline) ? each.base.timeline : ''
    children.set(parent, [...(children.get(parent) ?? []), each])
  }
  const placed: Placed[] = []
  const visit = (parent: string, lane: number) => {
    const below = (children.get(parent) ?? []).sort((a, b) => (a.base?.seq ?? 0) - (b.base?.seq ?? 0))
    for (const each of below) {
      placed.push({ ...each, lane, line: placed.length })
      visit(each.timeline, lane + 1)
    }
  }
  visit('', 0)
  return placed
}

export function Tree({ relatives, current, seq }: { relatives: readonly Relative[]; current: string; seq: number }) {
  const placed = placeBranches(relatives)
  const byId = new Map(placed.map((each) => [each.timeline, each]))
  const lanes = Math.max(1, ...placed.map(({ lane }) => lane + 1))
  const x = (lane: number) => 10 + lane * laneWidth
  const y = (line: number) => 16 + line * lineHeight
  return (
    <div class="tree">
      <svg width={lanes * laneWidth + 6} height={placed.length * lineHeight} aria-hidden="true">
        {placed.map((each) => {
          const parent = each.base ? byId.get(each.base.timeline) : undefined
          if (!parent) return null
          const [fromX, fromY, toX, toY] = [x(parent.lane), y(parent.line), x(each.lane), y(each.line)]
          return (
            <path
              key={each.timeline}
              class="branch"
              d={`M${fromX} ${fromY}V${toY - 12}Q${fromX} ${toY} ${toX} ${toY}`}
            />
          )
        })}
        {placed.map((each) => (
          <circle
            key={each.timeline}
            class={`node ${each.timeline === current ? 'current' : ''} ${each.isArchive ? 'archive' : ''}`}
            cx={x(each.lane)}
            cy={y(each.line)}
            r="5"
          />
        ))}
      </svg>
      <ol>
        {placed.map((each) => (
          <li key={each.timeline} class={each.timeline === current ? 'current' : ''}>
            <a
              href={hrefOf(['t', each.timeline], { tab: 'travel' })}
              title={each.timeline}
              aria-current={each.timeline === current ? 'true' : undefined}
            >
              <span class="id">{each.timeline}</span>
            </a>
            <span class="dim">
              {each.timeline === current ? `${seq} of ${each.seq}` : `to ${each.seq}`}
              {each.base && `, from ${each.base.seq}`}, <Time at={each.updatedAt} />{' '}
              {each.status && <Status status={each.status} />}
            </span>
          </li>
        ))}
      </ol>
    </div>
  )
}
