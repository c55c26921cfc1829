// Aggregates: decide and evolve. `decide` reads the state and a command and returns the events, or refuses; `evolve`
// folds events into state. Both are pure. The events are the truth; state is a cache with a coordinate.
//
// One timeline per aggregate: events/<name>/<id>. An event is an entry with the event's type; see envelope.ts.

import { type CheckpointPolicy, checkPolicy, usualPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import { type RetentionPolicy, resolveRetention } from '../../core/checkpoint/retention.ts'
import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkUpcasters, type Upcasters, upcast } from '../../core/history/fold.ts'
import type { Validity } from '../../core/history/validity.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { Sql } from '../../core/store/ports.ts'
import { checkFunctionMap, checkFunctions, refuseThenable } from '../../core/synchronous.ts'
import type { Entry } from '../../engine/history/history.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import type { Engine, StateAt } from '../../engine/model/definition.ts'
import {
  checkName,
  type Entity,
  type Erased,
  type Fold,
  type OpenOptions,
  opens,
  type Readable,
  reads,
  type StateMigrations,
  systemPrefix,
  type Workable,
  works,
} from '../../engine/model/definition.ts'
import { type Described, describes } from '../../engine/model/model.ts'
import type { NewEntry } from '../../engine/writing/timeline.ts'
import { eventOf, fieldsOf, infoOf, layerPrefix, metaOf, takeEvent, wrapUpcasters } from './envelope.ts'
import { AggregateHandle } from './handle.ts'
import { stateAt } from './history.ts'
import { Mailroom } from './mailroom.ts'
import { aggregateModel } from './model.ts'
import { holdsPersonal, sealPersonal } from './personal.ts'
import { validate } from './schema.ts'
import type { AggregateModel, DecideMap, EventOf, EvolveMap, Metadata, Valid } from './types.ts'

/** SQL in the same transaction as the events: a projection that is never behind. */
export type Inline<Event> = (sql: Sql, event: Event, at: { readonly id: string; readonly seq: number }) => unknown

export interface AggregateOptions<State, Evolve, Decide> {
  readonly initial: () => State
  /** One function per event type: returns the next state. Pure. */
  readonly evolve: Evolve
  /** One function per command: returns the events. Pure; throws Refused to refuse the command. */
  readonly decide: Decide & Valid<Decide, Evolve>
  /** Handles events that were erased (`rp.eraseEntries`), with their position, time and type. Default: they are skipped. */
  readonly erased?: (state: State, gone: Erased) => State
  /** Change it when `evolve` changes its meaning: old checkpoints are then ignored and rebuilt from history. */
  readonly version?: string | number
  /** When to checkpoint; an empty policy means only on request. Default: every 10,000 events. */
  readonly checkpoint?: CheckpointPolicy
  /**
   * `evolve` never changes the state it receives, at any depth: a large state is then captured in slices while commands
   * continue, not copied for commands that are decided together, and not rebuilt from history when events were not stored.
   */
  readonly immutable?: boolean
  readonly retain?: RetentionPolicy
  /** Validates a state (true, false, or the reason): an invalid state is neither checkpointed nor restored. */
  readonly valid?: Validity<State>
  /**
   * By older `version`: converts its state to the current version, for history that was trimmed or moved without its
   * events.
   */
  readonly migrations?: StateMigrations<State>
  /** Convert old versions of event fields to the current one. */
  readonly upcasters?: Upcasters
  readonly inline?: Inline<EventOf<Evolve>>
}

/** An event as a consumer receives it. */
export interface EventEntry<Event> extends Entry {
  /** The id of the aggregate. */
  readonly id: string
  /** Type and fields, in the current version. */
  readonly event: Event
  readonly meta: Metadata
}

export interface AggregateDefinition<State, Evolve, Decide>
  extends Entity<AggregateHandle<State, Evolve, Decide>, string>,
    Readable<EventEntry<EventOf<Evolve>>>,
    Workable,
    Described {
  readonly kind: 'aggregate'
  readonly name: string
  readonly prefix: string
  readonly fold: Fold<State>
  /** @internal */
  readonly model: AggregateModel<State>
  readonly evolve: Evolve
  readonly decide: Decide
  /** Reads the newest state; ownership does not change. */
  read(rp: Engine, id: string): Promise<StateAt<State>>
}

/**
 * @example const account = aggregate('account', {
 *   initial: () => ({ balance: 0 }),
 *   evolve: { deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
 *   decide: { deposit: (s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }) },
 * })
 */
export function aggregate<State, Evolve extends EvolveMap<State>, Decide extends DecideMap<State>>(
  name: string,
  options: AggregateOptions<State, Evolve, Decide>,
): AggregateDefinition<State, Evolve, Decide> {
  checkName('aggregate', name)
  checkOptions(`aggregate ${name}`, options, known)
  checkFunctions(`aggregate ${name}`, options, ['initial'], ['erased', 'valid', 'inline'])
  checkFunctionMap(`aggregate ${name}: evolve`, options.evolve)
  checkFunctionMap(`aggregate ${name}: decide`, options.decide)
  if (options.checkpoint) checkPolicy(options.checkpoint)
  if (options.retain) resolveRetention(options.retain)
  if (options.upcasters) checkUpcasters(options.upcasters)
  const prefix = `events/${name}/`
  const model = modelOf(name, prefix, options as unknown as PlainOptions<State>)
  // One mailroom per engine: it tracks the aggregates that are open there.
  const rooms = new WeakMap<Host, Mailroom<State>>()
  const roomOf = (engine: Host) => {
    const room = rooms.get(engine) ?? new Mailroom(engine, model)
    rooms.set(engine, room)
    return room
  }
  return {
    [describes]: aggregateModel(name, prefix, model.fold as Fold<never>),
    kind: 'aggregate',
    canShare: true,
    name,
    prefix,
    fold: model.fold,
    model,
    evolve: options.evolve,
    decide: options.decide,
    async read(rp, id) {
      const engine = hostOf(rp)
      const head = await engine.existing(timelineId(prefix + id))
      return await stateAt(engine, model, id, { seq: head.seq })
    },
    async [opens](engine: Host, id: string | undefined, open: OpenOptions) {
      if (id === undefined) throw new RepriseError('INVALID_ARGUMENT', `open(${name}, id): the id is missing`)
      const room = roomOf(engine)
      return new AggregateHandle<State, Evolve, Decide>(engine, model, await room.open(id, open), room)
    },
    [works](engine: Host) {
      roomOf(engine).serve()
    },
    [reads](entry: Entry) {
      if (entry.type.startsWith(systemPrefix) || entry.type.startsWith(layerPrefix)) return null
      const current = upcast(entry, model.upcasters)
      const event = eventOf(current) as EventOf<Evolve>
      const { timeline, seq, epoch, time, key } = entry
      const { type, version } = current
      const data = fieldsOf(current)
      return {
        timeline,
        seq,
        epoch,
        time,
        key,
        type,
        version,
        data,
        id: timeline.slice(prefix.length),
        event,
        meta: metaOf(entry),
      }
    },
  }
}

const known = namesOf<AggregateOptions<unknown, never, never>>()(
  'initial evolve decide erased version checkpoint immutable retain valid migrations upcasters inline',
)

/** The options without the author's types. */
type PlainOptions<State> = Omit<AggregateOptions<State, never, never>, 'evolve' | 'decide' | 'inline'> &
  Pick<AggregateModel<State>, 'evolve' | 'decide'> & { readonly inline?: Inline<unknown> }

function modelOf<State>(name: string, prefix: string, options: PlainOptions<State>): AggregateModel<State> {
  const { evolve, decide, inline } = options
  const upcasters = wrapUpcasters(options.upcasters ?? {})
  const step = (state: State, entry: Entry, event: (entry: Entry) => object): State => {
    if (entry.type.startsWith(layerPrefix)) return state
    const evolution = Object.hasOwn(evolve, entry.type) ? evolve[entry.type] : undefined
    if (!evolution)
      throw new RepriseError('FOLD_FAILED', `${name} has no handler for events of type ${entry.type}`, {
        type: entry.type,
      })
    const next = evolution(state, event(entry) as never, infoOf(entry, prefix))
    refuseThenable(
      next,
      `evolve.${entry.type} of ${name}`,
      'wait before the command, and put the result into the event',
    )
    return (next ?? state) as State
  }
  // Upcast fields belong to the author and may be a shared constant; all others were decoded for this fold.
  const isUpcast = options.upcasters !== undefined
  const apply = (state: State, entry: Entry): State => step(state, entry, isUpcast ? eventOf : takeEvent)
  const fold: Fold<State> = {
    version: String(options.version ?? 1),
    initial: options.initial,
    apply,
    ...(options.erased && { erased: options.erased }),
    upcasters,
    migrations: options.migrations,
    checkpoint: options.checkpoint ?? usualPolicy,
    immutable: options.immutable,
    retain: options.retain,
    valid: options.valid,
  }
  return {
    name,
    prefix,
    fold,
    evolve,
    decide,
    upcasters,
    inline: inline ? (sql, entries, at) => rideInline(inline, sql, entries, at, prefix) : null,
    check(event) {
      const type = (event as { type?: unknown } | null)?.type
      if (typeof type !== 'string' || !Object.hasOwn(evolve, type)) {
        throw new RepriseError(
          'INVALID_ARGUMENT',
          `${name} has no handler for events of type ${String(type).slice(0, 80)}`,
        )
      }
      return validate(evolve[type], `event ${type}`, event)
    },
    evolveAll(state, entries, timeline, after, now) {
      let next = state
      entries.forEach((entry, i) => {
        const at = { timeline: timelineId(timeline), seq: after + 1 + i, epoch: 0, time: now, key: entry.key }
        const version = upcasters[entry.type]?.version ?? 1
        // The fields are not written yet, so the event is a copy of them.
        next = step(next, upcast({ ...at, type: entry.type, version, data: entry.data }, upcasters), eventOf)
      })
      return next
    },
    seal: (engine, id, entries) => (holdsPersonal(entries) ? sealPersonal(engine, name, id, entries) : entries),
  }
}

async function rideInline(
  inline: Inline<unknown>,
  sql: Sql,
  entries: readonly NewEntry[],
  at: { readonly timeline: string; readonly first: number },
  prefix: string,
): Promise<void> {
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i]!
    const event = { ...(fieldsOf(entry) as object), type: entry.type }
    await inline(sql, event, { id: at.timeline.slice(prefix.length), seq: at.first + i })
  }
}
