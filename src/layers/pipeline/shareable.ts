// Checks whether several processes can share a pipeline, each with partitions of its own. Tasks do not communicate: a key must
// stay within the partition of its records, or pass through a broker topic that one pipeline writes and another reads.

import { RepriseError } from '../../core/errors.ts'
import type { Edge, Graph, OperatorNode } from './graph.ts'

/** The reasons against sharing. */
export function shareFaults(graph: Graph): readonly string[] {
  const faults: string[] = []
  for (const { name: source, source: given } of graph.sources) {
    if (!given.partitions) faults.push(`the source ${source} has no partitions to share`)
  }
  const keyedBefore = exchangesBefore(graph)
  for (const node of graph.operators.filter(({ isExchange, isSpread }) => isExchange && !isSpread)) {
    const { sources, hasExchange } = keyedBefore.get(node)!
    const unkeyed = [...sources].filter((each) => !graph.sources.some((own) => own.name === each && own.isKeyed))
    if (hasExchange) faults.push(`${node.name} sets a second key, whose records come from several partitions`)
    else if (unkeyed.length > 0) {
      faults.push(
        `${node.name} needs all records of a key in one partition: set { keyed: true } on ${unkeyed.join(', ')} if that is the case`,
      )
    }
  }
  return faults
}

/** Throws INVALID_ARGUMENT with all reasons against sharing. */
export function checkShareable(name: string, graph: Graph): void {
  const faults = shareFaults(graph)
  if (faults.length === 0) return
  const what = `the pipeline ${name} cannot be shared by several processes: ${faults.join('; ')}. Run it in one process with rp.run(), or end it in a topic by the new key and read it in a second pipeline`
  throw new RepriseError('INVALID_ARGUMENT', what, { faults })
}

interface Before {
  readonly sources: Set<string>
  hasExchange: boolean
}

/** For each operator: the sources that flow into it, and whether a key was set on the way. */
function exchangesBefore(graph: Graph): ReadonlyMap<OperatorNode, Before> {
  const before = new Map<OperatorNode, Before>()
  for (const node of graph.operators) before.set(node, { sources: new Set(), hasExchange: false })
  const pass = (edges: readonly Edge[], sources: Iterable<string>, hasExchange: boolean) => {
    for (const { to } of edges) {
      if (to.kind !== 'operator') continue
      const own = before.get(to)!
      for (const source of sources) own.sources.add(source)
      own.hasExchange ||= hasExchange
    }
  }
  for (const { name, outlet } of graph.sources) pass(outlet, [name], false)
  // Streams are drawn before their readers.
  for (const node of graph.operators) {
    const { sources, hasExchange } = before.get(node)!
    for (const outlet of node.outlets) pass(outlet, sources, hasExchange || (node.isExchange && !node.isSpread))
  }
  return before
}
