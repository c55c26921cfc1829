// Branches of a stream that meet again: in a join, a union, or anything behind them. A batch that went whole through one
// branch and then through the next would reach the place where they meet in another order than its records came, so such
// branches get one record at a time, or whole batches whose records have an `order` by which the place where they meet puts
// them together again (run/meeting.ts). Branches that never meet, and a stream with one reader, keep whole batches.

import type { Edge, OperatorNode, SinkNode } from './graph.ts'

type Node = OperatorNode | SinkNode

/** Every node that records of these edges can reach, up to this one, each after those before it. */
export function reachOf(edges: readonly Edge[], until?: Node): ReadonlySet<Node> {
  const seen = new Set<Node>()
  const backwards: Node[] = []
  const pass = (from: readonly Edge[]) => {
    for (const { to } of from) {
      if (seen.has(to)) continue
      seen.add(to)
      if (to !== until) pass(edgesOf(to))
      backwards.push(to)
    }
  }
  pass(edges)
  return new Set(backwards.reverse())
}

/** The readers of one stream: those that meet again are together. */
export function branchesOf(outlet: readonly Edge[]): (readonly Edge[])[] {
  return groupsThatMeet(outlet.map((edge) => [edge])).map((group) => group.flat())
}

/**
 * The operators in which branches meet, each before those behind it; the last one is where all have met. Null: records may
 * lose their order on the way, because an operator does not keep it or a branch divides once more.
 */
export function meetingsOf(branches: readonly Edge[]): readonly OperatorNode[] | null {
  const reaches = branches.map((edge) => reachOf([edge]))
  const last = [...reachOf(branches)].find((node) => reaches.every((reach) => reach.has(node)))
  if (last?.kind !== 'operator') return null
  const behind = reachOf(edgesOf(last))
  const before = branches.map((edge) => reachOf([edge], last))
  const meetings: OperatorNode[] = []
  for (const node of reachOf(branches, last)) {
    if (node === last) continue
    // Another way around the place where all meet.
    if (behind.has(node)) return null
    if (node.kind === 'sink') continue
    const onward = edgesOf(node).filter((edge) => reachOf([edge], last).has(last))
    if (onward.length > 1 || (onward.length === 1 && !node.make.keepsOrder)) return null
    if (before.filter((reach) => reach.has(node)).length === 1) continue
    if (onward.length === 0) return null
    meetings.push(node)
  }
  const all = [...meetings, last]
  return all.some(doOutletsMeet) ? null : all
}

function edgesOf(node: Node): readonly Edge[] {
  return node.kind === 'operator' ? node.outlets.flat() : []
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
