// Projections: other views of the same events. In memory (with checkpoints), in a table, or in the user's own SQL; each
// reads the gap-free feed and binds its position to its state. A projection is rebuilt beside the live one and swapped.

import { timelineId } from '../../core/coordinate.ts'
import type { CheckpointPolicy } from '../../core/economics.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Sql } from '../../core/ports.ts'
import { checkName, type Entity, type Fold, opens, type Workable, works } from '../../engine/definition.ts'
import type { Reprise } from '../../engine/reprise.ts'
import { endGeneration, forgetGeneration, generationTimeline, liveGeneration } from './generations.ts'
import { MemorySink } from './memory-sink.ts'
import { type Build, ProjectionHandle } from './projection-handle.ts'
import { type EventSource, Events, type Handlers, partitionOf } from './source.ts'
import { progressFold, type SqlAt, type SqlHandlers, SqlSink } from './sql-sink.ts'
import { type OffsetTx, type TableHandlers, TableSink, type TableTarget } from './table-sink.ts'
import { Team } from './team.ts'

interface CommonOptions<Sources extends readonly EventSource[]> {
  readonly from: Sources
  /** Change it when the handlers change their meaning: a new build starts beside the old one. */
  readonly version?: string | number
  /** What to do with an event on which a handler throws: stand still and say so (default), or set it aside and go on. */
  readonly poison?: 'stop' | 'quarantine'
}

// `On` is a parameter of its own because TypeScript infers the handlers' parameters only then.
export interface ProjectionOptions<State, Sources extends readonly EventSource[], On> extends CommonOptions<Sources> {
  readonly initial: () => State
  /** Returns the next state, or changes it in place. Deterministic: the same events give the same state. */
  readonly on: On
  /** `every` counts events (10,000), `each` time (5 s). */
  readonly checkpoint?: CheckpointPolicy
}

export interface SqlProjectionOptions<Sources extends readonly EventSource[], On> extends CommonOptions<Sources> {
  /** Runs once for each generation, in the commit that starts it: create your tables here. */
  readonly setup?: (sql: Sql, generation: number) => Promise<unknown> | unknown
  readonly on: On
  /** Several processes share these, each aggregate always in the same one. Default 1. */
  readonly partitions?: number
}

export interface TableProjectionOptions<Tx extends OffsetTx, Sources extends readonly EventSource[], On>
  extends CommonOptions<Sources> {
  /** A definition from reprise/table. */
  readonly into: Entity<TableTarget<Tx>>
  readonly on: On
}

export interface ProjectionDefinition<State> extends Entity<ProjectionHandle<State>>, Workable {
  readonly kind: 'projection'
  readonly name: string
}

const memoryFold: Fold<unknown> = {
  version: 'any',
  initial: () => null,
  apply: (state) => state,
  retain: { checkpoints: 2, history: 'needed' },
  authority: 'state',
}

/** @example projection('totals', { from: [account], initial: () => new Map<string, number>(), on: { deposited: (m, e, at) => void m.set(at.id, e.amount) } }) */
export function projection<
  State,
  Sources extends readonly EventSource[],
  On extends Handlers<State, Sources, State | void>,
>(name: string, options: ProjectionOptions<State, Sources, On>): ProjectionDefinition<State> {
  const version = String(options.version ?? 1)
  const model = {
    version,
    initial: options.initial,
    on: options.on as unknown as Readonly<Record<string, never>>,
    checkpoint: options.checkpoint ?? {},
  }
  return define<State>(name, version, (engine, generation) => {
    engine.register(`projection/${name}@`, memoryFold)
    return {
      partitions: 1,
      timelines: [generationTimeline(name, version, generation, null)],
      poison: options.poison ?? 'stop',
      events: () => new Events(engine.kernel, options.from, (type) => Object.hasOwn(options.on, type)),
      open: () =>
        MemorySink.open(engine.kernel, timelineId(generationTimeline(name, version, generation, null)), model),
      stateOf: (sink) => (sink as unknown as MemorySink<State>).state,
      stop: () => undefined,
      retire: (timeline) => forgetGeneration(engine, timeline),
    }
  })
}

/** A projection into the user's own tables, in the same transaction as its position. Only on stores with SQL. */
export function sqlProjection<
  Sources extends readonly EventSource[],
  On extends Handlers<Sql, Sources, Promise<unknown> | unknown, SqlAt>,
>(name: string, options: SqlProjectionOptions<Sources, On>): ProjectionDefinition<null> {
  const version = String(options.version ?? 1)
  const { partitions = 1 } = options
  return define<null>(name, version, (engine, generation) => {
    engine.register(`projection/${name}@`, progressFold as Fold<unknown>)
    const timelines = Array.from({ length: partitions }, (_, p) =>
      generationTimeline(name, version, generation, partitions === 1 ? null : p),
    )
    const sinks: SqlSink[] = []
    const team = new Team(engine, name, partitions, () => sinks.filter((sink) => sink.isOwned).length)
    return {
      partitions,
      timelines,
      poison: options.poison ?? 'stop',
      events: (p) =>
        new Events(
          engine.kernel,
          options.from,
          (type) => Object.hasOwn(options.on, type),
          ({ at }) => partitions === 1 || partitionOf(at.timeline, partitions) === p,
        ),
      open: async (p) => {
        const on = options.on as unknown as SqlHandlers
        const sink = new SqlSink(engine, timelines[p]!, { on, generation, setup: options.setup, gate: team })
        sinks.push(sink)
        return sink
      },
      stateOf: () => null,
      stop: () => team.stop(),
      retire: (timeline) => endGeneration(engine, timeline),
    }
  })
}

/** A projection into a table: its rows and its position change in one transaction. */
export function tableProjection<
  Tx extends OffsetTx,
  Sources extends readonly EventSource[],
  On extends Handlers<Tx, Sources, void>,
>(name: string, options: TableProjectionOptions<Tx, Sources, On>): ProjectionDefinition<TableTarget<Tx> | null> {
  const version = String(options.version ?? 1)
  return define<TableTarget<Tx> | null>(name, version, (engine, generation) => ({
    partitions: 1,
    timelines: [],
    poison: options.poison ?? 'stop',
    events: () => new Events(engine.kernel, options.from, (type) => Object.hasOwn(options.on, type)),
    // The first build fills the table itself, each rebuild one of its own beside it.
    open: async () => {
      const id = generation === 1 && version === '1' ? undefined : `${version}-${generation}`
      return new TableSink(engine, `projection/${name}`, options.into, id, options.on as unknown as TableHandlers<Tx>)
    },
    stateOf: (sink) => (sink as unknown as TableSink<Tx>).table,
    stop: () => undefined,
    retire: async () => undefined,
  }))
}

function define<State>(
  name: string,
  version: string,
  build: (engine: Reprise, generation: number) => Build<State>,
): ProjectionDefinition<State> {
  checkName('projection', name)
  if (!/^[A-Za-z0-9._]{1,40}$/.test(version)) {
    throw new RepriseError('INVALID_ARGUMENT', 'the version of a projection has up to 40 letters, digits and dots', {
      version,
    })
  }
  // One handle an engine: opening it again shares it, and working for it keeps it open.
  const open = new WeakMap<Reprise, Promise<ProjectionHandle<State>>>()
  const openOnce = async (engine: Reprise): Promise<ProjectionHandle<State>> => {
    const held = await open.get(engine)?.catch(() => undefined)
    if (held && !held.isClosed) return held
    const opening = liveGeneration(engine, name, version).then((generation) =>
      ProjectionHandle.start(engine, { name, version, build }, generation),
    )
    open.set(engine, opening)
    return await opening
  }
  return {
    kind: 'projection',
    name,
    async [opens](engine: Reprise) {
      return (await openOnce(engine)).share()
    },
    [works](engine: Reprise) {
      openOnce(engine)
        .then((handle) => handle.share())
        .catch((error) => engine.events.emit('problem', { where: `projection ${name}`, error }))
    },
  }
}
