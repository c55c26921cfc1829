// Definitions are plain values: a name and how history folds into state. A layer makes its own kind of definition and
// says, under these symbols, how the engine opens an entity of it or runs a process of it; the engine knows no layer.

import type { CheckpointPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import type { RetentionPolicy } from '../../core/checkpoint/retention.ts'
import type { Coordinate } from '../../core/coordinate.ts'
import type { Duration } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Upcasters } from '../../core/history/fold.ts'
import type { Validity } from '../../core/history/validity.ts'
import { namesOf } from '../../core/options.ts'
import type { Attribute } from '../../core/store/ports.ts'
import type { Entry } from './entry.ts'

export const opens: unique symbol = Symbol.for('reprise.opens')
export const runs: unique symbol = Symbol.for('reprise.runs')
export const works: unique symbol = Symbol.for('reprise.works')
export const reads: unique symbol = Symbol.for('reprise.reads')

/** Leads from what users hold to the host behind it (host.ts). Not for users. */
export const behind: unique symbol = Symbol.for('reprise.host')

/** An engine: what `open` gave you. Definitions and layers find in it what they need. */
export interface Engine {
  readonly [behind]: unknown
}

/** Only the host has it, so that what users hold is not taken for it. */
export const isHost: unique symbol = Symbol.for('reprise.isHost')

/** What the engine hands to a definition that it opens, runs or works on. Only layers look into it. */
export interface LayerHost {
  readonly [isHost]: true
}

export interface OpenOptions {
  /** Take it over from a live owner too; its further writes are refused. */
  readonly takeover?: boolean
  /** How long to wait for a live owner to let go, in ms or as '10s'. */
  readonly wait?: Duration
  /**
   * Written in turns with other processes, and not owned by this one: no OWNED, no FENCED. For timelines; aggregates always are.
   * `wait` is then how long a write tries to get its turn, 30 seconds if left out.
   */
  readonly shared?: boolean
  /** Although its definition says that the state is not valid (INVALID_STATE otherwise): to mend it by new entries. */
  readonly evenInvalid?: boolean
  /** Only open what exists; NOT_FOUND otherwise. */
  readonly mustExist?: boolean
  readonly signal?: AbortSignal
}

export const openOptions = namesOf<OpenOptions>({
  takeover: true,
  wait: true,
  shared: true,
  evenInvalid: true,
  mustExist: true,
  signal: true,
})

/** How long a write tries to get its turn. */
export const turnWaitMs = 30_000

/**
 * Something with an identity that is opened: a timeline, an aggregate, a table, a session. `Id` says whether it must have one
 * (string), has none (undefined), or may have one.
 */
export interface Entity<Handle, Id extends string | undefined = string | undefined> {
  readonly name: string
  /** It can be opened as shared. */
  readonly canShare?: boolean
  [opens](host: LayerHost, id: Id, options: OpenOptions): Promise<Handle>
}

/** Something that is started and ends: a workflow, a job. */
export interface Process<Input, Handle, Options = unknown> {
  readonly name: string
  [runs](host: LayerHost, input: Input, options: Options): Promise<Handle>
}

/** Something this process can execute when it is due, wherever it was started. */
export interface Workable<Options extends object = object> {
  readonly name: string
  /** The options that its work takes. Default: none. */
  readonly worksWith?: readonly (keyof Options & string)[]
  [works](host: LayerHost, options?: Options): void
}

/** Something whose entries have a form of their own: what others read of one, brought up to today; null: not for others. */
export interface Readable<Item extends Entry = Entry> {
  readonly prefix: string
  [reads](entry: Entry): Item | null
}

/** State as of a coordinate; read-only. */
export interface StateAt<State> {
  readonly state: State
  readonly coordinate: Coordinate
}

/** What TypeScript tells, for those who do without it. */
export function checkDefinition(given: unknown, does: typeof opens | typeof runs | typeof works, verb: string): void {
  if (typeof given === 'object' && given !== null && typeof Reflect.get(given, does) === 'function') return
  const kinds = does === opens ? 'a timeline, an aggregate, a table, a save' : 'a workflow, a job'
  const done = does === opens ? 'opened' : does === runs ? 'run' : 'worked on'
  const what = `${verb} needs a definition that can be ${done}, such as ${kinds}`
  throw new RepriseError('INVALID_ARGUMENT', what, { given: given === null ? 'null' : typeof given })
}

/** From each older version of a fold straight to today's. */
export type StateMigrations<State> = Readonly<Record<string, (state: never) => State>>

/** What is left of an entry that was erased (docs/decisions/erasure.md): where and when it was, and its type. */
export type Erased = Omit<Entry, 'data' | 'key'>

/** How history folds into state, and when state is captured: all that the kernel needs to know of a model. */
export interface Fold<State> {
  /** Changes when the meaning of `apply` changes: checkpoints of another version are ignored and rebuilt. */
  readonly version: string
  initial(): State
  apply(state: State, entry: Entry): State | void
  /** Called in the place of `apply` for an entry that was erased. Left out: the state is that of the entries that are left. */
  erased?(state: State, gone: Erased): State | void
  /**
   * Called with a state from a checkpoint before entries are applied to it: what is derived from a large one is made here, in
   * slices, so that the event loop is not held up.
   */
  restored?(state: State, breath: { readonly isDue: boolean; take(): Promise<void> }): Promise<void>
  readonly upcasters?: Upcasters | undefined
  /** By older version: how its state becomes today's. What has none is rebuilt from history, and lost where there is none. */
  readonly migrations?: StateMigrations<State> | undefined
  /** For the error where one is missing: what to add, as the author of the definition writes it. */
  migrationFor?(version: string): string
  /**
   * `apply` changes nothing of the state it is given, at no depth, but Keyed parts. Then a large state is captured in slices
   * while it goes on to be folded; without this, one that is folded meanwhile is captured in one go.
   */
  readonly immutable?: boolean | undefined
  readonly checkpoint?: CheckpointPolicy | undefined
  readonly retain?: RetentionPolicy | undefined
  /** It calls nothing of the user's, and is held to be pure by our own tests: the guard need not be put in place for it. */
  readonly isOurs?: boolean | undefined
  /** Entries larger than this are compressed. A model whose entries are mostly text may save space by a lower one. */
  readonly compressAboveBytes?: number | undefined
  /** The state is read page by page, as it is needed: for large Keyed parts of which little is looked at. */
  readonly paged?: PagedFold | undefined
  /** Whether a state makes sense to the application: asked before one is captured and after one is restored. */
  valid?: Validity<State> | undefined
  /** What the head shows of a state, for people and queries: told anew where a rollback or a fork puts another in its place. */
  summary?(state: State): { readonly status?: string; readonly attributes?: Readonly<Record<string, Attribute | null>> }
  /** "state": the checkpoint is the truth and there is nothing to replay after it (A1.2). */
  readonly authority?: 'history' | 'state' | undefined
  /** With "state": what came after a checkpoint is read again from its sources, so a restore from it loses nothing. */
  readonly rereads?: boolean | undefined
}

/** Whether state of this version is today's, or can be made into it. */
export function canRead(
  fold: { readonly version: string; readonly migrations?: Readonly<Record<string, unknown>> | undefined },
  version: string,
): boolean {
  return version === fold.version || (fold.migrations !== undefined && Object.hasOwn(fold.migrations, version))
}

export interface PagedFold {
  /** Size of a page. Small ones: little is read for one key. Large ones: they compress better, and the directory is short. */
  readonly pageBytes: number
  /**
   * The keys of Keyed parts (properties of the state) that `apply` looks at, sets or deletes: all of them, for it
   * cannot wait.
   */
  touches(entry: Entry): Iterable<readonly [part: string, key: string]>
}

/** Entries of the engine itself start with this; they never reach a user's `apply`. */
export const systemPrefix = '$'

const nameForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/

export function checkName(kind: string, name: string): string {
  if (typeof name !== 'string' || !nameForm.test(name)) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      `the name of a ${kind} must have 1 to 100 letters, digits, dots, dashes and underscores, and must start with a letter or digit`,
      { name: String(name).slice(0, 80) },
    )
  }
  return name
}

/** For timelines whose definition is not known: their effects can be listed all the same. */
export const ledgerOnly: Fold<unknown> = { version: '$ledger', initial: () => null, apply: () => null }
