// A declared graph of steps as a workflow: each node is a step that begins once the nodes before it are done. A run of it
// is a run like any other, so `rerun` of one node, forks and rollbacks work as for workflows.

import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkGivenOptions, checkObject, checkValues, namesOf } from '../../core/options.ts'
import type { RetryPolicy } from '../../core/retry/retry.ts'
import { checkFunction, refuseThenable } from '../../core/synchronous.ts'
import { hostOf } from '../../engine/host/host.ts'
import { type Engine, runs } from '../../engine/model/definition.ts'
import { type Recallable, recallingOf } from '../../engine/model/memo-protocol.ts'
import type { StepCall, StepSettings, WorkflowContext } from './context.ts'
import { type WorkflowDefinition, workflow } from './definition.ts'
import type { StartOptions, WorkflowOptions } from './options.ts'
import type { NamedMemos } from './run/bound-context.ts'

// biome-ignore lint/suspicious/noExplicitAny: each node has a result type of its own.
export type DagResults = Readonly<Record<string, any>>

export type DagNode<Input> = Omit<StepSettings<unknown>, 'after' | 'input'> & {
  /** The nodes whose results the node uses. Default: none. */
  readonly after?: readonly string[]
} & (DagFunction<Input> | DagMemo<Input>)

export interface DagFunction<Input> {
  /** `results`: of the nodes that it names in `after`. */
  readonly run: (results: DagResults, input: Input, step: StepCall) => unknown
  /** Undoes the node, as the option of a step. */
  readonly compensate?: (result: unknown, step: StepCall) => unknown
  readonly compensateRetry?: RetryPolicy
  readonly memo?: undefined
}

export interface DagMemo<Input> {
  /** The node's result is that of this memo, which computes only what has changed since another run. */
  // biome-ignore lint/suspicious/noExplicitAny: memos of all arguments.
  readonly memo: Recallable<any, unknown>
  /** The arguments of the memo. */
  readonly arguments: (results: DagResults, input: Input) => readonly unknown[]
  readonly run?: undefined
}

/** A node of either kind. */
interface AnyNode<Input>
  extends StepSettings<unknown>,
    Partial<Pick<DagFunction<Input>, 'run' | 'compensate' | 'compensateRetry'>>,
    Partial<Pick<DagMemo<Input>, 'arguments'>> {
  readonly memo?: DagMemo<Input>['memo'] | undefined
}

export type DagNodes<Input> = Readonly<Record<string, DagNode<Input>>>

/** The input of a run of a backfill. */
export interface DagSlice {
  /** A day, as YYYY-MM-DD. */
  readonly day: string
  readonly partition?: string
}

export interface BackfillOptions extends Pick<StartOptions, 'attributes' | 'priority' | 'here'> {
  /** The first and the last day, as YYYY-MM-DD. */
  readonly from: string
  readonly to: string
  /** One run per day and partition. Default: one run per day. */
  readonly partitions?: readonly string[]
  /** Re-runs this node, and what depends on it, in runs that completed. Default: completed runs are skipped. */
  readonly rerun?: string
  /** A repeated backfill with the same key re-runs each run once, also after a kill. */
  readonly key?: string
  /** The number of runs at a time. Default: 4. */
  readonly concurrency?: number
}

export interface BackfillReport {
  /** The ids of the runs: `DAY`, or `PARTITION/DAY`. */
  readonly completed: readonly string[]
  /** Runs that had completed before, and were skipped. */
  readonly skipped: readonly string[]
  readonly failed: readonly { readonly id: string; readonly why: string }[]
}

export interface DagDefinition<Input = unknown> extends WorkflowDefinition<Input, DagResults> {
  /** The nodes in an order in which each follows those that it depends on. */
  readonly order: readonly string[]
  /**
   * Starts, or continues, one run per day and partition, and waits for all. A repeated call, also after a kill, does only what
   * is missing. @example await etl.backfill(rp, { from: '2026-01-01', to: '2026-01-31', partitions: ['eu', 'us'] })
   */
  backfill(rp: Engine, options: BackfillOptions): Promise<BackfillReport>
}

const knownBackfill = namesOf<BackfillOptions>()('from to partitions rerun key concurrency attributes priority here')
const dayMs = 86_400_000
const daysMax = 10_000

/**
 * @example
 * const etl = dag('etl', {
 *   extract: { run: (_, { day }) => fetchRows(day) },
 *   clean: { after: ['extract'], run: ({ extract }) => extract.filter(Boolean) },
 * })
 */
export function dag<Input = DagSlice>(
  name: string,
  nodes: DagNodes<Input>,
  options: Omit<WorkflowOptions, 'durability'> = {},
): DagDefinition<Input> {
  checkObject(`the nodes of ${name}`, nodes)
  for (const [node, { run, memo }] of Object.entries(nodes)) {
    if (memo === undefined) checkFunction(run, `node ${node} of ${name}`)
    else recallingOf(memo)
  }
  const order = orderOf(name, nodes)
  const definition = workflow<Input, DagResults>(
    name,
    async (ctx, input) => await runNodes(ctx, input, nodes, order),
    options,
  )
  return Object.assign(definition, {
    order,
    backfill: (rp: Engine, given: BackfillOptions) => backfill(rp, definition, given),
  })
}

/** Declared by the nodes, not by their order in time: a key contains the run's input and the results that the node uses. */
async function runNodes<Input>(
  ctx: WorkflowContext,
  input: Input,
  nodes: DagNodes<Input>,
  order: readonly string[],
): Promise<DagResults> {
  const begun = new Map<string, Promise<unknown>>()
  for (const name of order) {
    const { after = [], ...node } = nodes[name]! as AnyNode<Input>
    const begin = async (values: readonly unknown[]) => {
      const results: DagResults = Object.fromEntries(after.map((each, i) => [each, values[i]]))
      return await callNode(ctx, name, node, results, input, after)
    }
    begun.set(name, Promise.all(after.map((each) => begun.get(each)!)).then(begin))
  }
  const values = await Promise.all(order.map((name) => begun.get(name)!))
  return Object.fromEntries(order.map((name, i) => [name, values[i]]))
}

async function callNode<Input>(
  ctx: WorkflowContext,
  name: string,
  node: AnyNode<Input>,
  results: DagResults,
  input: Input,
  after: readonly string[],
): Promise<unknown> {
  const declared = { after, input: { input, results } }
  const { run, memo, arguments: argumentsOf, ...settings } = node
  if (run) return await ctx.step(name, (step) => run(results, input, step), { ...settings, ...declared })
  const args = argumentsOf!(results, input) as readonly never[]
  refuseThenable(args, `arguments of ${name}`, 'wait in a node that it runs after')
  return await (ctx as NamedMemos).memoStep(name, memo!, args, { ...settings, ...declared })
}

/** Throws INVALID_ARGUMENT for an unknown node or a circle. */
function orderOf<Input>(name: string, nodes: DagNodes<Input>): string[] {
  const order: string[] = []
  const path: string[] = []
  const visit = (node: string) => {
    if (order.includes(node)) return
    const refuse = (what: string) => new RepriseError('INVALID_ARGUMENT', `${name}: ${what}`, { dag: name, node })
    if (path.includes(node)) throw refuse(`the nodes ${[...path, node].join(' → ')} depend on each other`)
    const { after = [] } = Object.hasOwn(nodes, node) ? nodes[node]! : {}
    if (!Object.hasOwn(nodes, node)) throw refuse(`node ${path.at(-1)} runs after ${node}, which is not a node`)
    path.push(node)
    for (const each of after) visit(each)
    path.pop()
    order.push(node)
  }
  for (const node of Object.keys(nodes)) visit(node)
  return order
}

async function backfill<Input>(
  rp: Engine,
  definition: WorkflowDefinition<Input, DagResults>,
  options: BackfillOptions,
): Promise<BackfillReport> {
  const what = `backfill of ${definition.name}`
  checkGivenOptions(what, options, knownBackfill)
  const { from, to, partitions, concurrency = 4 } = options
  checkValues(what, { concurrency }, { concurrency: [['at least 1', (value) => Number(value) >= 1]] })
  const days = daysOf(what, from, to)
  const slices: DagSlice[] = (partitions ?? [null]).flatMap((partition) =>
    days.map((day) => (partition === null ? { day } : { day, partition })),
  )
  const report = { completed: [] as string[], skipped: [] as string[], failed: [] as { id: string; why: string }[] }
  const left = slices.values()
  const work = async () => {
    for (const slice of left) {
      const id = slice.partition === undefined ? slice.day : `${slice.partition}/${slice.day}`
      try {
        report[await fillSlice(rp, definition, id, slice, options)].push(id)
      } catch (error) {
        report.failed.push({ id, why: error instanceof Error ? error.message : String(error) })
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, slices.length) }, work))
  return report
}

async function fillSlice<Input>(
  rp: Engine,
  definition: WorkflowDefinition<Input, DagResults>,
  id: string,
  slice: DagSlice,
  { rerun, key, attributes, priority, here }: BackfillOptions,
): Promise<'completed' | 'skipped'> {
  const host = hostOf(rp)
  const before = (await host.head(timelineId(definition.prefix + id)))?.status
  if (before === 'completed' && rerun === undefined) return 'skipped'
  const start = {
    id,
    ...(attributes && { attributes }),
    ...(priority !== undefined && { priority }),
    ...(here !== undefined && { here }),
  }
  const run = await definition[runs](host, slice as Input, start)
  if (before === 'failed') await run.retry()
  if (before === 'completed') await run.rerun(rerun!, key === undefined ? {} : { key })
  await run.result()
  return 'completed'
}

function daysOf(what: string, from: string, to: string): string[] {
  const [first, last] = [from, to].map((day) =>
    /^\d{4}-\d\d-\d\d$/.test(day) ? Date.parse(`${day}T00:00:00Z`) : Number.NaN,
  )
  if (!(first! <= last!) || (last! - first!) / dayMs >= daysMax) {
    const why = `from and to must be days as YYYY-MM-DD, at most ${daysMax} days apart (got ${from} and ${to})`
    throw new RepriseError('INVALID_ARGUMENT', `${what}: ${why}`, { from, to })
  }
  const count = (last! - first!) / dayMs + 1
  return Array.from({ length: count }, (_, i) => new Date(first! + i * dayMs).toISOString().slice(0, 10))
}
