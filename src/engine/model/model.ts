// The descriptor of a model: the name of a kind of timeline, the scope of its ids, how its history folds, how people
// read its state, and how each verb works on it. Tools (the command line, a server, a dashboard) read it and know no
// layer; a layer exports it and knows no tool.
// A kind as a whole has a descriptor without a name (`jobKind`), with everything that works without the user's code. A
// definition has a descriptor with its name, its own scope, and everything that needs its code.

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
import type { JournalRow, StatusLine } from './journal-row.ts'
import type { Consumer, Rollback } from './rollback-report.ts'
import type { StateIo } from './state-io.ts'

export const describes: unique symbol = Symbol.for('reprise.describes')

export interface Model {
  /** job, workflow, table, …: one word, the same in code, ids and tools. */
  readonly kind: string
  /** The definition's name. Null: the kind as a whole. */
  readonly name: string | null
  /** The scope of its timelines (core/history/scope.ts). */
  readonly scope: string
  /** Null: only the user's code has the fold. */
  readonly fold: Fold<unknown> | null
  /**
   * 'fixed': every definition of this kind has the policy of `fold`. 'declared': definitions declare their own, which
   * is stored with the timeline unless it equals `usual`.
   */
  readonly policy: 'fixed' | 'declared'
  /** The policy of a definition that declares none. Default: none; the policy is always stored. */
  readonly usual?: Pick<Fold<unknown>, 'retain' | 'checkpoint'>
  /** True: this id may belong to another kind, so the kind of this timeline is always stored. */
  mayBeOther?(timeline: string): boolean
  /** The statuses with work left to do, if timelines of this kind end. */
  readonly unfinished?: readonly string[]
  /** The statuses in which a person must decide how to continue. */
  readonly attention?: readonly string[]
  /** Facts of the state that the head does not have, for people; the names are those of `reprise show`. */
  summarize?(state: unknown, head: Head): Readonly<Record<string, unknown>>
  /**
   * The state as its users know it, for time travel and comparisons. It may execute the definition's code, which changes
   * nothing. Default: the state.
   */
  shows?(state: unknown, at: { readonly engine: Engine; readonly timeline: string }): unknown
  /** The current status as one line for people. `unread`: the kinds of the messages still in its inbox. */
  statusLine?(state: unknown, head: Head, unread: readonly string[]): StatusLine
  /** Its runs start and resume without an entry, so a list built from the feed must also read their heads. */
  readonly beginsUnwritten?: true
  /** The current status, where the head has only that of the last commit. Default: that of the head. */
  statusNow?(head: Head): string
  /** By current status: the statuses of heads that `statusNow` may replace by it. */
  readonly storedAs?: Readonly<Record<string, readonly string[]>>
  /** The work that a recovery repeats since the checkpoint without any entry. @example 'input is read again' */
  readonly redoes?: string
  /** The verbs that the timeline refuses in its current state, each with the reason. */
  refuses?(state: unknown, head: Head): Refusals
  /**
   * Rebuilds the fields of a head beside its history, after a damaged page lost them (core/history/lost-head.ts).
   * `state` is undefined where `fold` is null. Null: needs the definition. Default: the `summary` of the fold, or an
   * empty status.
   */
  headOf?(state: unknown, head: Head, around: Surroundings): HeadAgain | null | Promise<HeadAgain | null>
  /**
   * @internal Reads everything that a restore of this checkpoint reads beyond the kernel's state, and throws as the
   * restore would. For verify and drills: intact chunks may still lack promised content.
   */
  readCheckpoint?(record: ManifestRecord, manifest: Pick<Manifest, 'parts'>, io: StateIo): Promise<void>
  /** The triggers of checkpoints by which the application itself declares its state complete. Default: none. */
  readonly announced?: readonly string[]
  /** Metrics of the records that flow through it, for kinds that process records. Null: none known yet. */
  flows?(target: Target): Promise<FlowView | null>
  /** The journal row of an entry. Null: the row shows the type alone. */
  entryRow?(entry: Entry): JournalRow | null
  /** The timelines that belong to this one (shards, partitions) and are moved with it. */
  family?(engine: Engine, head: Head): Promise<readonly string[]>
  /** The outside action that an entry records, for people who consider a rollback. Null: none. */
  did?(entry: Entry): string | null
  /** Outside calls of the model beside the kernel's effects: `reprise effects` lists both. */
  outside?(state: unknown, hash: Hash, inherited: readonly Inherited[]): readonly ModelEffect[]
  readonly actions?: Actions
  /** The edits that its forks accept. Default: none. */
  readonly edits?: ForkEdits
  /** Throws the error that a verb would be refused with now, and changes nothing: tools call it before they prompt a person. */
  refuse?(target: Target, verb: Verb, args: { readonly seq?: number }): Promise<void>
  /** Its dead letters, read without ownership. Used with the action `redrive`. */
  readonly letters?: ModelLetters
  readonly transfer?: Transfer
  /**
   * For groups: reads the messages between timelines that its entries sent and received. `state` is that of the head.
   * Default:
   * the model sends no messages that its history records.
   */
  exchanges?(timeline: string, state: unknown): ExchangeReader
  /**
   * The timelines of the children that it started after a sequence, and of those that still run for it. `known`: its
   * children in the store (consumers.ts).
   */
  childrenAfter?(state: unknown, timeline: string, seq: number, known: readonly Head[]): readonly string[]
  /** Feed readers derive state from its entries, so a rollback appends an entry to the new branch for them. */
  readonly marksRollback?: boolean
  /** Single entries can be erased: the remaining entries still fold into a meaningful state. */
  readonly entries?: ErasableEntries
  /** The run executes its own rollback: the verb only sends it a message. */
  readonly goesBackItself?: boolean
  /** The defect of a message that a program sends to it. Null, or without this method: no known defect. */
  mailFault?(kind: string, data: unknown): string | null
  /** Undoes an unfinished change (engine/storage/store-change.ts) that only this model knows, by the kind of the change. */
  readonly abandons?: Readonly<Record<string, (engine: Engine, of: string) => Promise<void>>>
  /** Seals the plain-text rows of this kind in the user's database, and returns their number. Part of a rekey. */
  readonly seals?: (sql: Sql) => Promise<number>
}

/** The context of a head. */
export interface Surroundings {
  readonly store: Pick<Store, 'head'>
  readonly worker: { now(timeline?: string): number }
}

/** Omitted fields keep their values. A superfluous wakeup does no harm: the worker finds nothing to do and waits again. */
export interface HeadAgain {
  readonly status?: string
  readonly queue?: string | null
  readonly wakeup?: number | null
  /** Null removes an attribute. */
  readonly attributes?: Readonly<Record<string, Attribute | null>>
}

export interface ModelLetters {
  read(target: Target): Promise<readonly ModelLetter[]>
  /** Marks these as finished. */
  discard(target: Target, keys: readonly string[]): Promise<void>
  /** The reason why they can be neither redriven nor discarded any more. Null, or without this method: they can. */
  final?(head: Head): string | null
}

/** One outside call, in the form of the kernel's effects. */
export interface ModelEffect {
  /** The id that the model's own verbs use. */
  readonly id: string
  readonly name: string
  /** Null: the effect has no key, or its call never read it. */
  readonly key: string | null
  /** intended, retrying, held, done, failed, compensated, stuck. */
  readonly state: string
  /** Null while the call is running or in doubt. */
  readonly outcome: 'done' | 'failed' | 'compensated' | null
  /** The sequence of the entry with its outcome. */
  readonly seq: number | null
  readonly attempts?: number
  readonly error: string | null
  /** The fork's original that made the call. */
  readonly inheritedFrom?: string
}

/** One dead letter, with its last failure. */
export interface ModelLetter {
  readonly key: string
  readonly item: unknown
  readonly attempts: number
  readonly at: number
  readonly error: { readonly name: string; readonly message: string; readonly stack?: string | undefined }
}

export interface ErasableEntries {
  /** The searchable fields of an entry. */
  fields(entry: Entry): unknown
  /** Processes write the timeline in turns: it can be taken over from a live process, which then reads it again. */
  readonly inTurns?: boolean
}

/** Additional parts of a move to another store; history, state, mail and wakeup are moved for every model. */
export interface Transfer {
  /** The reason it cannot leave its store: always, or in its current state (null: it can). */
  readonly stays?: string | ((state: unknown, head: Head) => string | null)
  /** Requests the executing process to stop, if possible. */
  stop?(target: Target): Promise<void>
  /** Messages to others in the old store, sent in the commit that closes it there. */
  leaves?(target: Target): Promise<readonly OutgoingMessage[]>
  /** Messages to others in the new store, sent in the commit that makes it visible there. */
  arrives?(target: Target): Promise<readonly OutgoingMessage[]>
  /** The head of a copy under another id. Default: the head in the file. */
  headOfCopy?(target: Target): Promise<HeadAgain>
  /** Whether a copy under another id gets the unread messages of this kind that its original has. Default: all. */
  copiesMail?(kind: string): boolean
}

export interface Target {
  readonly engine: Engine
  readonly head: Head
  /** Idempotency: a repeated request with the same key is done once. The id of the message, or the key of the entry. */
  readonly key?: string
}

/** The result of a verb: as text, and as facts for programs. */
export interface ActionReport {
  readonly text: string
  readonly facts: Readonly<Record<string, unknown>>
}

/** A verb that this model does not have, with a text that names the right one. */
export interface Instead {
  readonly instead: string
  /** No process has the verb, whatever code it runs: a group that is rolled back cannot have such a member. */
  readonly isForGood?: true
}

export type Act<Args = void, Result = ActionReport> = ((target: Target, args: Args) => Promise<Result>) | Instead

export interface Actions {
  /** Resumes the remaining work, and resolves once it is done. Needs the user's code. */
  readonly resume?: Act
  /** Requests a stop from which it can resume later: work in flight is finished, or a savepoint made. */
  readonly stop?: Act<{ readonly reason: string }>
  /** Requests its end. `undo`: for a fork, also undoes the work of its original. */
  readonly cancel?: Act<{ readonly reason: string; readonly undo?: 'inherited' }>
  /** Ends it at once, without cleanup. */
  readonly terminate?: Act<{ readonly reason: string }>
  /** Clears the last failure and resumes. */
  readonly retry?: Act
  /** Repeats one step and the steps that depend on it; the others keep their results. */
  readonly rerun?: Act<{
    readonly step: string
    readonly undo?: 'inherited'
    readonly consumed?: 'force'
  }>
  readonly signal?: Act<{ readonly name: string; readonly value?: unknown }>
  /** Records a person's decision on the outcome of something in doubt. */
  readonly settle?: Act<{
    readonly step: string
    readonly outcome: string
    readonly by: string
    readonly result?: unknown
  }>
  /** Records a person's decision that it waits for. */
  readonly decide?: Act<{
    readonly verdict: string
    readonly by: string
    readonly reason?: string
    /** The end of the history that the person has seen. */
    readonly about?: Pick<Coordinate, 'seq' | 'digest'>
  }>
  /** Sends dead letters back; without keys, all of them. */
  readonly redrive?: Act<{ readonly keys?: readonly string[]; readonly items?: Readonly<Record<string, unknown>> }>
  /** Default: the kernel's rollback, which archives the undone entries. */
  readonly rollback?: Act<
    {
      readonly seq: number
      readonly takeover?: boolean
      /** For a fork: also undoes the work of its original. */
      readonly undo?: 'inherited'
      /** The caller has decided about these consumers: the model records them in its history. Default: forced. */
      readonly consumed?: readonly Consumer[]
      /**
       * A repeated request with the same key is done once. With a key, the rollback targets exactly this sequence: mail
       * read after it is undone, too.
       */
      readonly key?: string
    },
    Rollback
  >
  /** Default: the kernel's fork. */
  readonly fork?: Act<ForkRequest, Coordinate & { readonly parent: string }>
}

export interface ForkRequest {
  readonly seq: number
  /** The complete id. */
  readonly to: string
  /** Entries that the model's `edits` made from the edit, written in the commit that creates the fork. */
  readonly entries: readonly NewEntry[]
  readonly edit: ForkEdit | null
  /** The mark for the fork's head. */
  readonly mark: ForkMark | null
}

export type Verb = keyof Actions

/** Refused verbs, each with the reason. */
export type Refusals = Readonly<Partial<Record<Verb, string>>>

/** Returns the action, or throws an error with the reason and the alternative. */
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

/** The verbs that the model adds to those of every timeline. */
export function verbsOf(model: Model | null): Verb[] {
  const entries = Object.entries(model?.actions ?? {}) as [Verb, Act][]
  return entries.flatMap(([verb, action]) => (typeof action === 'function' ? [verb] : []))
}

/** The verbs without an action, each with a text that names the right one. */
export function insteadOf(model: Model | null): Refusals {
  const entries = Object.entries(model?.actions ?? {}) as [Verb, Act][]
  return Object.fromEntries(entries.flatMap(([verb, act]) => ('instead' in act ? [[verb, act.instead]] : [])))
}

/** A definition that carries its descriptor. */
export interface Described {
  /** Several, if its timelines are declared one by one. */
  readonly [describes]: Model | readonly Model[]
}

/** The models of an exported value; empty if it is not a definition. */
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
 * The id that the timeline was opened with; the definition's name if there is only one timeline.
 * @example openedAs('table/rows', 'table/rows/ann', 'rows') // 'ann'
 */
export function openedAs(scope: string, timeline: string, name: string): string {
  const id = timeline.slice(scope.length)
  return (scope.endsWith('/') ? id : id.slice(1)) || name
}
