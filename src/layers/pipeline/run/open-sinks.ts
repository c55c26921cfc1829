// Opens the sinks of a run at its checkpoint: transactions listed there are committed, all other open transactions are
// aborted. A cancellation of the run does not wait for a sink that hangs, and neither does its end.

import { isReprise } from '../../../core/errors.ts'
import type { Sql } from '../../../core/store/ports.ts'
import { unlessAborted } from '../../../engine/base/abortable-wait.ts'
import { hostOf } from '../../../engine/host/host.ts'
import type { Engine } from '../../../engine/model/definition.ts'
import type { StateTimeline } from '../../../engine/writing/state-timeline.ts'
import { within } from '../../../lib/waiting.ts'
import type { Graph } from '../graph.ts'
import type { SinkWriter } from '../sink.ts'
import type { Origins } from './record-origins.ts'
import type { PipelineState } from './state.ts'

const closeWithinMs = 5000

export interface SinksOf {
  readonly engine: Engine
  readonly graph: Graph
  /** The timeline of the pipeline. */
  readonly pipeline: string
  /** Aborts when the run is cancelled. */
  readonly signal: AbortSignal
  readonly origins: Origins | null
}

export async function openSinks(
  of: SinksOf,
  taken: StateTimeline,
  state: PipelineState | null,
  names: { readonly storedAs: (name: string) => string; readonly isKnown: (name: string) => boolean },
): Promise<Map<string, SinkWriter>> {
  const { engine, graph, pipeline, origins } = of
  await setUp(graph, taken)
  const writers = new Map<string, SinkWriter>()
  try {
    for (const { name, sink } of graph.sinks) {
      const listed = names.isKnown(name) ? (state?.sinks[names.storedAs(name)] ?? null) : null
      const opening = sink.open({ engine, pipeline, name, origins }, listed)
      writers.set(name, await openedUnlessAborted(opening, of, `opening the sink ${name}`))
    }
  } catch (error) {
    await closeAll(engine, pipeline, { sink: writers })
    throw error
  }
  return writers
}

/** A resource that does not close in time is abandoned: the next process that opens it must tolerate this in any case. */
export async function closeAll(
  engine: Engine,
  pipeline: string,
  resources: Readonly<Record<string, ReadonlyMap<string, { close(): Promise<void> }>>>,
): Promise<void> {
  const { worker, clock } = hostOf(engine)
  const calls: { end(): void }[] = []
  const closing = Object.entries(resources).flatMap(([kind, all]) =>
    [...all].map(async ([name, resource]) => {
      const call = worker.begin({ timeline: pipeline, what: `closing the ${kind} ${name}` })
      calls.push(call)
      await resource.close().finally(() => call.end())
    }),
  )
  await within(clock, closeWithinMs, Promise.allSettled(closing))
  for (const call of calls) call.end()
}

/** PostgreSQL refuses the later of two concurrent CREATE TABLEs in spite of IF NOT EXISTS; the table then exists. */
async function setUp(graph: Graph, taken: StateTimeline): Promise<void> {
  const setups = graph.sinks.filter(({ sink }) => sink.setup)
  if (setups.length === 0) return
  const userSql = async (sql: Sql) => {
    for (const { sink } of setups) await sink.setup!(sql)
  }
  await taken.write({ userSql }).catch((error) => {
    if (!isReprise(error, 'RIDER_FAILED')) throw error
    return taken.write({ userSql })
  })
}

/** Closes a resource that opens after the run was cancelled. */
export async function openedUnlessAborted<T extends { close(): Promise<void> }>(
  opening: Promise<T>,
  { engine, pipeline, signal }: SinksOf,
  what: string,
): Promise<T> {
  // The worker registers the call, so that other processes and a stop request see a call that hangs.
  const call = hostOf(engine).worker.begin({ timeline: pipeline, what })
  try {
    return await unlessAborted(opening, signal, what)
  } catch (error) {
    if (signal.aborted) opening.then((opened) => opened.close()).catch(() => undefined)
    throw error
  } finally {
    call.end()
  }
}

/** The process that made the last checkpoint may have been killed before its sinks committed. */
export async function commitLast(of: SinksOf, { sinks }: PipelineState): Promise<void> {
  const { engine, graph, pipeline } = of
  for (const { name, sink } of graph.sinks) {
    const listed = sinks[name] ?? null
    if (listed === null) continue
    const opening = sink.open({ engine, pipeline, name }, listed)
    await (await openedUnlessAborted(opening, of, `opening the sink ${name}`)).close()
  }
}
