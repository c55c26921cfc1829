// Projections: other views of the same events. In memory (with checkpoints), in a table, or in the user's own SQL; each
// reads the gap-free feed and stores its position with its state. A projection is rebuilt beside the live one and
// swapped.

import { type CheckpointPolicy, checkPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Validity } from '../../core/history/validity.ts'
import { checkOptions, checkValues } from '../../core/options.ts'
import { type RetryPolicy, resolveRetry } from '../../core/retry/retry.ts'
import type { FeedPosition, Sql } from '../../core/store/ports.ts'
import { isBehind } from '../../core/store/shards.ts'
import type { Nothing } from '../../core/synchronous.ts'
import { checkFunctions } from '../../core/synchronous.ts'
import { FairShare } from '../../engine/feed/fair-share.ts'
import { progressFold } from '../../engine/feed/position-sink.ts'
import type { SubscriptionSink } from '../../engine/feed/sink.ts'
import type { Entry } from '../../engine/history/history.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import {
  checkName,
  type Engine,
  type Entity,
  type Fold,
  opens,
  type Workable,
  works,
} from '../../engine/model/definition.ts'
import type { RolledBack } from '../../engine/model/rollback-report.ts'
import { endGeneration, forgetGeneration, liveGeneration, note, readBuilds } from '../../engine/tools/generations.ts'
import { type SqlName, tableOfGeneration } from '../../engine/tools/sql.ts'
import { MemorySink, memoryRetain } from './memory-sink.ts'
import { catalogOf, generationTimeline, helperModel, projectionKind } from './model.ts'
import { type Build, ProjectionHandle, type ProjectionModel, type RebuildOptions } from './projection-handle.ts'
import {
  checkReading,
  type EventSource,
  Events,
  type Handlers,
  type Occurrence,
  partitionOf,
  poisonValues,
} from './source.ts'
import { type SqlAt, type SqlHandlers, SqlSink } from './sql-sink.ts'
import { type OffsetTx, type ProjectedTable, type TableHandlers, TableSink } from './table-sink.ts'

export interface CommonOptions<Sources extends readonly EventSource[]> {
  readonly from: Sources
  /** Change it when the handlers change their meaning: a new build starts beside the old one. */
  readonly version?: string | number
  /**
   * Include the events of forks of these aggregates. Default: false, because a fork is a trial that other readers do
   * not see.
   */
  readonly forks?: boolean
  /** Policy for an event on which a handler throws: stop and report it, or quarantine it and continue. Default: 'stop'. */
  readonly poison?: 'stop' | 'quarantine'
  /** How often an event is tried before it is treated as poison. Default: once. */
  readonly retry?: RetryPolicy
}

// `On` is a parameter of its own because TypeScript infers the handlers' parameters only then.
export interface ProjectionOptions<State, Sources extends readonly EventSource[], On> extends CommonOptions<Sources> {
  readonly initial: () => State
  /** Returns the next state, or changes it in place. Deterministic: the same events produce the same state. */
  readonly on: On
  /**
   * When to checkpoint; `every` counts events. Default, for the fields it does not set: every 10,000 events and every 5
   * s.
   */
  readonly checkpoint?: CheckpointPolicy
  /** Validates a state (true, false, or the reason): an invalid state is neither checkpointed nor restored. */
  readonly valid?: Validity<State>
}

export interface PartitionedProjectionOptions<State, Sources extends readonly EventSource[], On>
  extends ProjectionOptions<State, Sources, On> {
  /**
   * The number of partitions, which several processes share. Each process holds the state of the partitions it owns,
   * and an aggregate is always in the same partition.
   */
  readonly partitions: number
}

export interface SqlProjectionOptions<Sources extends readonly EventSource[], On> extends CommonOptions<Sources> {
  /** Runs once per generation, for all its partitions, before its first event: create your tables here. */
  readonly setup?: (sql: Sql, generation: number) => Promise<unknown> | unknown
  /**
   * Runs once per generation that was replaced or abandoned, when no process writes to it any more: drop its tables
   * here.
   */
  readonly teardown?: (sql: Sql, generation: number) => Promise<unknown> | unknown
  readonly on: On
  /** The number of partitions, which several processes share; an aggregate is always in the same one. Default: 1. */
  readonly partitions?: number
}

export interface TableProjectionOptions<Tx extends OffsetTx, Sources extends readonly EventSource[], On>
  extends CommonOptions<Sources> {
  /** A definition from reprise/table. */
  readonly into: Entity<ProjectedTable<Tx>>
  readonly on: On
}

export interface ProjectionDefinition<State> extends Entity<ProjectionHandle<State>, undefined>, Workable {
  readonly kind: 'projection'
  readonly name: string
  /** The live generation, without opening it: it is part of the names of your tables. */
  generation(rp: Engine): Promise<number>
  /**
   * Rebuilds the projection with this definition's number of partitions, beside the live one, and swaps. Readers and
   * processes of the old number continue until then; an interrupted rescale is resumed.
   */
  rescale(rp: Engine, options?: RebuildOptions): Promise<void>
}

export interface SqlProjectionDefinition extends ProjectionDefinition<null> {
  /**
   * For `rp.sql`: the table <name>_<generation> of the generation that is live when the query runs.
   * @example await rp.sql`SELECT * FROM ${ledger.table('totals')} WHERE id = ${id}`
   */
  table(name: string): SqlName
}

const memoryFold: Omit<Fold<unknown>, 'version'> = {
  initial: () => null,
  apply: (state) => state,
  retain: memoryRetain,
  authority: 'state',
  rereads: true,
}

const known = new Set([
  ...['from', 'on', 'version', 'forks', 'poison', 'retry', 'initial', 'checkpoint', 'valid', 'partitions'],
  ...['setup', 'teardown', 'into'],
])

/**
 * @example
 * projection('totals', {
 *   from: [account],
 *   initial: () => new Map<string, number>(),
 *   on: { deposited: (m, e, at) => void m.set(at.id, e.amount) },
 * })
 */
export function projection<
  State,
  Sources extends readonly EventSource[],
  On extends Handlers<State, Sources, State | void>,
>(name: string, options: ProjectionOptions<State, Sources, On>): ProjectionDefinition<State> {
  return inMemory<State, State>(name, options, null, (sinks) => sinks[0]!.state)
}

/**
 * In memory, in partitions that processes share: `state` has the partitions that this process owns, by number.
 * @example
 * const initial = () => new Map<string, number>()
 * partitionedProjection('totals', { partitions: 8, from: [account], initial, on: { … } })
 */
export function partitionedProjection<
  State,
  Sources extends readonly EventSource[],
  On extends Handlers<State, Sources, State | void>,
>(
  name: string,
  options: PartitionedProjectionOptions<State, Sources, On>,
): ProjectionDefinition<ReadonlyMap<number, State>> {
  checkPartitions(options?.partitions)
  return inMemory<State, ReadonlyMap<number, State>>(name, options, options.partitions, (sinks) => {
    const owned = [...sinks.entries()].filter(([, sink]) => sink.isOwned)
    return new Map(owned.map(([partition, sink]) => [partition, sink.state]))
  })
}

/** Without partitions, every process has a full copy; with partitions, each has those it owns. */
function inMemory<State, Shown>(
  name: string,
  options: ProjectionOptions<State, readonly EventSource[], unknown>,
  partitions: number | null,
  show: (sinks: readonly MemorySink<State>[]) => Shown,
): ProjectionDefinition<Shown> {
  checkReading(`projection ${name}`, options)
  checkOptions(`projection ${name}`, options, known)
  checkValues(`projection ${name}`, options, poisonValues)
  resolveRetry(options.retry)
  checkFunctions(`projection ${name}`, options, ['initial'], ['valid'])
  if (options.checkpoint) checkPolicy(options.checkpoint)
  const version = String(options.version ?? 1)
  const checkpoint = { every: 10_000, each: '5s' as const, ...options.checkpoint }
  const model = {
    version,
    initial: options.initial,
    on: options.on as Readonly<Record<string, never>>,
    checkpoint,
    valid: options.valid,
  }
  const fold = { ...memoryFold, version, checkpoint } as Fold<never>
  return define<Shown>(name, version, options, partitions ?? 1, (engine, generation, count) => {
    const scope = generationTimeline(name, version, generation, null)
    engine.declare(helperModel({ ...projectionKind, redoes: 'events are read again' }, name, scope, fold))
    const shares = shareOut(engine, name, version, generation, count)
    return {
      ...shares.build,
      ...failing(options),
      events: (p) => shares.events(p, options, options.on as object),
      open: async (p) => {
        const timeline = timelineId(shares.build.timelines[p]!)
        const gate = partitions === null ? null : shares.share
        return shares.add(await MemorySink.open<State>(engine.kernel, timeline, model, gate))
      },
      stateOf: (sinks) => show(sinks as unknown as readonly MemorySink<State>[]),
      async retire() {
        for (const timeline of shares.build.timelines) await forgetGeneration(engine, timeline)
      },
    }
  })
}

/** The shared setup of partitions for every kind of projection. */
function shareOut(engine: Host, name: string, version: string, generation: number, partitions: number) {
  const sinks: SubscriptionSink<Occurrence>[] = []
  const countOwned = () => sinks.filter((sink) => sink.isOwned).length
  const share = new FairShare(engine.kernel, `projection ${name}`, partitions, countOwned)
  const timelines = Array.from({ length: partitions }, (_, p) =>
    generationTimeline(name, version, generation, partitions === 1 ? null : p),
  )
  return {
    share,
    build: { partitions, timelines, begin: () => share.begin(), stop: () => share.stop() },
    add<One extends SubscriptionSink<Occurrence>>(sink: One): One {
      sinks.push(sink)
      return sink
    },
    events: (partition: number, { from, forks }: CommonOptions<readonly EventSource[]>, on: object) =>
      new Events(engine.kernel, from, (type) => Object.hasOwn(on, type), {
        wants: ({ at }) => partitions === 1 || partitionOf(at.timeline, partitions) === partition,
        forks,
        onRolledBack: (entry, position) => noteStale(engine, catalogOf(name), version, generation, entry, position),
      }),
  }
}

/** The policy for events on which a handler throws. */
function failing({ poison = 'stop', retry }: CommonOptions<readonly EventSource[]>) {
  return { poison, retry: resolveRetry({ attempts: 1, ...retry }) }
}

function checkPartitions(partitions: number): void {
  if (Number.isSafeInteger(partitions) && partitions >= 1 && partitions <= 4096) return
  throw new RepriseError('INVALID_ARGUMENT', 'a projection must have 1 to 4096 partitions', { partitions })
}

/** A projection into the user's own tables, in the same transaction as its position. Only on stores with SQL. */
export function sqlProjection<
  Sources extends readonly EventSource[],
  On extends Handlers<Sql, Sources, Promise<unknown> | unknown, SqlAt>,
>(name: string, options: SqlProjectionOptions<Sources, On>): SqlProjectionDefinition {
  checkReading(`projection ${name}`, options)
  checkOptions(`projection ${name}`, options, known)
  checkValues(`projection ${name}`, options, poisonValues)
  checkFunctions(`projection ${name}`, options, [], ['setup', 'teardown'])
  resolveRetry(options.retry)
  const version = String(options.version ?? 1)
  const { partitions = 1 } = options
  checkPartitions(partitions)
  const definition = define<null>(name, version, options, partitions, (engine, generation, count) => {
    const scope = generationTimeline(name, version, generation, null)
    engine.declare(helperModel(projectionKind, name, scope, progressFold as Fold<never>))
    const shares = shareOut(engine, name, version, generation, count)
    const once = count === 1 ? null : timelineId(`${scope}/setup`)
    const { setup: run, teardown } = options
    return {
      ...shares.build,
      ...failing(options),
      events: (p) => shares.events(p, options, options.on as object),
      open: async (p) => {
        const on = options.on as unknown as SqlHandlers
        const more = { on, generation, setup: run && { run, once }, gate: shares.share }
        return shares.add(new SqlSink(engine, shares.build.timelines[p]!, more))
      },
      stateOf: () => null,
      async retire() {
        // The first partition is last: once the others have ended, no process writes any more.
        for (const [i, timeline] of [...shares.build.timelines.entries()].reverse()) {
          const userSql = i === 0 && teardown ? (sql: Sql) => teardown(sql, generation) : undefined
          await endGeneration(engine, timeline, userSql)
        }
      },
    }
  })
  return { ...definition, table: (table) => tableOfGeneration(table, catalogOf(name), version) }
}

/** A projection into a table: its rows and its position change in one transaction. */
export function tableProjection<
  Tx extends OffsetTx,
  Sources extends readonly EventSource[],
  On extends Handlers<Tx, Sources, Nothing>,
>(name: string, options: TableProjectionOptions<Tx, Sources, On>): ProjectionDefinition<ProjectedTable<Tx> | null> {
  return intoTables(name, options as unknown as AnyTableOptions<Tx>, null, (sinks) => sinks[0]!.table)
}

/**
 * The same in partitions that processes share, one table per partition: its id is p0, p1, …; `state` has those owned
 * here.
 */
export function partitionedTableProjection<
  Tx extends OffsetTx,
  Sources extends readonly EventSource[],
  On extends Handlers<Tx, Sources, Nothing>,
>(
  name: string,
  options: TableProjectionOptions<Tx, Sources, On> & { readonly partitions: number },
): ProjectionDefinition<ReadonlyMap<number, ProjectedTable<Tx>>> {
  checkPartitions(options?.partitions)
  return intoTables(name, options as unknown as AnyTableOptions<Tx>, options.partitions, (sinks) => {
    const owned = new Map<number, ProjectedTable<Tx>>()
    for (const [partition, { isOwned, table }] of sinks.entries()) if (isOwned && table) owned.set(partition, table)
    return owned
  })
}

type AnyTableOptions<Tx extends OffsetTx> = TableProjectionOptions<Tx, readonly EventSource[], TableHandlers<Tx>>

function intoTables<Tx extends OffsetTx, Shown>(
  name: string,
  options: AnyTableOptions<Tx>,
  partitions: number | null,
  show: (sinks: readonly TableSink<Tx>[]) => Shown,
): ProjectionDefinition<Shown> {
  checkReading(`projection ${name}`, options)
  checkOptions(`projection ${name}`, options, known)
  checkValues(`projection ${name}`, options, poisonValues)
  resolveRetry(options.retry)
  if (typeof options.into?.[opens] !== 'function') {
    throw new RepriseError('INVALID_ARGUMENT', `projection ${name}: into must be a table, such as table('totals')`)
  }
  const version = String(options.version ?? 1)
  return define<Shown>(name, version, options, partitions ?? 1, (engine, generation, count) => {
    const shares = shareOut(engine, name, version, generation, count)
    // The first build fills the table itself; each rebuild fills its own table beside it.
    const build = generation === 1 && version === '1' ? [] : [`${version}-${generation}`]
    return {
      ...shares.build,
      timelines: [],
      ...failing(options),
      events: (p) => shares.events(p, options, options.on),
      open: async (p) => {
        const id = [...build, ...(partitions === null ? [] : [`p${p}`])].join('-') || undefined
        return shares.add(new TableSink(engine, `projection/${name}`, options.into, id, options.on, shares.share))
      },
      stateOf: (sinks) => show(sinks as unknown as readonly TableSink<Tx>[]),
      retire: async () => undefined,
    }
  })
}

function define<State>(
  name: string,
  version: string,
  options: CommonOptions<readonly EventSource[]>,
  partitions: number,
  buildIn: (engine: Host, generation: number, partitions: number) => Build<State>,
): ProjectionDefinition<State> {
  checkName('projection', name)
  if (!/^[A-Za-z0-9._]{1,40}$/.test(version)) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      'the version of a projection must have 1 to 40 letters, digits and dots',
      {
        version,
      },
    )
  }
  const reads = { scopes: options.from.map(({ prefix }) => prefix), forks: options.forks === true }
  const model: ProjectionModel<State> = { name, version, reads, partitions, build: buildIn }
  // One handle per engine: opening the projection again shares it, and working for it keeps it open.
  const open = new WeakMap<Host, Promise<ProjectionHandle<State>>>()
  const openOnce = async (engine: Host): Promise<ProjectionHandle<State>> => {
    const held = await open.get(engine)?.catch(() => undefined)
    if (held && !held.isClosed) return held
    const opening = ProjectionHandle.start(engine, model)
    open.set(engine, opening)
    return await opening
  }
  return {
    kind: 'projection',
    name,
    generation: (rp) => liveGeneration(hostOf(rp), catalogOf(name), version),
    rescale: (rp, options = {}) => ProjectionHandle.rescale(hostOf(rp), model, options),
    async [opens](engine: Host) {
      return (await openOnce(engine)).share()
    },
    [works](engine: Host) {
      openOnce(engine)
        .then((handle) => handle.share())
        .catch((error) => engine.events.emit('problem', { where: `projection ${name}`, error }))
    },
  }
}

// A projection is stale if a rollback undid events that it has applied: its generation records it, its status shows it,
// and the generation is rebuilt. A generation that began after the rollback has never seen the undone events.

/** `position` is the start of the branch that the rollback made. */
async function noteStale(
  engine: Host,
  catalog: string,
  version: string,
  generation: number,
  { timeline, data }: Entry,
  position: FeedPosition,
): Promise<void> {
  const builds = await readBuilds(engine, catalog, version)
  const began = builds.beganAt(generation)
  const isAfter = began === null || isBehind(began, position)
  if (!isAfter || builds.staleBy(generation) !== null) return
  const words = `${timeline} was rolled back to ${(data as RolledBack).to}`
  await note(engine, catalog, { [`stale.${version}-${generation}`]: words })
}
