// A raw timeline: direct access to the kernel. A definition declares how entries fold into state; the handle appends,
// and has the state, the coordinate and the recovery report.

import { type CheckpointPolicy, checkPolicy, usualPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import { type RetentionPolicy, resolveRetention } from '../../core/checkpoint/retention.ts'
import { type Coordinate, timelineId } from '../../core/coordinate.ts'
import { toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkUpcasters, type Upcasters } from '../../core/history/fold.ts'
import type { Validity } from '../../core/history/validity.ts'
import { checkOptions, checkValues, namesOf } from '../../core/options.ts'
import { checkFunction, checkFunctions, refuseThenable } from '../../core/synchronous.ts'
import type { RecoveryReport } from '../base/recovery-report.ts'
import type { CheckpointRequest, PublishedCheckpoint } from '../checkpoint/checkpointer.ts'
import type { Effects } from '../history/effects.ts'
import type { Entry } from '../history/history.ts'
import type { Host } from '../host/host.ts'
import {
  type Entity,
  type Erased,
  type ExternalState,
  type Fold,
  type OpenOptions,
  opens,
  type StateMigrations,
  systemPrefix,
  turnWaitMs,
  type Workable,
  works,
} from '../model/definition.ts'
import { type EnlistsAppend, enlistsAppend } from '../model/enlisting.ts'
import { endKey, isEndKey } from '../model/entry.ts'
import { checkFirstSegment } from '../model/id-prefixes.ts'
import { type Described, describes, type Model } from '../model/model.ts'
import type { NewEntry, OpenTimeline, WriteOptions } from '../writing/timeline.ts'
import type { TurnTimeline } from '../writing/turn-timeline.ts'
import { TurnWriter } from '../writing/turn-writer.ts'
import type { OutcomeReceiver, Written } from '../writing/writer.ts'
import { appendKind, enlistAppend, serveAppends } from './append-mail.ts'

/** The facts about an entry that `apply` gets besides the entry itself. */
export interface EntryInfo {
  readonly seq: number
  readonly epoch: number
  readonly time: number
  readonly version: number
  readonly key: string | undefined
}

export interface TimelineOptions<State, E extends { readonly type: string }> {
  readonly initial: () => State
  /** Pure: returns the next state, or changes Keyed parts in place and returns nothing. */
  readonly apply: (state: State, entry: E, info: EntryInfo) => State | void
  /**
   * Called for entries that were erased (`rp.eraseEntries`), with sequence, time and type, without data. Default: the
   * state of the remaining entries.
   */
  readonly erased?: (state: State, gone: Erased) => State | void
  /**
   * `apply` never mutates the state passed to it, at any depth, except for Keyed parts. A state of many megabytes is
   * then captured in slices of milliseconds while entries are folded. Otherwise it is captured in one slice if entries
   * arrive meanwhile, which blocks the process for about 40 ms per megabyte and emits a `capture-held` event. It is also
   * rebuilt from history when `apply` threw or its entries were not stored, unless a comparison shows it unchanged.
   */
  readonly immutable?: boolean
  /** Change it when `apply` changes its meaning: old checkpoints are then ignored and rebuilt from history. */
  readonly version?: string | number
  /** Default: every 10,000 entries. An empty policy: only manual checkpoints. */
  readonly checkpoint?: CheckpointPolicy
  readonly retain?: RetentionPolicy
  readonly upcasters?: Upcasters
  /**
   * How the state of each older `version` becomes the current one. Without a migration, state of another version is
   * rebuilt from history; if there is no history (a savepoint of the state alone, a trimmed timeline), it cannot be
   * recovered.
   */
  readonly migrations?: StateMigrations<State>
  /**
   * 'history': entries decide, and state is derived. 'external': another system holds the state, and entries record the
   * progress there; requires `rebuild`. Default: 'history'. If the newest state decides: `save` of reprise/save.
   */
  readonly authority?: 'history' | 'external'
  /**
   * With 'external': reads the implied state from the other system, up to the recorded progress. A drill calls it, and
   * aborts the signal after its `timeout`.
   */
  readonly rebuild?: (progress: State, at: { readonly timeline: string; readonly signal: AbortSignal }) => unknown
  /** With 'external': compares the rebuilt state with the progress. Returns true, false, or the difference as text. */
  readonly check?: (rebuilt: never, progress: State) => boolean | string | Promise<boolean | string>
  /**
   * Checks a state: returns true, false, or the reason as text. Called before a checkpoint (an invalid state is not
   * published) and after a restore (an older checkpoint is used instead). Pure, like `apply`.
   */
  readonly valid?: Validity<State>
}

export interface TimelineDefinition<State, E extends { readonly type: string }>
  extends Entity<TimelineHandle<State, E>, string>,
    Workable,
    EnlistsAppend<E>,
    Described {
  readonly kind: 'timeline'
  readonly name: string
  readonly fold: Fold<State>
  readonly prefix: string
  handle(open: never): TimelineHandle<State, E>
}

const known = namesOf<TimelineOptions<unknown, never>>()(
  'initial apply erased immutable version checkpoint retain upcasters migrations authority rebuild check valid',
)

/**
 * @example
 * type Added = { type: 'added'; by: number }
 * timeline('counter', { initial: () => ({ total: 0 }), apply: (s, e: Added) => ({ total: s.total + e.by }) })
 */
export function timeline<State, E extends { readonly type: string }>(
  name: string,
  options: TimelineOptions<State, E>,
): TimelineDefinition<State, E> {
  checkFirstSegment('timeline', name)
  checkOptions(`timeline ${name}`, options, known)
  checkFunctions(`timeline ${name}`, options, ['initial', 'apply'], ['erased', 'valid', 'rebuild', 'check'])
  const external = externalOf(name, options)
  if (options.checkpoint) checkPolicy(options.checkpoint)
  if (options.retain) resolveRetention(options.retain)
  if (options.upcasters) checkUpcasters(options.upcasters)
  const fold: Fold<State> = {
    version: String(options.version ?? 1),
    initial: options.initial,
    apply: (state, entry) => options.apply(state, eventOf<E>(entry), entry),
    ...(options.erased && { erased: options.erased }),
    upcasters: options.upcasters,
    immutable: options.immutable,
    migrations: options.migrations,
    checkpoint: options.checkpoint ?? usualPolicy,
    retain: options.retain,
    authority: 'history',
    external,
    valid: options.valid,
  }
  const prefix = `${name}/`
  const model: Model = {
    kind: 'timeline',
    name,
    scope: prefix,
    fold: fold as Fold<unknown>,
    policy: 'declared',
    usual: { checkpoint: usualPolicy },
    entries: { fields: (entry) => entry.data },
    mailFault: (kind, data) => (kind === appendKind ? faultOf(data) : null),
  }
  const received = { name, prefix, fold, entriesOf: (data: unknown, key: string) => listOf(data as E, key, true) }
  return {
    [describes]: model,
    kind: 'timeline',
    canShare: true,
    name,
    fold,
    prefix,
    handle: (open) => new TimelineHandle<State, E>(prefix, open),
    async [opens](engine: Host, id: string | undefined, open: OpenOptions) {
      if (id === undefined) throw new RepriseError('INVALID_ARGUMENT', `open(${name}, id): the id is missing`)
      engine.declare(model)
      if (!open.shared)
        return new TimelineHandle<State, E>(prefix, await engine.openTimeline(timelineId(prefix + id), fold, open))
      return await openShared<State, E>(engine, prefix, id, fold, open)
    },
    [works](engine: Host) {
      engine.declare(model)
      serveAppends(engine, received)
    },
    [enlistsAppend](engine: Host, id: string, entries: E | readonly E[], key: string) {
      return enlistAppend(engine, received as never, id, entries, key)
    },
  }
}

function externalOf<State>(name: string, options: TimelineOptions<State, never>): ExternalState<State> | undefined {
  const { authority, rebuild, check } = options
  if ((authority as string) === 'state') {
    // An append publishes no checkpoint: its acknowledged entries would be lost.
    const what = `timeline ${name}: authority 'state' belongs to save() of reprise/save, which stores each state whole`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline: name })
  }
  checkValues(`timeline ${name}`, { authority }, { authority: ['history', 'external'] })
  const isExternal = authority === 'external'
  if (isExternal !== (rebuild !== undefined) || (check && !isExternal)) {
    const what = `timeline ${name}: authority 'external' requires rebuild, and rebuild and check are used only with it`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline: name })
  }
  return rebuild && { rebuild, ...(check && { check: check as NonNullable<ExternalState<State>['check']> }) }
}

function faultOf(data: unknown): string | null {
  try {
    return listOf(data as { type: string }, undefined, true).length === 0 ? 'it has no entry' : null
  } catch (error) {
    return (error as Error).message
  }
}

async function openShared<State, E extends { readonly type: string }>(
  engine: Host,
  prefix: string,
  id: string,
  fold: Fold<State>,
  options: OpenOptions,
): Promise<TimelineHandle<State, E>> {
  const { mustExist = false, evenInvalid = false, takeover = false, signal, wait = turnWaitMs } = options
  const waitMs = toMs(wait, 'wait')
  const turns = await engine.openTurns(timelineId(prefix + id), fold, { mustExist, evenInvalid })
  if (takeover) await turns.own(waitMs, () => !signal?.aborted)
  return new TimelineHandle<State, E>(prefix, turns.open, { turns, writer: new TurnWriter(turns, waitMs) })
}

export interface AppendOptions {
  /** Applied at most once in this timeline: a second append with the same key is skipped. */
  readonly key?: string
  /** CONFLICT unless this is still the last sequence. */
  readonly expect?: number
  readonly signal?: AbortSignal
}

const knownAppend = namesOf<AppendOptions>()('key expect signal')

export interface Appended {
  readonly seq: number
  readonly isDuplicate: boolean
}

interface SharedWriting<State> {
  readonly turns: TurnTimeline<State>
  readonly writer: TurnWriter<State>
}

export class TimelineHandle<State, E extends { readonly type: string }> {
  /** The id passed to `open`. */
  readonly id: string
  readonly #own: OpenTimeline<State>
  readonly #shared: SharedWriting<State> | null

  /** @internal */
  constructor(prefix: string, open: OpenTimeline<State>, shared: SharedWriting<State> | null = null) {
    this.id = open.id.slice(prefix.length)
    this.#own = open
    this.#shared = shared
  }

  get #open(): OpenTimeline<State> {
    return this.#shared?.turns.open ?? this.#own
  }

  /** The id that tools use: `counter/visits` for the counter `visits`. */
  get timeline(): string {
    return this.#open.id
  }

  get state(): State {
    return this.#open.state
  }

  get coordinate(): Coordinate {
    return this.#open.coordinate
  }

  /** How its state was recovered. */
  get recovery(): RecoveryReport {
    return this.#open.recovery
  }

  get effects(): Effects {
    if (this.#shared) {
      const what = `${this.timeline} is shared: only the owner of a timeline may record effects: open it without { shared }`
      throw new RepriseError('INVALID_ARGUMENT', what, { timeline: this.timeline })
    }
    return this.#open.effects
  }

  /** The last decision of the automatic checkpoints, and why. */
  get checkpointing() {
    return this.#open.checkpointing
  }

  /**
   * Durable when it resolves. Several entries become visible together. A function makes them from the current state; on
   * a shared timeline it is called again, on newer state, if another process wrote first.
   */
  append(entries: E | readonly E[] | Make<State, E>, options: AppendOptions = {}): Promise<Appended> {
    try {
      checkOptions('append', options, knownAppend)
      const { key, signal, expect } = options ?? {}
      const make = typeof entries === 'function' ? (entries as Make<State, E>) : null
      if (this.#shared) {
        const { writer } = this.#shared
        if (make) return writer.write((state) => listOf(make(state), key), { signal, expect }).then(toAppended)
        // An overtaken append is repeated: the entries must keep their current content.
        return writer.append(listOf(entries as E | readonly E[], key, true), { signal, expect }).then(toAppended)
      }
      if (make) return this.#appendMade(make, options ?? {})
      const list = listOf(entries as E | readonly E[], key)
      if (list.length > 0) {
        const requested = writeOptions(options ?? {})
        return requested ? this.#open.write(list, requested).then(toAppended) : appendPlainly(this.#open, list)
      }
      const { seq } = this.#open
      if (expect !== undefined && expect !== seq) throw this.#unexpected(expect)
      return Promise.resolve({ seq, isDuplicate: false })
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** Made from the state that they follow: made again if that state lacked entries appended before them. */
  async #appendMade(make: Make<State, E>, options: AppendOptions): Promise<Appended> {
    const { key, expect } = options
    for (;;) {
      const { seq } = this.#open
      if (expect !== undefined && expect !== seq && !(key !== undefined && this.#open.hasKey(key))) {
        throw this.#unexpected(expect)
      }
      const made = make(this.state)
      refuseThenable(made, 'append()', 'wait before it, and append the result')
      const list = listOf(made, key)
      if (list.length === 0) return { seq, isDuplicate: false }
      try {
        return toAppended(await this.#open.write(list, writeOptions({ ...options, expect: seq })))
      } catch (error) {
        if (!isReprise(error, 'CONFLICT') || error.data.expect !== seq) throw error
      }
    }
  }

  #unexpected(expect: number): RepriseError {
    const { timeline } = this
    const { seq } = this.#open
    return new RepriseError('CONFLICT', `${timeline} is at ${seq}, not at ${expect}`, { timeline, seq, expect })
  }

  /** On a shared timeline: reads the entries of other processes, and takes nothing. */
  async refresh(): Promise<State> {
    if (this.#shared) await this.#shared.writer.inTurn(() => this.#shared!.turns.refresh())
    return this.state
  }

  checkpoint(request: CheckpointRequest = {}): Promise<PublishedCheckpoint> {
    return this.#open.checkpoint(request)
  }

  watch(call: (entries: readonly (E & EntryInfo)[]) => void): () => void {
    checkFunction(call, 'watch()')
    const source = this.#shared?.turns ?? this.#open
    return source.watch((entries) =>
      call(
        entries
          .filter((entry) => !entry.type.startsWith(systemPrefix))
          // A copy: the state may contain the entry, and a listener must not change the state.
          .map((entry) => ({ ...infoOf(entry), ...eventOf<E>({ ...entry, data: this.#open.copyOf(entry.data) }) })),
      ),
    )
  }

  close(): Promise<void> {
    return this.#shared ? this.#shared.writer.inTurn(() => this.#shared!.turns.close()) : this.#open.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** The entries to append to this state: pure, because it may be called several times. */
export type Make<State, E> = (state: State) => E | readonly E[]

/** `mayChange`: the caller may change the entries before they are encoded. */
function listOf<E extends { readonly type: string }>(
  entries: E | readonly E[],
  key: string | undefined,
  mayChange = false,
): NewEntry[] {
  if (typeof key === 'string' && isEndKey(key)) {
    throw new RepriseError('INVALID_ARGUMENT', `keys that start with ${endKey('')}belong to the engine`, { key })
  }
  if (!Array.isArray(entries)) return [toEntry(entries as E, key, undefined, mayChange)]
  const last = entries.length - 1
  const end = key === undefined || last < 1 ? undefined : endKey(key)
  // The first has the key, the others belong to it: keys derived by their numbers could collide with other entries.
  return (entries as readonly E[]).map((entry, i) =>
    i === 0 ? toEntry(entry, key, undefined, mayChange) : toEntry(entry, i === last ? end : undefined, key, mayChange),
  )
}

/** Undefined without options, which makes an append as cheap as possible. */
function writeOptions({ signal, expect }: AppendOptions): WriteOptions | undefined {
  if (!signal && expect === undefined) return undefined
  return { ...(signal && { signal }), ...(expect !== undefined && { expect }) }
}

/** Like `write`, with one promise instead of two: the common case. */
function appendPlainly(open: Pick<OpenTimeline<unknown>, 'ask'>, list: readonly NewEntry[]): Promise<Appended> {
  const asker = new Appending()
  open.ask(list, asker)
  return asker.promise
}

type Resolve = (appended: Appended) => void
type Reject = (error: unknown) => void

/** The callbacks of the promise under construction: a closure per append would be garbage each time. */
let resolveMade: Resolve
let rejectMade: Reject
const noteMade = (resolve: Resolve, reject: Reject) => {
  resolveMade = resolve
  rejectMade = reject
}

class Appending implements OutcomeReceiver {
  readonly promise = new Promise<Appended>(noteMade)
  readonly #resolve = resolveMade
  readonly #reject = rejectMade

  resolve(written: Written): void {
    this.#resolve(toAppended(written))
  }

  reject(error: unknown): void {
    this.#reject(error)
  }
}

function toAppended({ first, count, isDuplicate }: Written): Appended {
  return { seq: first + count - 1, isDuplicate }
}

function toEntry(
  entry: { readonly type: string },
  key: string | undefined,
  partOf: string | undefined,
  mayChange: boolean,
): NewEntry {
  if (typeof entry !== 'object' || entry === null || typeof entry.type !== 'string') {
    throw new RepriseError('INVALID_ARGUMENT', 'an entry must be an object with a type')
  }
  // Only own fields would be stored: an Error would lose its message, an instance its class.
  const prototype: unknown = Object.getPrototypeOf(entry)
  if (prototype !== Object.prototype && prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    const { name } = entry.constructor ?? { name: 'a class' }
    const what = `an entry must be a plain object, not an instance of ${name}: store { type, ... } with its fields`
    throw new RepriseError('UNSERIALIZABLE', what, { type: entry.type, class: name })
  }
  if (entry.type.startsWith(systemPrefix)) {
    throw new RepriseError('INVALID_ARGUMENT', `types that start with ${systemPrefix} belong to the engine`, {
      type: entry.type,
    })
  }
  if (!mayChange) return { type: entry.type, data: entry, key, partOf, holdsType: true }
  const { type, ...data } = entry
  return { type, data, key, partOf }
}

/** The entry as appended: type and data as one object. */
export function eventOf<E>(entry: Entry): E {
  // The data was decoded for this entry alone: the type is set in place, without a copy.
  const event = entry.data as { type?: string }
  event.type ??= entry.type
  return event as E
}

function infoOf(entry: Entry): EntryInfo {
  const { seq, epoch, time, version, key } = entry
  return { seq, epoch, time, version, key }
}
