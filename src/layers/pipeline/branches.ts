// Branches of a stream that meet again: in a join, a union, or anything behind them. A batch that went whole through one
// branch and then through the next would reach the place where they meet in another order than its records came, so such
// branches get one record at a time. Branches that never meet, and a stream with one reader, keep whole batches.

import { type Output, oneByOne, toAll } from './batch.ts'
import type { Edge, OperatorNode, SinkNode } from './graph.ts'

type Node = OperatorNode | SinkNode

/** Every node that records of these edges can reach. */
export function reachOf(edges: readonly Edge[]): ReadonlySet<Node> {
  const reached = new Set<Node>()
  const pass = (from: readonly Edge[]) => {
    for (const { to } of from) {
      if (reached.has(to)) continue
      reached.add(to)
      if (to.kind === 'operator') for (const outlet of to.outlets) pass(outlet)
    }
  }
  pass(edges)
  return reached
}

/** What several readers of one stream get: those that meet again get each record before the next one. */
export function fanOut(edges: readonly Edge[], outputOf: (edge: Edge) => Output): Output {
  const groups = groupsThatMeet(edges.map((edge) => [edge]))
  return toAll(
    groups.map((group) => {
      const all = toAll(group.flat().map(outputOf))
      return group.length === 1 ? all : oneByOne(all)
    }),
  )
}

/** Main and side outputs that meet again: their operator must get one record at a time. */
export function doOutletsMeet({ outlets }: OperatorNode): boolean {
  return groupsThatMeet(outlets).some((group) => group.length > 1)
}

function groupsThatMeet(outlets: readonly (readonly Edge[])[]): (readonly Edge[])[][] {
  let groups: { members: (readonly Edge[])[]; reach: Set<Node> }[] = []
  for (const outlet of outlets) {
    const own = { members: [outlet], reach: new Set(reachOf(outlet)) }
    const apart = groups.filter(({ reach }) => [...reach].every((node) => !own.reach.has(node)))
    for (const { members, reach } of groups.filter((group) => !apart.includes(group))) {
      own.members.unshift(...members)
      for (const node of reach) own.reach.add(node)
    }
    groups = [...apart, own]
  }
  return groups.map(({ members }) => members)
}
