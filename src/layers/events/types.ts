// The types of an aggregate, inferred from its definition: events from the second parameter of each `evolve`, commands
// from the second parameter of each `decide`. Nothing is declared twice.

import type { Upcasters } from '../../core/history/fold.ts'
import type { Sql } from '../../core/store/ports.ts'
import type { EntryInfo } from '../../engine/api/timeline-definition.ts'
import type { Host } from '../../engine/host/host.ts'
import type { Fold } from '../../engine/model/definition.ts'
import type { NewEntry } from '../../engine/writing/timeline.ts'

/** The metadata of an event: its author and its reason. */
export interface Metadata {
  /** The event or command that caused this one. */
  readonly causation?: string
  /** The same for all events of one conversation. */
  readonly correlation?: string
  readonly actor?: string
  /** For a correction: the corrected sequence, and the reason. */
  readonly corrects?: number
  readonly reason?: string
}

/** The position and time of an event. */
export interface EventInfo extends EntryInfo {
  readonly timeline: string
  /** The id of the aggregate. */
  readonly id: string
  readonly meta: Metadata
}

/** The further arguments of `decide`. The time is passed in, so that deciding stays pure. */
export interface CommandInfo {
  readonly id: string
  readonly seq: number
  /** Milliseconds since 1970. */
  readonly now: number
  readonly meta: Metadata
}

// With `any` and the empty literal TypeScript infers the author's own types; with `unknown` or `never` it does not.
// biome-ignore lint/suspicious/noExplicitAny: see above
export type EvolveMap<State> = Readonly<Record<string, (state: State, event: any, at: EventInfo) => State | void>>

export interface AnyEvent {
  /** The empty literal keeps the literals that `decide` returns from widening to string. */
  readonly type: '' | (string & {})
}

export type DecideMap<State> = Readonly<
  // biome-ignore lint/suspicious/noExplicitAny: see above
  Record<string, (state: State, command: any, info: CommandInfo) => Decision<AnyEvent>>
>

/** One event, several that become visible together, or none. */
export type Decision<Event> = Event | readonly Event[] | undefined | void

/** Adds nothing if every decision returns known events; otherwise an error at each one that does not. */
export type Valid<Decide, Evolve> = {
  readonly [Name in keyof Decide]: Decide[Name] extends (...args: never) => Decision<EventOf<Evolve>>
    ? unknown
    : (...args: never) => Decision<EventOf<Evolve>>
}

export type Second<F> = F extends (...args: infer Args) => unknown
  ? Args extends [unknown, infer Data, ...unknown[]]
    ? Data
    : unknown
  : never

export type Flat<T> = { [Key in keyof T]: T[Key] }

/** @example EventOf<{ deposited: (s: S, e: { amount: number }) => S }> // { type: 'deposited'; amount: number } */
export type EventOf<Evolve> = {
  [Type in keyof Evolve & string]: unknown extends Second<Evolve[Type]>
    ? { readonly type: Type }
    : Flat<{ readonly type: Type } & Second<Evolve[Type]>>
}[keyof Evolve & string]

/** The input of the command; `unknown` if its decision uses the state only. */
export type CommandInput<Decide, Name extends keyof Decide> = Second<Decide[Name]>

export type InputArgs<Decide, Name extends keyof Decide> =
  unknown extends CommandInput<Decide, Name>
    ? [input?: undefined, options?: DoOptions]
    : [input: CommandInput<Decide, Name>, options?: DoOptions]

export interface DoOptions {
  /** Applied once in this aggregate: the same key again changes nothing. */
  readonly key?: string
  /** Reject with CONFLICT unless this is still the last sequence. */
  readonly expect?: number
  readonly meta?: Metadata
  readonly signal?: AbortSignal
}

export interface DoResult<State, Event> {
  /** The events of the command; empty if its key was used before. */
  readonly events: readonly Event[]
  readonly seq: number
  readonly state: State
  readonly isDuplicate: boolean
}

/** An aggregate as the parts of this layer use it, without the author's types. */
export interface AggregateModel<State> {
  readonly name: string
  readonly prefix: string
  readonly fold: Fold<State>
  readonly decide: Readonly<Record<string, (state: State, command: never, info: CommandInfo) => unknown>>
  readonly evolve: Readonly<Record<string, (state: State, event: never, at: EventInfo) => State | void>>
  readonly upcasters: Upcasters
  readonly inline:
    | ((sql: Sql, entries: readonly NewEntry[], at: { timeline: string; first: number }) => Promise<void>)
    | null
  /** Throws for an event that `evolve` does not know, or that its schema refuses. */
  check(event: unknown): unknown
  evolveAll(state: State, entries: readonly NewEntry[], timeline: string, after: number, now: number): State
  /** Returns a promise only if there is something to seal. */
  /** @internal */
  seal(engine: Host, id: string, entries: readonly NewEntry[]): readonly NewEntry[] | Promise<readonly NewEntry[]>
}
