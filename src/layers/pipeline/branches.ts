// Branches of a stream that meet again in a join, a union, or a later operator. If a whole batch passed through one
// branch and then through the next, its records would arrive at the meeting operator out of order. Such branches therefore get
// one record at a time, or whole batches with an `order` column by which the meeting operator sorts the records again
// (run/branch-merge.ts). Branches that never meet, and a stream with one reader, keep whole batches.

import type { Edge, OperatorNode, SinkNode } from './graph.ts'

type Node = OperatorNode | SinkNode

/** Every node that records of these edges can reach, up to `until`, in topological order. */
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

/** The readers of one stream, grouped: readers whose branches meet again share a group. */
export function branchesOf(outlet: readonly Edge[]): (readonly Edge[])[] {
  return groupsThatMeet(outlet.map((edge) => [edge])).map((group) => group.flat())
}

/**
 * The operators in which branches meet, in topological order; all branches meet in the last one. Null: records may lose their
 * order, because an operator does not keep it or a branch divides again.
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
    // A path bypasses the operator where all branches meet.
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

/** Whether main and side outputs meet again: their operator must then get one record at a time. */
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
