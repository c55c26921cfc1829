// Definitions are plain values: a name and how history folds into state. Each layer makes its own kind of definition
// and implements, under these symbols, how the engine opens an entity or runs a process of it; the engine knows no
// layer.

import type { CheckpointPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import type { RetentionPolicy } from '../../core/checkpoint/retention.ts'
import type { Coordinate } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Upcasters } from '../../core/history/fold.ts'
import type { Validity } from '../../core/history/validity.ts'
import { aBoolean, aSignal, checkOptions, checkValues, forEach, namesOf } from '../../core/options.ts'
import type { Attribute } from '../../core/store/ports.ts'
import type { Entry } from './entry.ts'
import type { TakesInput } from './run-arguments.ts'

export const opens: unique symbol = Symbol.for('reprise.opens')
export const runs: unique symbol = Symbol.for('reprise.runs')
export const works: unique symbol = Symbol.for('reprise.works')
export const reads: unique symbol = Symbol.for('reprise.reads')

/** Maps the user's handle to its host (host.ts). Not for users. */
export const behind: unique symbol = Symbol.for('reprise.host')

/** An engine, as returned by `open`. Definitions and layers find their dependencies in it. */
export interface Engine {
  readonly [behind]: unknown
}

/** Only the host has this symbol, so that a user's handle is not mistaken for it. */
export const isHost: unique symbol = Symbol.for('reprise.isHost')

/** The host as the engine passes it to a definition that it opens, runs or works on. Only layers access its content. */
export interface LayerHost {
  readonly [isHost]: true
}

export interface OpenOptions {
  /** Take the timeline over from a live owner; the owner's further writes are refused. */
  readonly takeover?: boolean
  /** How long to wait for a live owner to release it, in ms or as '10s'. */
  readonly wait?: Duration
  /**
   * Write in turns with other processes instead of owning the timeline: no OWNED, no FENCED. For timelines; aggregates
   * are always shared. `wait` is then the time a write waits for its turn. Default: 30 seconds.
   */
  readonly shared?: boolean
  /** Open even if the definition reports the state as invalid (otherwise INVALID_STATE): to repair it with new entries. */
  readonly evenInvalid?: boolean
  /** Open only an existing timeline; otherwise NOT_FOUND. */
  readonly mustExist?: boolean
  readonly signal?: AbortSignal
}

export const openOptions = namesOf<OpenOptions>()('takeover wait shared evenInvalid mustExist signal')
const openValues = { ...forEach('takeover shared evenInvalid mustExist', aBoolean), signal: [aSignal] }

/** Throws for an unknown option of open() and for a value of a wrong type. */
export function checkOpenOptions(options: OpenOptions): void {
  checkOptions('open()', options, openOptions)
  checkValues('open()', options, openValues)
  if (options.wait !== undefined) toMs(options.wait, 'wait')
}

/** How long a write waits for its turn. */
export const turnWaitMs = 30_000

/**
 * A definition with an identity that is opened: a timeline, an aggregate, a table, a session. `Id`: required (string),
 * absent (undefined), or optional.
 */
export interface Entity<Handle, Id extends string | undefined = string | undefined> {
  readonly name: string
  /** It can be opened as shared. */
  readonly canShare?: boolean
  [opens](host: LayerHost, id: Id, options: OpenOptions): Promise<Handle>
}

/** A definition that is started and ends: a workflow, a job. */
export interface Process<Input, Handle, Options = unknown> extends TakesInput {
  [runs](host: LayerHost, input: Input, options: Options): Promise<Handle>
}

/** Something this process can execute when it is due, whichever process started it. */
export interface Workable<Options extends object = object> {
  readonly name: string
  /** The names of the options for its work. Default: none. */
  readonly worksWith?: readonly (keyof Options & string)[]
  [works](host: LayerHost, options?: Options): void
}

/**
 * A definition whose entries have a form of their own: returns the form that other readers see, in the current version.
 * Null: not for other readers.
 */
export interface Readable<Item extends Entry = Entry> {
  readonly prefix: string
  [reads](entry: Entry): Item | null
}

/** State as of a coordinate; read-only. */
export interface StateAt<State> {
  readonly state: State
  readonly coordinate: Coordinate
}

/** The checks of TypeScript, for callers without it. */
export function checkDefinition(given: unknown, does: typeof opens | typeof runs | typeof works, verb: string): void {
  if (typeof given === 'object' && given !== null && typeof Reflect.get(given, does) === 'function') return
  const kinds = does === opens ? 'a timeline, an aggregate, a table, a save' : 'a workflow, a job'
  const done = does === opens ? 'opened' : does === runs ? 'run' : 'worked on'
  const what = `${verb} needs a definition that can be ${done}, such as ${kinds}`
  throw new RepriseError('INVALID_ARGUMENT', what, { given: given === null ? 'null' : typeof given })
}

/** The same for the verbs that read a fold: `at`, `follow`. */
export function checkFolding(given: unknown): void {
  const { prefix, fold } = (given ?? {}) as { readonly prefix?: unknown; readonly fold?: unknown }
  if (typeof prefix === 'string' && typeof fold === 'object' && fold !== null) return
  const what = 'a definition with a state is needed, such as a timeline, an aggregate or a table'
  throw new RepriseError('INVALID_ARGUMENT', what, { given: given === null ? 'null' : typeof given })
}

/** From each older version of a fold directly to the current one. */
export type StateMigrations<State> = Readonly<Record<string, (state: never) => State>>

/** The remainder of an erased entry: its coordinate, time and type. */
export type Erased = Omit<Entry, 'data' | 'key'>

/** How history folds into state, and when state is captured: everything the kernel needs to know about a model. */
export interface Fold<State> {
  /** Changes when the meaning of `apply` changes: checkpoints of another version are ignored and rebuilt. */
  readonly version: string
  initial(): State
  apply(state: State, entry: Entry): State | void
  /** Called instead of `apply` for an erased entry. Default: the state of the remaining entries. */
  erased?(state: State, gone: Erased): State | void
  /**
   * Called with a state restored from a checkpoint, before entries are applied. Computes derived data of a large state
   * in slices, so that the event loop is not blocked.
   */
  restored?(state: State, yielder: { readonly isDue: boolean; take(): Promise<void> }): Promise<void>
  readonly upcasters?: Upcasters | undefined
  /**
   * How the state of each older version becomes the current one. A version without a migration is rebuilt from history,
   * or lost if there is no history.
   */
  readonly migrations?: StateMigrations<State> | undefined
  /** For the error about a missing migration: the code that the author of the definition should add. */
  migrationFor?(version: string): string
  /**
   * `apply` never mutates the state passed to it, at any depth, except for Keyed parts. A large state is then captured
   * in slices while later entries are folded; otherwise a state that is folded during its capture is captured in one
   * slice.
   */
  readonly immutable?: boolean | undefined
  readonly checkpoint?: CheckpointPolicy | undefined
  readonly retain?: RetentionPolicy | undefined
  /** The fold calls no user code and our own tests prove it pure: the guard is not installed for it. */
  readonly isOurs?: boolean | undefined
  /** Entries larger than this are compressed. A model with mostly textual entries may save space with a lower value. */
  readonly compressAboveBytes?: number | undefined
  /** The state is read page by page, on demand: for large Keyed parts of which few keys are read. */
  readonly paged?: PagedFold | undefined
  /** Checks a state for the application: called before a capture and after a restore. */
  valid?: Validity<State> | undefined
  /** The status and attributes that the head shows for a state. Computed again when a rollback or a fork replaces the state. */
  summary?(state: State): { readonly status?: string; readonly attributes?: Readonly<Record<string, Attribute | null>> }
  /** "state": the checkpoint is authoritative, and there is nothing to replay after it (A1.2). */
  readonly authority?: 'history' | 'state' | undefined
  /** Another system holds the state, and history records the progress (A1.5): how the state is rebuilt from there. */
  readonly external?: ExternalState<State> | undefined
  /** With "state": input after a checkpoint is read again from its sources, so a restore loses nothing. */
  readonly rereads?: boolean | undefined
}

export interface ExternalState<State> {
  /** Reads the implied state from the system that holds it, up to the recorded progress. */
  rebuild(progress: State, at: { readonly timeline: string; readonly signal: AbortSignal }): unknown
  /** Compares the rebuilt state with the progress: true, false, or the difference as text. Default: it was rebuilt. */
  check?(rebuilt: unknown, progress: State): boolean | string | Promise<boolean | string>
}

/** True if state of this version is current or can be migrated. */
export function canRead(
  fold: { readonly version: string; readonly migrations?: Readonly<Record<string, unknown>> | undefined },
  version: string,
): boolean {
  return version === fold.version || (fold.migrations !== undefined && Object.hasOwn(fold.migrations, version))
}

export interface PagedFold {
  /** Size of a page. Small pages read little for one key; large pages compress better and need a shorter directory. */
  readonly pageBytes: number
  /**
   * The keys of Keyed parts (properties of the state) that `apply` reads, sets or deletes. It must name all of them,
   * because `apply` cannot wait.
   */
  touches(entry: Entry): Iterable<readonly [part: string, key: string]>
}

/** Prefix of the engine's own entries; they never reach a user's `apply`. */
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

/** For timelines with an unknown definition: their effects can still be listed. */
export const ledgerOnly: Fold<unknown> = { version: '$ledger', initial: () => null, apply: () => null }
