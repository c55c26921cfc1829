// Reprise, the engine as a user holds it: two verbs (open an entity, run a process), and the tools that work for every
// model because they are written against the kernel. It knows no layer; definitions bring their own behaviour.

import { type Coordinate, type TimelineId, timelineId, toHex } from '../core/coordinate.ts'
import { type Duration, toMs } from '../core/duration.ts'
import { RepriseError } from '../core/errors.ts'
import type { Head, OutgoingMessage } from '../core/ports.ts'
import { releaseSavepoint, type Savepoint, type SavepointOptions, savepointAside } from './checkpoint/savepoint.ts'
import { Dispatcher, type Handler, type ServeOptions } from './commit/dispatcher.ts'
import { TurnTimeline } from './commit/turns.ts'
import type { Along } from './commit/writer.ts'
import {
  type Entity,
  type Fold,
  type OpenOptions,
  opens,
  type Process,
  runs,
  type Workable,
  works,
} from './definition.ts'
import type { Events } from './events.ts'
import { type FollowOptions, follow, type Replica } from './feed/follow.ts'
import { Groups } from './group/groups.ts'
import { Holdings } from './holdings.ts'
import type { Kernel } from './kernel.ts'
import { isReserved, refuseOfStore } from './kinds.ts'
import { messageTo, openMessage, sendMessage } from './message.ts'
import { actionOf, idOf, type Model, modelsOf } from './model.ts'
import { type Pending, pending } from './pending.ts'
import { type Recovered, recover } from './recovery/recover.ts'
import { lookAgain } from './recovery/second-look.ts'
import { querySql } from './sql.ts'
import { whileAwaited } from './stay-alive.ts'
import type { NewEntry, OpenTimeline } from './timeline.ts'
import type { CollectOptions, CollectReport } from './tools/collect.ts'
import { checkWhere, existing, fork, locate, type Rollback, rollback, type Where } from './tools/fork.ts'
import { type Imported, type ImportOptions, importTimelines } from './tools/import.ts'
import { type Moved, type MoveOptions, move, moveBack } from './tools/move.ts'
import { refuseMoved } from './tools/moved.ts'
import { ledgerOnly, StoreTools } from './tools/store-tools.ts'
import { type ExportOptions, exportTimeline } from './tools/transfer.ts'

/** State as of a coordinate; read-only. */
export interface Past<State> {
  readonly state: State
  readonly coordinate: Coordinate
}

/** A definition that says where its timelines live and how they fold. */
export interface Folding<State, Handle = unknown> {
  readonly prefix: string
  readonly fold: Fold<State>
  /** How its users hold it; the open timeline itself if left out. */
  handle?(open: OpenTimeline<State>): Handle
}

export class Reprise extends StoreTools {
  readonly dispatcher: Dispatcher
  /** Timelines of any models, captured and restored together. */
  readonly groups: Groups
  readonly #holdings: Holdings
  readonly #closing = new Set<(graceMs: number | null) => Promise<void>>()
  readonly #finishing: (() => Promise<void>)[] = []
  readonly #shut: () => Promise<void>
  #closed: Promise<void> | null = null
  #letEnd: (() => void) | null = null

  constructor(kernel: Kernel, shut: () => Promise<void>) {
    super(kernel)
    this.#holdings = new Holdings(kernel)
    this.groups = new Groups(this)
    this.dispatcher = new Dispatcher(kernel, (timeline) => this.#holdings.has(timeline))
    this.#shut = shut
    kernel.worker.onRetired(() => this.#holdings.fenceAll())
  }

  get events(): Events {
    return this.kernel.events
  }

  /**
   * Opens an entity: recovers it from checkpoint and history, and takes ownership under a new epoch unless it is shared.
   * What it gives can be awaited, and asked at once: `await rp.open(basket, 'ann').close()`.
   */
  open<Handle>(definition: Entity<Handle>, id?: string, options: OpenOptions = {}): Pending<Handle> {
    return pending(this.#open(definition, id, options))
  }

  /**
   * Starts (or finds) a run of a process. What it gives can be awaited, and asked at once: `await rp.run(papers).result()`.
   * The input must be given where its type says so.
   */
  run<Input, Handle, Options>(
    definition: Process<Input, Handle, Options>,
    ...[input, options]: undefined extends Input
      ? [input?: Input, options?: Options]
      : [input: Input, options?: Options]
  ): Pending<Handle> {
    // Not an async function: many short runs are started, and each of those costs promises.
    try {
      this.check()
      return pending(definition[runs](this, input as Input, (options ?? {}) as Options))
    } catch (error) {
      return pending(Promise.reject(error))
    }
  }

  /** This process executes runs of these definitions, whoever started them, and stays alive for them until it is closed. */
  work(definitions: readonly Workable[]): void {
    this.check()
    for (const definition of definitions) definition[works](this)
    this.#letEnd ??= this.kernel.clock.stayAlive?.() ?? null
  }

  /** State as of a sequence or coordinate, recovered aside. */
  async at<State>(
    definition: Folding<State>,
    id: string | undefined,
    where: { readonly seq: number } | Coordinate,
  ): Promise<Past<State>> {
    this.check()
    const timeline = idOf(definition.prefix, id)
    checkWhere({ timeline, ...where })
    this.#know(definition)
    return await lookAgain(async () => {
      const { head, point } = await locate(this.kernel, 'digest' in where ? where : { timeline, seq: where.seq })
      const { state } = await recover(this.kernel, head, definition.fold, { to: point.seq })
      const coordinate = { timeline: head.timeline, seq: point.seq, epoch: head.epoch, digest: toHex(point.digest) }
      return { state: state.value, coordinate }
    })
  }

  /** A new timeline that starts at a coordinate and shares history and chunks with its parent, as its model forks. */
  async fork(where: Where, to: string): Promise<Coordinate & { readonly parent: string }> {
    this.check()
    checkWhere(where)
    timelineId(to)
    const { model, head } = await this.#target(where.timeline)
    if (!model?.actions?.fork) return await this.forkTimeline(where, to)
    await locate(this.kernel, where)
    return await actionOf(model, 'fork', where.timeline)({ engine: this, head }, { seq: where.seq, to })
  }

  /**
   * Continues from an earlier coordinate, as its model goes back. Of most: on a new branch; what came after is archived,
   * its effects are listed. A workflow undoes its steps itself.
   */
  async rollback(where: Where, options: OpenOptions = {}): Promise<Rollback> {
    this.check()
    checkWhere(where)
    const { model, head } = await this.#target(where.timeline)
    if (!model?.actions?.rollback) return await this.rollbackTimeline(where, options)
    await locate(this.kernel, where)
    const act = actionOf(model, 'rollback', where.timeline)
    return await act({ engine: this, head }, { seq: where.seq, takeover: options.takeover ?? false })
  }

  /** For layers: the kernel's own fork, whatever the model says. */
  async forkTimeline(where: Where, to: string): Promise<Coordinate & { readonly parent: string }> {
    this.check()
    return await fork(this.kernel, where, to, this.models.foldOf(where.timeline))
  }

  /** For layers: the kernel's own rollback, whatever the model says. */
  async rollbackTimeline(
    where: Where,
    options: OpenOptions = {},
  ): Promise<Rollback & { readonly archive: TimelineId }> {
    this.check()
    const id = timelineId(where.timeline)
    await this.letGo(id)
    return await rollback(this.kernel, where, this.models.foldOf(id) ?? ledgerOnly, options)
  }

  override async collect(options: CollectOptions = {}): Promise<CollectReport> {
    this.check()
    await this.groups.expire()
    return await super.collect(options)
  }

  /** A checkpoint that is kept until it is released. */
  async savepoint(where: Where, options: SavepointOptions = {}): Promise<Savepoint> {
    this.check()
    checkWhere(where)
    const id = timelineId(where.timeline)
    const open = await this.#holdings.get(id)
    if (open && open.seq === where.seq && !open.broken) {
      const made = await open.checkpoint({ trigger: 'savepoint', pin: true, full: true, ...options })
      return { id: made.id, coordinate: made.coordinate, label: options.label ?? null, bytes: made.totalBytes }
    }
    return await savepointAside(this.kernel, where, this.models.mustFold(id), options)
  }

  async release(timeline: string, savepoint: string): Promise<void> {
    this.check()
    await releaseSavepoint(this.kernel, timeline, savepoint)
  }

  /** One self-contained file: history, checkpoints and chunks; or, with stateOnly, just the newest checkpoint. */
  async export(
    where: Where,
    path: string,
    options: ExportOptions = {},
  ): Promise<{ coordinate: Coordinate; bytes: number }> {
    this.check()
    checkWhere(where)
    refuseOfStore(where.timeline)
    return await exportTimeline(this.kernel, where, path, options)
  }

  /** What was exported, or moved out, as it stood: what waits for it and its wakeup come along. The first of the file. */
  async import(path: string, options: ImportOptions = {}): Promise<Imported> {
    this.check()
    const made = await importTimelines(this.kernel, path, options, async (head) => {
      return (await this.models.find(head.timeline)?.transfer?.arrives?.({ engine: this, head })) ?? []
    })
    this.dispatcher.wake()
    return made[0]!
  }

  /**
   * Stops a timeline, and those that belong with it, and moves it: into a file, for another machine to import, or into
   * another store at once. It goes on there, and can no longer be opened here. Interrupted, it is asked for again.
   */
  async move(timeline: string, to: string | Reprise, options: MoveOptions = {}): Promise<Moved> {
    this.check()
    return await move(this, timelineId(timeline), to, options)
  }

  /** A timeline that was moved out, and whose file was not imported anywhere, is here again as it stood. */
  async moveBack(timeline: string): Promise<void> {
    this.check()
    await moveBack(this, timelineId(timeline))
  }

  /** A person says what became of an effect in doubt, of a timeline that nobody owns. */
  async settleEffect(
    timeline: string,
    effect: string,
    outcome: 'done' | 'failed' | 'compensated',
    by: string,
    result?: unknown,
  ): Promise<void> {
    this.check()
    const id = timelineId(timeline)
    const open = await this.#holdings.open(id, this.models.mustFold(id), { mustExist: true })
    try {
      await open.effects.settle(effect, outcome, by, result)
    } finally {
      await open.close()
    }
  }

  /** A read-only replica that follows history, and can take over. */
  async follow<State, Handle = OpenTimeline<State>>(
    definition: Folding<State, Handle>,
    id: string | undefined,
    options: FollowOptions = {},
  ): Promise<Replica<State, Handle>> {
    this.check()
    this.#know(definition)
    const head = await existing(this.kernel, timelineId(idOf(definition.prefix, id)))
    const promote = async (taken: Head, recovered: Recovered<State>) => {
      const open = this.#holdings.promote(taken, definition.fold, recovered)
      return (definition.handle ? definition.handle(open) : open) as Handle
    }
    return await follow(this.kernel, head, definition.fold, promote, options)
  }

  /**
   * Rows of your own tables, through the store's own connection. Reads only (else SQL_REFUSED), within `limits.sqlRows` and
   * `limits.sqlMs`. Values are bound; a name in the text comes from a definition.
   * @example await rp.sql<{ total: number }>`SELECT total FROM ${ledger.table('totals')} WHERE id = ${id}`
   */
  sql<Row = Record<string, unknown>>(text: TemplateStringsArray, ...values: readonly unknown[]): Promise<Row[]>
  sql<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
  async sql<Row>(text: string | TemplateStringsArray, ...values: readonly unknown[]): Promise<Row[]> {
    this.check()
    return await querySql<Row>(this, text, values)
  }

  /** A message to a timeline's inbox, also before it exists. The same id is delivered once. */
  async send(timeline: string, kind: string, data: unknown, options: { readonly id?: string } = {}): Promise<string> {
    this.check()
    return await sendMessage(this.kernel, timeline, kind, data, options.id)
  }

  /** For layers: a message to go along with a commit. */
  message(timeline: string, kind: string, data: unknown, id: string): OutgoingMessage {
    return messageTo(this.kernel, timeline, kind, data, id)
  }

  /** The data of a message from `inbox()`, checked and decoded. */
  openMessage(message: { readonly id: string; readonly to: string; readonly data: Uint8Array }): unknown {
    return openMessage(this.kernel, message)
  }

  /** Tells the tools what the timelines of a scope are, and what is kept of them. Layers do it when they are used. */
  declare(model: Model): void {
    this.models.declare(model)
  }

  /** For a definition without a model of its own: tells the tools how timelines of this scope (core/scope.ts) fold. */
  register(scope: string, fold: Fold<unknown>): void {
    const known = this.models.all().find((model) => model.scope === scope)
    this.declare(
      known ? { ...known, fold } : { kind: 'timeline', name: scope, scope, fold, policy: 'declared', usual: {} },
    )
  }

  /** For layers and tools: lets go of a timeline that is open in this process. */
  async letGo(id: TimelineId): Promise<void> {
    await (await this.#holdings.get(id))?.shut()
  }

  #know(definition: Folding<unknown>): void {
    const described = modelsOf(definition)
    if (described.length > 0) for (const model of described) this.declare(model)
    else this.register(definition.prefix, definition.fold)
  }

  /** A model with verbs of its own must be known: the kernel's would do the wrong thing to it. */
  async #open<Handle>(definition: Entity<Handle>, id: string | undefined, options: OpenOptions): Promise<Handle> {
    this.check()
    if (options.shared && !definition.canShare) {
      const what = `${definition.name} has one owner at a time and cannot be opened as shared; give { wait } or { takeover }`
      throw new RepriseError('INVALID_ARGUMENT', what, { name: definition.name })
    }
    return await definition[opens](this, id, options)
  }

  async #target(timeline: string): Promise<{ readonly model: Model | null; readonly head: Head }> {
    const id = timelineId(timeline)
    refuseOfStore(id)
    const head = await existing(this.kernel, id)
    refuseMoved(head)
    const model = this.models.find(id)
    if (!model && isReserved(id)) {
      const what = `what ${id} is, is not known here: open its definition first, or tell the engine with declare()`
      throw new RepriseError('INVALID_ARGUMENT', what, { timeline })
    }
    return { model, head }
  }

  protected async opened(id: TimelineId): Promise<OpenTimeline<unknown> | null> {
    const open = await this.#holdings.get(id)
    return open && !open.broken && !open.closing ? open : null
  }

  /** For layers: the open timeline itself. Opened twice in one process with the same fold, it is shared. */
  async openTimeline<State>(
    id: TimelineId,
    fold: Fold<State>,
    options: OpenOptions = {},
  ): Promise<OpenTimeline<State>> {
    this.check()
    return await this.#holdings.open(id, fold, options)
  }

  /** For layers: a timeline that is read without taking it, and written in turns with other processes. */
  async openTurns<State>(
    id: TimelineId,
    fold: Fold<State>,
    options: { readonly mustExist?: boolean; readonly evenInvalid?: boolean } = {},
  ): Promise<TurnTimeline<State>> {
    this.check()
    return await TurnTimeline.open(this.kernel, this.#holdings, id, fold, options.mustExist, options.evenInvalid)
  }

  /** For layers: a timeline that was claimed already, under the epoch of that claim. */
  async adopt<State>(head: Head, fold: Fold<State>): Promise<OpenTimeline<State>> {
    this.check()
    return await this.#holdings.adopt(head, fold)
  }

  /**
   * For layers: makes a timeline with its first entries in one commit, and opens it (unless it is released at once).
   * Null if there is one already.
   */
  create<State>(
    id: TimelineId,
    fold: Fold<State>,
    entries: readonly NewEntry[],
    along: Along = {},
  ): Promise<OpenTimeline<State> | 'released' | null> {
    this.check()
    return this.#holdings.create(id, fold, entries, along)
  }

  /** For layers: this process executes due timelines of a queue. */
  serve(queue: string, handler: Handler, options: ServeOptions = {}): void {
    this.check()
    this.dispatcher.serve(queue, handler, options)
  }

  /** For layers: called when the engine closes, before its timelines are let go, with the time its caller allows; null: yours. */
  onClose(call: (graceMs: number | null) => Promise<void>): () => void {
    this.#closing.add(call)
    return () => this.#closing.delete(call)
  }

  /** For tools: called when all timelines were let go, before the store is. */
  onClosed(call: () => Promise<void>): void {
    this.#finishing.push(call)
  }

  /**
   * Lets go of everything that is open, then of the store. `grace`: how long calls in flight may take to come to an end; a
   * second for the steps of workflows if left out.
   */
  close(options: { readonly grace?: Duration } = {}): Promise<void> {
    const graceMs = options.grace === undefined ? null : toMs(options.grace, 'grace')
    this.#closed ??= whileAwaited(this.#close(graceMs), this.kernel.clock)
    return this.#closed
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(graceMs: number | null): Promise<void> {
    await Promise.allSettled([...this.#closing].map((call) => call(graceMs)))
    await this.dispatcher.stop()
    await this.#holdings.shut()
    await this.kernel.committer.drain()
    await Promise.allSettled(this.#finishing.map((call) => call()))
    await this.kernel.worker.close()
    await this.#shut()
    this.#letEnd?.()
  }

  protected override check(): void {
    if (this.#closed) throw new RepriseError('CLOSED', 'the engine was closed')
  }
}

export { messageContext } from './message.ts'
