// The descriptor of a model: one value that says what a kind of timeline is called, where its ids lie, how its history
// folds, how its state reads to people, and how each verb is done to it. Tools (the command line, a server, a dashboard)
// read it and know no layer; a layer exports it and knows no tool.
//
// A kind as a whole has a descriptor without a name (`jobKind`): what can be said and done without the user's code. A
// definition has one with its name, its own scope, and what only its code can do.

import type { Manifest } from '../../core/checkpoint/manifest.ts'
import type { Coordinate } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Inherited } from '../../core/history/inheritance.ts'
import type { Attribute, Hash, Head, ManifestRecord, OutgoingMessage, Sql, Store } from '../../core/store/ports.ts'
import type { Engine, Fold } from './definition.ts'
import type { Entry, NewEntry } from './entry.ts'
import type { ExchangeReader } from './exchange-reader.ts'
import type { FlowView } from './flow-metrics.ts'
import type { ForkEdit, ForkEdits, ForkMark } from './fork-edit.ts'
import type { StatusLine, Told } from './journal-row.ts'
import type { Consumer, Rollback } from './rollback-report.ts'
import type { StateIo } from './state-io.ts'

export const describes: unique symbol = Symbol.for('reprise.describes')

export interface Model {
  /** job, workflow, table, …: one word, the same in code, ids and tools. */
  readonly kind: string
  /** Of the definition; null: the kind as a whole. */
  readonly name: string | null
  /** Where its timelines lie (core/history/scope.ts). */
  readonly scope: string
  /** Null where only the user's code knows. */
  readonly fold: Fold<unknown> | null
  /**
   * 'fixed': every definition of this kind has the policy of `fold`. 'declared': definitions have their own, which is
   * stored with the timeline when it is not `usual`.
   */
  readonly policy: 'fixed' | 'declared'
  /** The policy of a definition that declares none; left out, the policy is always stored. */
  readonly usual?: Pick<Fold<unknown>, 'retain' | 'checkpoint'>
  /** True: another kind may lie at this id, so that of this timeline is always stored. */
  mayBeOther?(timeline: string): boolean
  /** The statuses in which something is left to do, if this kind ends at all. */
  readonly unfinished?: readonly string[]
  /** Of its statuses, those in which only a person can say how it goes on. */
  readonly attention?: readonly string[]
  /** What the state says beyond the head, for people; names are those of `reprise show`. */
  summarize?(state: unknown, head: Head): Readonly<Record<string, unknown>>
  /** Where it stands, as one line for people. `unread`: the kinds of the mail that it has not read yet. */
  stands?(state: unknown, head: Head, unread: readonly string[]): StatusLine
  /** Its runs begin, and go on, without an entry: whoever keeps a list from the feed looks at their heads as well. */
  readonly beginsUnwritten?: true
  /** Its status at this moment, where the head has that of the last commit; left out: they are the same. */
  statusNow?(head: Head): string
  /** What a recovery does again since the checkpoint, where no entry has it. @example 'input is read again' */
  readonly redoes?: string
  /** The verbs that it would refuse as it is now, each with the reason. */
  refuses?(state: unknown, head: Head): Refusals
  /**
   * What the head of a timeline says beside its history, made again after a damaged page took it (core/history/lost-head.ts).
   * `state` is undefined where `fold` is null. Null: it takes the definition. Left out: what `summary` of the fold says, or
   * an empty status.
   */
  headOf?(state: unknown, head: Head, around: Surroundings): HeadAgain | null | Promise<HeadAgain | null>
  /**
   * @internal Reads what a restore of this checkpoint reads beyond the state that the kernel restores, and throws as it
   * would. For verify and drills: that all chunks are whole does not mean that they hold what was promised.
   */
  readCheckpoint?(record: ManifestRecord, manifest: Pick<Manifest, 'parts'>, io: StateIo): Promise<void>
  /** What flows through it, if it is of a kind through which records flow; null: nothing is known yet. */
  flows?(target: Target): Promise<FlowView | null>
  /** How an entry reads as part of a journal; null: by its type alone. */
  tells?(entry: Entry): Told | null
  /** The timelines that only make sense together with this one: shards, partitions. They are moved together. */
  family?(engine: Engine, head: Head): Promise<readonly string[]>
  /** What an entry tells of that was done outside, for people who think of going back; null: nothing. */
  did?(entry: Entry): string | null
  /** What it called outside by itself, beside the kernel's effects: `reprise effects` lists both. */
  outside?(state: unknown, hash: Hash, inherited: readonly Inherited[]): readonly ModelEffect[]
  readonly actions?: Actions
  /** The edits that its forks take; left out: none. */
  readonly edits?: ForkEdits
  /** Throws what a verb would be refused with as things stand, and changes nothing: tools ask it before they ask a person. */
  refuse?(target: Target, verb: Verb, args: { readonly seq?: number }): Promise<void>
  /** What it gave up on, read aside. Goes with the action `redrive`. */
  readonly letters?: ModelLetters
  readonly transfer?: Transfer
  /**
   * For groups: reads which messages between timelines its entries sent and received. `state` is that of the head. Left out
   * where it sends none that its history tells of.
   */
  exchanges?(timeline: string, state: unknown): ExchangeReader
  /** The children that it started after a sequence, as timelines. */
  childrenAfter?(state: unknown, timeline: string, seq: number): readonly string[]
  /** Readers of the feed derive state from its entries: a rollback is an entry of the new branch, for them to see. */
  readonly tellsReaders?: boolean
  /** Single entries can be erased: what is left still folds into a state that makes sense. */
  readonly entries?: ErasableEntries
  /** It goes back where it is executed: its rollback only asks for it, through its inbox. */
  readonly goesBackItself?: boolean
  /** What is wrong with a message that a program sends it; null, or left out: nothing that is known. */
  mailFault?(kind: string, data: unknown): string | null
  /** Undoes an unfinished change (engine/storage/store-change.ts) that only this model knows, by the kind of the change. */
  readonly abandons?: Readonly<Record<string, (engine: Engine, of: string) => Promise<void>>>
  /** Seals what this kind keeps in plain text in the user's database, and says how many rows that were. Part of a rekey. */
  readonly seals?: (sql: Sql) => Promise<number>
}

/** What is known around a head. */
export interface Surroundings {
  readonly store: Pick<Store, 'head'>
  readonly worker: { now(timeline?: string): number }
}

/** What is left out stays as it was found. A wakeup too many does no harm: whoever works on it looks, and waits again. */
export interface HeadAgain {
  readonly status?: string
  readonly queue?: string | null
  readonly wakeup?: number | null
  /** Null takes one away. */
  readonly attributes?: Readonly<Record<string, Attribute | null>>
}

export interface ModelLetters {
  read(target: Target): Promise<readonly ModelLetter[]>
  /** These count as finished from now on. */
  discard(target: Target, keys: readonly string[]): Promise<void>
  /** Why they can be neither sent back nor discarded any more; null, or left out: they can. */
  final?(head: Head): string | null
}

/** One call to the outside, as the kernel's effects tell theirs. */
export interface ModelEffect {
  /** As the model's own verbs name it. */
  readonly id: string
  readonly name: string
  /** Null: it has none, or its call never asked for it. */
  readonly key: string | null
  /** intended, retrying, held, done, failed, compensated, compensation-stuck. */
  readonly state: string
  /** What is known about it: null while it is under way or in doubt. */
  readonly outcome: 'done' | 'failed' | 'compensated' | null
  /** Where its outcome is in history. */
  readonly seq: number | null
  readonly attempts?: number
  readonly error: string | null
  /** The original of this fork did it. */
  readonly inheritedFrom?: string
}

/** One thing that was given up on, with the last failure. */
export interface ModelLetter {
  readonly key: string
  readonly item: unknown
  readonly attempts: number
  readonly at: number
  readonly error: { readonly name: string; readonly message: string; readonly stack?: string | undefined }
}

export interface ErasableEntries {
  /** What a search may name of one. */
  fields(entry: Entry): unknown
  /** Processes write it in turns: it can be taken from a live one, which then reads it anew. */
  readonly inTurns?: boolean
}

/** What else a move to another store takes; history, state, mail and wakeup are carried for every model. */
export interface Transfer {
  /** Why it cannot leave its store: always, or as its state is now (null: it can). */
  readonly stays?: string | ((state: unknown, head: Head) => string | null)
  /** Asks whoever executes it to stop, if it can be asked. */
  stop?(target: Target): Promise<void>
  /** Told to others in the old store, in the commit that closes it there. */
  leaves?(target: Target): Promise<readonly OutgoingMessage[]>
  /** Told to others in the new store, in the commit that makes it visible there. */
  arrives?(target: Target): Promise<readonly OutgoingMessage[]>
}

export interface Target {
  readonly engine: Engine
  readonly head: Head
  /** Asked again with the same key, it is done once: the id of the mail that asks for it, or the key of its entry. */
  readonly key?: string
}

/** What was done: in words, and as facts for programs. */
export interface Done {
  readonly said: string
  readonly facts: Readonly<Record<string, unknown>>
}

/** A verb that this model does not have, and the words that lead to the right one. */
export interface Instead {
  readonly instead: string
  /** No process has it, whatever code it knows: a group that goes back cannot have such a member. */
  readonly isForGood?: true
}

export type Act<Args = void, Result = Done> = ((target: Target, args: Args) => Promise<Result>) | Instead

export interface Actions {
  /** Goes on with what was left, and does not end before it has. Needs the user's code. */
  readonly resume?: Act
  /** Asks it to stop where it can go on later: what is in flight is finished, or a savepoint made. */
  readonly stop?: Act<{ readonly reason: string }>
  /** Asks it to end. `undo`: of a fork, also what its original did. */
  readonly cancel?: Act<{ readonly reason: string; readonly undo?: 'inherited' }>
  /** Ends it at once, without cleaning up. */
  readonly terminate?: Act<{ readonly reason: string }>
  /** Takes the last failure back and goes on. */
  readonly retry?: Act
  readonly signal?: Act<{ readonly name: string; readonly value?: unknown }>
  /** A person says what became of something in doubt. */
  readonly settle?: Act<{
    readonly step: string
    readonly outcome: string
    readonly by: string
    readonly result?: unknown
  }>
  /** A person decides what it waits for. */
  readonly decide?: Act<{ readonly verdict: string; readonly by: string; readonly reason?: string }>
  /** Sends what was given up back; all of it without keys. */
  readonly redrive?: Act<{ readonly keys?: readonly string[]; readonly items?: Readonly<Record<string, unknown>> }>
  /** Left out: the kernel's own, which archives what came after. */
  readonly rollback?: Act<
    {
      readonly seq: number
      readonly takeover?: boolean
      /** Of a fork: also what its original did. */
      readonly undo?: 'inherited'
      /** The caller has decided about these consumers: the model records them in its history. Left out: forced. */
      readonly consumed?: readonly Consumer[]
      /**
       * Asked again with the same key, it is done once. Whoever has one wants exactly this place: mail read after it is
       * undone, too.
       */
      readonly key?: string
    },
    Rollback
  >
  /** Left out: the kernel's own. */
  readonly fork?: Act<ForkRequest, Coordinate & { readonly parent: string }>
}

export interface ForkRequest {
  readonly seq: number
  /** The whole id. */
  readonly to: string
  /** What the model's own `edits` made of the edit: to be written in the commit that makes the fork. */
  readonly entries: readonly NewEntry[]
  readonly edit: ForkEdit | null
  /** For the head of the fork. */
  readonly mark: ForkMark | null
}

export type Verb = keyof Actions

/** Verbs that cannot be done, each with the reason. */
export type Refusals = Readonly<Partial<Record<Verb, string>>>

/** The action, or an error that says why there is none and what to do instead. */
export function actionOf<V extends Verb>(
  model: Model | null,
  verb: V,
  timeline: string,
): Exclude<NonNullable<Actions[V]>, Instead> {
  const action = model?.actions?.[verb]
  if (typeof action === 'function') return action as Exclude<NonNullable<Actions[V]>, Instead>
  const kind = model
    ? `${/^[aeiou]/.test(model.kind) ? 'an' : 'a'} ${model.kind}`
    : 'a timeline whose definition is not known here'
  const verbs = verbsOf(model)
  const instead = action
    ? (action as Instead).instead
    : verbs.length > 0
      ? `it has ${verbs.join(', ')}`
      : model
        ? 'no model of that kind has it'
        : 'name the module that exports its definition'
  const what = `${timeline} is ${kind}, which has no ${verb}: ${instead}`
  throw new RepriseError('INVALID_ARGUMENT', what, { timeline, kind: model?.kind ?? null, verb })
}

/** The verbs that it has beside those that every timeline has. */
export function verbsOf(model: Model | null): Verb[] {
  const entries = Object.entries(model?.actions ?? {}) as [Verb, Act][]
  return entries.flatMap(([verb, action]) => (typeof action === 'function' ? [verb] : []))
}

/** The verbs that it has no action for, in words that lead to the right one. */
export function insteadOf(model: Model | null): Refusals {
  const entries = Object.entries(model?.actions ?? {}) as [Verb, Act][]
  return Object.fromEntries(entries.flatMap(([verb, act]) => ('instead' in act ? [[verb, act.instead]] : [])))
}

/** What a definition says of itself. */
export interface Described {
  /** Several where its timelines are declared one by one. */
  readonly [describes]: Model | readonly Model[]
}

/** What an exported value says of itself; none if it is no definition. */
export function modelsOf(value: unknown): readonly Model[] {
  if (typeof value !== 'object' || value === null || !(describes in value)) return []
  const described = (value as Described)[describes]
  return 'kind' in described ? [described] : described
}

/** The id of one timeline of a definition. @example idOf('table/rows', 'ann') // 'table/rows/ann' */
export function idOf(scope: string, id: string | undefined): string {
  if (id === undefined || id === '') return scope
  return scope.endsWith('/') ? scope + id : `${scope}/${id}`
}

/**
 * What it was opened with; where there is only one, its name.
 * @example openedAs('table/rows', 'table/rows/ann', 'rows') // 'ann'
 */
export function openedAs(scope: string, timeline: string, name: string): string {
  const id = timeline.slice(scope.length)
  return (scope.endsWith('/') ? id : id.slice(1)) || name
}
