// The engine as layers and adapters use it: open, adopt or create a timeline; serve a queue; send a message with a
// commit; keep one instance per engine; change a head. Users hold a `Reprise`, a facade in front of it (reprise.ts).

import type { CheckpointPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import type { Codec } from '../../core/codec/codec.ts'
import { type Coordinate, type TimelineId, timelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Limits } from '../../core/limits.ts'
import type {
  Clock,
  Commit,
  Hash,
  Head,
  Inbox,
  ManifestRecord,
  Outcome,
  OutgoingMessage,
  Random,
  TimelineQuery,
} from '../../core/store/ports.ts'
import type { Events } from '../base/events.ts'
import type { Planted } from '../base/planted-bugs.ts'
import { whileAwaited } from '../base/stay-alive.ts'
import type { Worker } from '../base/worker.ts'
import { type ForkStart, fork } from '../branch/fork.ts'
import { type BranchOptions, rollback } from '../branch/rollback.ts'
import { type Savepoint, type SavepointOptions, savepointAside } from '../checkpoint/savepoint.ts'
import { storedPolicyOf } from '../checkpoint/stored-policy.ts'
import { type FollowOptions, follow, type Replica } from '../feed/replica.ts'
import { checkWhere, existing, type TimelinePoint } from '../history/locate.ts'
import { type Recovered, type RecoverOptions, recover } from '../history/recover.ts'
import {
  behind,
  checkDefinition,
  checkFolding,
  checkOpenOptions,
  type Engine,
  type Entity,
  type Fold,
  isHost,
  type LayerHost,
  ledgerOnly,
  type OpenOptions,
  opens,
} from '../model/definition.ts'
import { idOf, type Model, modelsOf } from '../model/model.ts'
import type { ModelRegistry } from '../model/model-registry.ts'
import type { Rollback } from '../model/rollback-report.ts'
import { Dispatcher, type Handler, type ServeOptions, type Strays } from '../ownership/dispatcher.ts'
import type { FailureNotes } from '../storage/failure-notes.ts'
import { type Kernel, newId, submit, type WorkerRetirement } from '../storage/kernel.ts'
import { messageTo, openMessage, sendMessage } from '../storage/message.ts'
import { soundHeads } from '../storage/sound-page.ts'
import type { Identity } from '../storage/store-identity.ts'
import type { FirstEntries } from '../writing/create.ts'
import { OpenTimelines } from '../writing/open-timelines.ts'
import { RequestDrain } from '../writing/request-drain.ts'
import type { OpenTimeline } from '../writing/timeline.ts'
import { TurnTimeline } from '../writing/turn-timeline.ts'
import { writeTo } from '../writing/write-to.ts'
import type { CommitExtras } from '../writing/writer.ts'

/** The fields of a head that a commit may change besides history. */
export type HeadChange = Pick<Commit, 'status' | 'attributes' | 'wakeup' | 'queue' | 'priority' | 'release'>

/** A definition with the location and the fold of its timelines. */
export interface Folding<State, Handle = unknown> {
  readonly prefix: string
  readonly fold: Fold<State>
  /** Wraps the open timeline in the user's handle. Default: the timeline itself. */
  handle?(open: never): Handle
}

/** A timeline that was released before its work was done, and is due again at once. */
export interface HandedOver {
  readonly timeline: string
  /** The calls for which there was not enough time: 'step charge', 'item 7'. Empty: only later work is left. */
  readonly inFlight: readonly string[]
}

export interface Leaving extends HandedOver {
  /** It had nothing to do: it waits for new entries of the feed, and is due only so that a worker claims it. */
  readonly isIdle?: boolean
}

type HandOver = (graceMs: number) => Promise<readonly Leaving[]>

export class Host implements Engine, LayerHost {
  readonly kernel: Kernel
  readonly dispatcher: Dispatcher
  /** Carries out what applications wrote in transactions of their own. */
  readonly requests: RequestDrain
  readonly #openTimelines: OpenTimelines
  /** Null: the engine's own host. Otherwise this host is a session of that engine. */
  readonly #root: Host | null
  readonly #dispatchers: Set<Dispatcher>
  readonly #strays: Strays
  readonly #handingOver = new Set<HandOver>()
  readonly #busy: Set<() => boolean>
  readonly #things = new Map<object, unknown>()
  readonly #closing = new Set<(graceMs: number | null) => Promise<void>>()
  readonly #finishing: (() => Promise<void>)[] = []
  readonly #shut: () => Promise<void>
  #closed: Promise<void> | null = null
  readonly #named = new Set<string>()
  readonly #quarantined = (timeline: string, error: RepriseError): void => {
    if (this.#named.has(timeline)) return
    this.#named.add(timeline)
    this.kernel.events.emit('problem', { where: timeline, error })
  }

  constructor(kernel: Kernel, shut: () => Promise<void>, root: Host | null = null) {
    this.kernel = kernel
    this.#root = root
    this.#openTimelines = root ? root.#openTimelines : new OpenTimelines(kernel)
    this.#dispatchers = root ? root.#dispatchers : new Set()
    this.#busy = root ? root.#busy : new Set()
    this.#strays = root ? root.#strays : { mayExist: false, known: new Set() }
    const isInHand = (timeline: TimelineId) =>
      [...this.#dispatchers].some((each) => each !== this.dispatcher && each.has(timeline))
    const isHeld = (timeline: TimelineId) => this.#openTimelines.has(timeline) || isInHand(timeline)
    this.dispatcher = new Dispatcher(kernel, isHeld, this.#strays)
    this.#dispatchers.add(this.dispatcher)
    this.requests = new RequestDrain(kernel)
    this.#shut = shut
    if (root) return
    kernel.worker.onRetired(() => this.#openTimelines.fenceAll())
    kernel.onStray = (timeline) => this.#strays.known.add(timeline)
    kernel.writeTo = (timeline, decide) =>
      writeTo(this, timeline, this.models.foldOf(timeline) ?? ledgerOnly, ({ ledger }) => decide(ledger))
  }

  get [isHost](): true {
    return true
  }

  get [behind](): this {
    return this
  }

  get events(): Events {
    return this.kernel.events
  }

  get clock(): Clock {
    return this.kernel.clock
  }

  get random(): Random {
    return this.kernel.random
  }

  get hash(): Hash {
    return this.kernel.hash
  }

  get codec(): Codec {
    return this.kernel.codec
  }

  get limits(): Limits {
    return this.kernel.limits
  }

  get planted(): Planted {
    return this.kernel.planted
  }

  get worker(): Worker {
    return this.kernel.worker
  }

  get deadWorkers(): WorkerRetirement {
    return this.kernel.deadWorkers
  }

  get identity(): Identity {
    return this.kernel.identity
  }

  get failures(): FailureNotes {
    return this.kernel.failures
  }

  /** The store's time, by the clock of the database that has the timeline. */
  now(timeline?: string): number {
    return this.kernel.worker.now(timeline)
  }

  /** The models that this process knows. */
  get models(): ModelRegistry {
    return this.kernel.models
  }

  /**
   * A host of its own for work that ends before the engine does: definitions work on it as on the engine, and closing it
   * ends their work and nothing else. It shares the kernel, the worker and the open timelines.
   */
  session(): Host {
    const end = this.onClose((graceMs) => session.close(graceMs))
    const session: Host = new Host(this.kernel, async () => end(), this)
    return session
  }

  /**
   * Called when the work of this host must leave the process and others continue it: releases it, due at once, within
   * the time. Returns the timelines whose work is not done.
   */
  onHandOver(call: HandOver): () => void {
    this.#handingOver.add(call)
    return () => this.#handingOver.delete(call)
  }

  async handOver(graceMs: number): Promise<Leaving[]> {
    await this.dispatcher.pause()
    if (this.#root) await this.requests.stop()
    return (await Promise.all([...this.#handingOver].map((call) => call(graceMs)))).flat()
  }

  /** For work that neither commits nor counts as a running call: returns whether any was done since the previous call. */
  watchBusy(isBusy: () => boolean): () => void {
    this.#busy.add(isBusy)
    return () => this.#busy.delete(isBusy)
  }

  /** Whether a part of this process is busy, apart from commits. */
  isBusy(): boolean {
    const all = [...this.#busy].map((isBusy) => isBusy())
    const isClaiming = this.dispatcher.isBeginning || this.requests.isDraining
    return all.includes(true) || this.worker.inHand().length > 0 || isClaiming
  }

  /** The reason why due work cannot be claimed at present. Null: it can. */
  get claimFailure(): unknown {
    return this.dispatcher.failure ?? this.requests.failure
  }

  /** Throws CLOSED once the engine was closed. */
  check(): void {
    this.#root?.check()
    if (this.#closed) throw new RepriseError('CLOSED', 'the engine was closed')
  }

  /** Opens an entity by its definition. */
  async open<Handle>(definition: Entity<Handle>, id?: string, options: OpenOptions = {}): Promise<Handle> {
    this.check()
    checkDefinition(definition, opens, 'open()')
    checkOpenOptions(options)
    if (options.shared && !definition.canShare) {
      const what = `${definition.name} has one owner at a time and cannot be opened as shared; use { wait } or { takeover }`
      throw new RepriseError('INVALID_ARGUMENT', what, { name: definition.name })
    }
    return await definition[opens](this, id, options)
  }

  /** The open timeline itself. Opened twice in one process with the same fold, it is shared. */
  async openTimeline<State>(
    id: TimelineId,
    fold: Fold<State>,
    options: OpenOptions = {},
  ): Promise<OpenTimeline<State>> {
    this.check()
    return await this.#openTimelines.open(id, fold, options)
  }

  /** A timeline that is read without taking it, and written in turns with other processes. */
  async openTurns<State>(
    id: TimelineId,
    fold: Fold<State>,
    options: { readonly mustExist?: boolean; readonly evenInvalid?: boolean } = {},
  ): Promise<TurnTimeline<State>> {
    this.check()
    return await TurnTimeline.open(this.kernel, this.#openTimelines, id, fold, options.mustExist, options.evenInvalid)
  }

  /** Open in this process, or being opened. */
  holds(id: TimelineId): boolean {
    return this.#openTimelines.has(id)
  }

  /** A timeline that was claimed already, under the epoch of that claim. */
  async adopt<State>(head: Head, fold: Fold<State>): Promise<OpenTimeline<State>> {
    this.check()
    return await this.#openTimelines.adopt(head, fold)
  }

  /**
   * Creates a timeline with its first entries in one commit, and opens it (unless it is released at once). Null if it
   * exists already.
   */
  create<State>(
    id: TimelineId,
    fold: Fold<State>,
    entries: FirstEntries,
    extras: CommitExtras = {},
  ): Promise<OpenTimeline<State> | 'released' | null> {
    this.check()
    return this.#openTimelines.create(id, fold, entries, extras)
  }

  /** Executes due timelines of a queue in this process. */
  serve(queue: string, handler: Handler, options: ServeOptions = {}): void {
    this.check()
    this.dispatcher.serve(queue, handler, options)
  }

  /**
   * Called when the engine closes, before its timelines are released, with the time its caller allows. Null: your own
   * default.
   */
  onClose(call: (graceMs: number | null) => Promise<void>): () => void {
    this.#closing.add(call)
    return () => this.#closing.delete(call)
  }

  /** Called after all timelines were released, before the store is closed. */
  onClosed(call: () => Promise<void>): void {
    this.#finishing.push(call)
  }

  /** A checkpoint that is kept until it is released: from the open timeline, or recovered separately. */
  async savepoint(where: TimelinePoint, options: SavepointOptions = {}): Promise<Savepoint> {
    this.check()
    checkWhere(where)
    const id = timelineId(where.timeline)
    const open = await this.opened(id)
    const isThere = open?.seq === where.seq && (!('digest' in where) || open.coordinate.digest === where.digest)
    if (open && isThere) {
      try {
        const made = await open.checkpoint({ trigger: 'savepoint', pin: true, full: true, ...options })
        return { id: made.id, coordinate: made.coordinate, label: options.label ?? null, bytes: made.totalBytes }
      } catch (error) {
        // A waiting run may leave memory at any moment: its state is then captured separately.
        if (!isReprise(error, 'CLOSED') || !(open.broken || open.closing)) throw error
        this.check()
      }
    }
    return await savepointAside(this.kernel, where, this.models.mustFold(id), options)
  }

  /** A read-only replica that follows history, and can take over. */
  async follow<State, Handle = OpenTimeline<State>>(
    definition: Folding<State, Handle>,
    id: string | undefined,
    options: FollowOptions = {},
  ): Promise<Replica<State, Handle>> {
    this.check()
    this.know(definition)
    const head = await existing(this.kernel, timelineId(idOf(definition.prefix, id)))
    const promote = async (taken: Head, recovered: Recovered<State>) => {
      const open = this.promote(taken, definition.fold, recovered)
      return (definition.handle ? definition.handle(open as never) : open) as Handle
    }
    return await follow(this.kernel, head, definition.fold, promote, options)
  }

  /** Opens it with state that was already read, under the epoch it was taken with. */
  promote<State>(head: Head, fold: Fold<State>, recovered: Recovered<State>): OpenTimeline<State> {
    return this.#openTimelines.promote(head, fold, recovered)
  }

  /** The timeline that is open in this process under this id, if it can still be used. */
  async opened(id: TimelineId): Promise<OpenTimeline<unknown> | null> {
    const open = await this.#openTimelines.get(id)
    return open && !open.broken && !open.closing ? open : null
  }

  /** Releases a timeline that is open in this process. */
  async shutTimeline(id: TimelineId): Promise<void> {
    await (await this.#openTimelines.get(id))?.shut()
  }

  /** One instance per engine, made on first use. The key is usually the definition it belongs to. */
  once<T>(key: object, make: () => T): T {
    if (!this.#things.has(key)) this.#things.set(key, make())
    return this.#things.get(key) as T
  }

  /** Changes fields of a head, if it still has the epoch that was read. The caller checks the outcome. */
  async change({ timeline, epoch }: Pick<Head, 'timeline' | 'epoch'>, change: HeadChange): Promise<Outcome> {
    return await this.commit({ guard: { timeline, epoch }, ...change })
  }

  /** A commit beside the open timelines, under a new operation id. The caller checks the outcome. */
  commit(commit: Omit<Commit, 'operation'>): Promise<Outcome> {
    return submit(this.kernel, commit)
  }

  /** Takes due timelines of a queue for this process, each under a new epoch, for a caller that releases them itself. */
  async claim(queue: string, limit: number): Promise<Head[]> {
    this.check()
    const { store, worker } = this.kernel
    return await store.claim({ worker: await worker.register(), queues: [queue], limit })
  }

  /**
   * Calls back when a timeline may be due or readable: sometimes without a reason, and it may miss a change. The returned
   * function stops it.
   */
  listen(wake: () => void): () => void {
    return this.kernel.store.listen(wake)
  }

  /** Repeats a read while the store is unavailable, within the engine's patience or until `isOver`. */
  patiently<T>(read: () => Promise<T>, isOver: () => boolean): Promise<T> {
    return this.kernel.committer.patiently(read, isOver)
  }

  /** Unread mail, oldest first, and the store's time. */
  inbox(timeline: TimelineId, limit: number): Promise<Inbox> {
    return this.kernel.store.inbox(timeline, limit)
  }

  /** Heads in the requested order; null for a missing timeline. */
  heads(timelines: readonly TimelineId[]): Promise<(Head | null)[]> {
    return this.kernel.store.head(timelines)
  }

  /** Throws NOT_FOUND. */
  existing(timeline: TimelineId): Promise<Head> {
    return existing(this.kernel, timeline)
  }

  /** The state at a head, from its newest usable checkpoint and history. */
  recover<State>(head: Head, fold: Fold<State>, options: RecoverOptions = {}): Promise<Recovered<State>> {
    return recover(this.kernel, head, fold, options)
  }

  /** The catalog of a timeline, newest checkpoint first. */
  catalogOf(timeline: TimelineId): Promise<ManifestRecord[]> {
    return this.kernel.store.checkpoints(timeline)
  }

  async head(timeline: string): Promise<Head | null> {
    this.check()
    const [head] = await this.kernel.store.head([timelineId(timeline)])
    return head ?? null
  }

  /**
   * All matches, in id order; with `limit` only the first. Throws LIMIT_EXCEEDED if there are too many: use `each`.
   * Unreadable timelines are passed to `onDamage`. Default: a `problem` event for each, the first time that a list meets
   * it.
   */
  async list(query: Partial<TimelineQuery> = {}, onDamage = this.#quarantined): Promise<Head[]> {
    this.check()
    const { listedTimelines } = this.kernel.limits
    const heads: Head[] = []
    for await (const head of this.each(query, onDamage)) {
      if (query.limit === undefined && heads.length === listedTimelines) {
        const what = `more than ${listedTimelines} timelines match: set a limit, or iterate over them with each()`
        const hint =
          'Pass a limit or a narrower prefix, iterate with each(), or raise listedTimelines in the limits of open().'
        throw new RepriseError('LIMIT_EXCEEDED', what, { listedTimelines }, undefined, hint)
      }
      heads.push(head)
    }
    return heads
  }

  /** All matches, one after another, however many there are; `onDamage` as in `list`. */
  async *each(query: Partial<TimelineQuery> = {}, onDamage = this.#quarantined): AsyncGenerator<Head> {
    this.check()
    yield* soundHeads(this.kernel, query, onDamage)
  }

  /** Sends a message to a timeline's inbox, even before it exists. The same id is delivered once. */
  async send(
    timeline: string,
    kind: string,
    data: unknown,
    options: { readonly id?: string; readonly life?: number } = {},
  ): Promise<string> {
    this.check()
    const fault = this.models.find(timelineId(timeline))?.mailFault?.(kind, data) ?? null
    if (fault !== null) {
      const what = `a message of the kind ${kind} to ${timeline}: ${fault}`
      throw new RepriseError('INVALID_ARGUMENT', what, { timeline, kind })
    }
    return await sendMessage(this.kernel, timeline, kind, data, options)
  }

  /** A message to send with a commit. Default: a new id, for a message that only this commit sends. */
  message(timeline: string, kind: string, data: unknown, id: string = newId(this.random)): OutgoingMessage {
    return messageTo(this.kernel, timeline, kind, data, id)
  }

  /** The data of a message read from an inbox, checked and decoded. */
  openMessage(message: { readonly id: string; readonly to: string; readonly data: Uint8Array }): unknown {
    return openMessage(this.kernel, message)
  }

  /** Declares the model of a scope's timelines to the tools. Layers do so on first use. */
  declare(model: Model): void {
    this.models.declare(model)
  }

  /**
   * For a definition without a model of its own: declares to the tools how timelines of this scope
   * (core/history/scope.ts) fold.
   */
  register(scope: string, fold: Fold<unknown>): void {
    const known = this.models.all().find((model) => model.scope === scope)
    this.declare(
      known ? { ...known, fold } : { kind: 'timeline', name: scope, scope, fold, policy: 'declared', usual: {} },
    )
  }

  /** Declares the models of a definition, or only its fold. */
  know(definition: Folding<unknown>): void {
    checkFolding(definition)
    const described = modelsOf(definition)
    if (described.length > 0) for (const model of described) this.declare(model)
    else this.register(definition.prefix, definition.fold)
  }

  /** The checkpoint policy of this timeline: the stored one, or that of its definition if it is known here. */
  checkpointPolicyOf({ timeline, attributes }: Pick<Head, 'timeline' | 'attributes'>): CheckpointPolicy | null {
    return storedPolicyOf(attributes)?.checkpoint ?? this.models.foldOf(timeline)?.checkpoint ?? null
  }

  /** The kernel's own fork, independent of the model. */
  async forkTimeline(
    where: TimelinePoint,
    to: string,
    start: ForkStart = {},
  ): Promise<Coordinate & { readonly parent: string }> {
    this.check()
    return await fork(this.kernel, where, to, this.models.foldOf(where.timeline), start)
  }

  /** The kernel's own rollback, independent of the model. */
  async rollbackTimeline(
    where: TimelinePoint,
    options: BranchOptions = {},
  ): Promise<Rollback & { readonly archive: TimelineId }> {
    this.check()
    const id = timelineId(where.timeline)
    await this.shutTimeline(id)
    return await rollback(this.kernel, where, this.models.foldOf(id) ?? ledgerOnly, options)
  }

  /** Releases everything open, then the store. Null: each part uses its own time limit for calls in flight. */
  close(graceMs: number | null = null): Promise<void> {
    this.#closed ??= whileAwaited(this.#close(graceMs), this.kernel.clock)
    return this.#closed
  }

  async #close(graceMs: number | null): Promise<void> {
    if (!this.#root) this.kernel.events.closing()
    await Promise.allSettled([...this.#closing].map((call) => call(graceMs)))
    await Promise.all([this.requests.stop(), this.dispatcher.stop()])
    this.#dispatchers.delete(this.dispatcher)
    if (this.#root) return await this.#shut()
    await this.#openTimelines.shut()
    await this.kernel.failures.settled()
    await this.kernel.committer.drain()
    await Promise.allSettled(this.#finishing.map((call) => call()))
    await this.kernel.worker.close()
    await this.#shut()
  }
}

/** The host of a user's engine. INVALID_ARGUMENT if it is not an engine. */
export function hostOf(engine: Engine): Host {
  const host = engine?.[behind]
  if (host === undefined) {
    throw new RepriseError('INVALID_ARGUMENT', 'the engine that open() returned is required', {
      given: typeof engine,
    })
  }
  return host as Host
}
