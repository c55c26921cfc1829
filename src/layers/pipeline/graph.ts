// The graph of a definition: sources, operators and sinks, with the names under which their state is kept. The graph is drawn
// once per run and checked; the flow then turns it into a chain of functions.

import { RepriseError } from '../../core/errors.ts'
import { checkObject } from '../../core/options.ts'
import { type Reads, readsAttribute } from '../../engine/branch/consumers.ts'
import { checkName, type Engine } from '../../engine/model/definition.ts'
import type { MakeOperator, OperatorResource } from './operator.ts'
import type { Sink } from './sink.ts'
import type { Source } from './source.ts'

/** The readers of a stream: each gets every record. */
export type Outlet = Edge[]

export interface Edge {
  readonly to: OperatorNode | SinkNode
  /** The index of the node's input. */
  readonly input: number
}

export interface SourceNode {
  readonly kind: 'source'
  readonly name: string
  readonly source: Source<unknown>
  readonly decode: ((value: never) => unknown) | null
  readonly time: ((value: never) => number) | null
  readonly outOfOrderMs: number
  readonly idleMs: number | null
  /** True if all records of a key are in one partition. */
  readonly isKeyed: boolean
  readonly outlet: Outlet
}

export interface OperatorNode {
  readonly kind: 'operator'
  /** The identity of the operator's state, or a generated name if it has none. */
  readonly name: string
  /** The kind of the operator's state; null: no state. Under the same name, another kind is another state. */
  readonly state: string | null
  readonly make: MakeOperator
  /** True: its records are sent to the instance that owns their key. */
  readonly isExchange: boolean
  /** True: its records are sent to the instances in turns. */
  readonly isSpread: boolean
  /** True: its state has no key, so there is one instance regardless of the parallelism. */
  readonly isSingle: boolean
  /** Opens the resource before the first record of each run. */
  readonly open: ((engine: Engine) => Promise<OperatorResource>) | null
  readonly outlets: readonly Outlet[]
}

export interface SinkNode {
  readonly kind: 'sink'
  readonly name: string
  readonly sink: Sink<never>
}

export class Graph {
  readonly sources: SourceNode[] = []
  readonly operators: OperatorNode[] = []
  readonly sinks: SinkNode[] = []
  readonly #names = new Set<string>()

  /** Sources, operators with state, and sinks share one name space: each name is an identity in checkpoints. */
  name(what: string, name: string): string {
    checkName(what, name)
    if (this.#names.has(name)) {
      throw new RepriseError('INVALID_ARGUMENT', `two parts of the pipeline are called "${name}": rename one`, { name })
    }
    this.#names.add(name)
    return name
  }

  /** A numbered name for an operator without state, for dead letters and metrics. */
  unnamed(what: string): string {
    return `${what}#${this.operators.filter(({ name }) => name.startsWith(`${what}#`)).length + 1}`
  }

  /** Opens the outside resources of operators, by operator name. */
  async open(engine: Engine): Promise<Map<string, OperatorResource>> {
    const opened = new Map<string, OperatorResource>()
    try {
      for (const { name, open } of this.operators) if (open) opened.set(name, await open(engine))
      return opened
    } catch (error) {
      for (const resource of opened.values()) resource.close()
      throw error
    }
  }

  check(pipeline: string): void {
    if (this.sources.length === 0) {
      throw new RepriseError('INVALID_ARGUMENT', `the pipeline ${pipeline} has no source: add one with p.from()`)
    }
    if (this.sinks.length === 0) {
      throw new RepriseError('INVALID_ARGUMENT', `the pipeline ${pipeline} has no sink: end a stream with .to()`)
    }
  }
}

/** The attribute of the timeline that lists what its sources read of the store's feed. */
export function notedReads({ sources }: Pick<Graph, 'sources'>): Readonly<Record<string, string>> {
  const reads = sources.flatMap(({ source }) => source.reads ?? [])
  if (reads.length === 0) return {}
  const noted: Reads = { scopes: reads.flatMap(({ scopes }) => scopes), forks: reads.some(({ forks }) => forks) }
  return { [readsAttribute]: JSON.stringify(noted) }
}

/** A stream that is being drawn. */
interface Drawn {
  readonly graph: Graph
  readonly outlet: Outlet
}

/** Adds an operator with these streams as its inputs, in order. Returns the outlets of its results. */
export function draw(
  stream: Drawn,
  others: readonly Drawn[],
  name: string,
  state: string | null,
  make: MakeOperator,
  sides: readonly Outlet[] = [],
  how: Partial<Pick<OperatorNode, 'isExchange' | 'isSpread' | 'isSingle' | 'open'>> = {},
): Outlet {
  for (const each of others) checkObject(`${name}: the other stream`, each)
  const { graph } = stream
  const outlet: Outlet = []
  const { isExchange = false, isSpread = false, isSingle = false, open = null } = how
  const node: OperatorNode = {
    ...{ kind: 'operator', name, state, make, isExchange, isSpread, isSingle, open },
    outlets: [outlet, ...sides],
  }
  graph.operators.push(node)
  for (const [input, each] of [stream, ...others].entries()) {
    if (each.graph !== graph) {
      throw new RepriseError('INVALID_ARGUMENT', `${name}: the streams must belong to one pipeline`, { name })
    }
    const edge: Edge = { to: node, input }
    each.outlet.push(edge)
  }
  return outlet
}
