// Reprise, the user's handle of the engine: two verbs (open an entity, run a process), and the tools that work for every model
// because they are written against the kernel. It knows no layer; definitions contain their own behaviour.

import { type Coordinate, timelineId, toHex } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { isArchiveOf } from '../../core/history/scope.ts'
import { checkOptions } from '../../core/options.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Events } from '../base/events.ts'
import { type Pending, pending } from '../base/pending-handle.ts'
import { whileAwaited } from '../base/stay-alive.ts'
import { decideConsumed, reportForced } from '../branch/consumers.ts'
import { locateOnBranch, type RollbackOptions } from '../branch/rollback.ts'
import { releaseSavepoint, type Savepoint, type SavepointOptions } from '../checkpoint/savepoint.ts'
import type { FollowOptions, Replica } from '../feed/replica.ts'
import { checkWhere, existing, locate, type TimelinePoint } from '../history/locate.ts'
import { recover } from '../history/recover.ts'
import { retryWithFreshHead } from '../history/retry-with-fresh-head.ts'
import { type Folding, type Host, hostOf } from '../host/host.ts'
import {
  checkDefinition,
  type Engine,
  type Entity,
  type OpenOptions,
  type Process,
  runs,
  type StateAt,
  type Workable,
  works,
} from '../model/definition.ts'
import type { ForkOptions } from '../model/fork-edit.ts'
import { isReserved, refuseOfStore } from '../model/id-prefixes.ts'
import { actionOf, idOf, type Model } from '../model/model.ts'
import type { Rollback } from '../model/rollback-report.ts'
import { type RunArguments, splitArguments } from '../model/run-arguments.ts'
import { refuseNotHere } from '../storage/moved-mark.ts'
import { read, sourceOf, written } from '../storage/object-file.ts'
import { checkCall } from '../tools/call-options.ts'
import { forkAsModel } from '../tools/fork-as-model.ts'
import type { CollectOptions, CollectReport } from '../tools/housekeeping/collect.ts'
import { querySql } from '../tools/sql.ts'
import { StoreTools } from '../tools/store-tools.ts'
import { Groups } from '../tools/timeline-groups/groups.ts'
import { type ResumeOptions, resumeChange } from '../tools/transfer/change-actions.ts'
import { type ExportOptions, exportTimeline } from '../tools/transfer/export.ts'
import type { Imported, ImportOptions } from '../tools/transfer/import.ts'
import {
  importHere,
  type MoveBackOptions,
  type Moved,
  type MoveOptions,
  move,
  moveBack,
} from '../tools/transfer/move.ts'
import { type WorkReport, type WorkUntilOptions, workUntil } from './work-until.ts'

export class Reprise extends StoreTools {
  readonly #host: Host
  readonly #groups: Groups
  /** The definitions of the runs that this process started. */
  readonly #started = new Set<Workable>()
  #letEnd: (() => void) | null = null
  #isEndless = false
  #isBounded = false

  /** @internal */
  constructor(host: Host) {
    super(host)
    this.#host = host
    this.#groups = new Groups(host)
    host.onClosed(async () => this.#letEnd?.())
  }

  /** Timelines of any models, captured and restored together. */
  get groups(): Groups {
    return this.#groups
  }

  get events(): Events {
    return this.#host.kernel.events
  }

  /**
   * Opens an entity: recovers it from checkpoint and history, and takes ownership under a new epoch unless it is
   * shared. The result can be awaited, or used at once: `await rp.open(basket, 'ann').close()`. The id is required if
   * the definition has one entity per id.
   */
  open<Handle, Id extends string | undefined>(
    definition: Entity<Handle, Id>,
    ...[id, options = {}]: undefined extends NoInfer<Id>
      ? [id?: NoInfer<Id>, options?: OpenOptions]
      : [id: NoInfer<Id>, options?: OpenOptions]
  ): Pending<Handle> {
    if (id !== undefined) {
      const refusal = refusalOf(id, 'open()')
      if (refusal) return pending(Promise.reject(refusal))
    }
    return pending(this.#host.open(definition as Entity<Handle>, id, options))
  }

  /**
   * Starts (or finds) a run of a process. The result can be awaited, or used at once: `await rp.run(papers).result()`.
   * The input is required if its type is. A definition that takes no input takes its options at once: `rp.run(papers, { report:
   * 'auto' })`.
   */
  run<Input, Handle, Options>(
    definition: Process<Input, Handle, Options>,
    ...given: RunArguments<NoInfer<Input>, Options>
  ): Pending<Handle> {
    // Not an async function: many short runs are started, and async functions cost promises.
    try {
      this.#host.check()
      checkDefinition(definition, runs, 'run()')
      const [input, options] = splitArguments('run()', definition, given)
      const { id } = (options ?? {}) as { readonly id?: unknown }
      const refusal = id === undefined ? null : refusalOf(id, 'run()')
      if (refusal) throw refusal
      if (works in definition) this.#started.add(definition as unknown as Workable)
      return pending(definition[runs](this.#host, input as Input, (options ?? {}) as Options))
    } catch (error) {
      return pending(Promise.reject(error))
    }
  }

  /** Executes runs of these definitions in this process, whichever process started them, and keeps it alive until `close`. */
  work<Options extends object>(definitions: readonly Workable<Options>[], options?: Options): void {
    this.#host.check()
    checkWorkable(definitions, 'work()')
    if (this.#isBounded) {
      const what = 'this engine executes work only within workUntil(); call work() on a separate engine'
      throw new RepriseError('INVALID_ARGUMENT', what, {})
    }
    for (const definition of definitions) {
      checkOptions(`work on ${definition.name}`, options, new Set(definition.worksWith ?? []))
    }
    for (const definition of definitions) definition[works](this.#host, options)
    this.#letEnd ??= this.#host.kernel.clock.stayAlive?.() ?? null
    this.#isEndless = true
  }

  /**
   * Executes due work, and returns when there is nothing to do or the time is nearly over: work in flight ends or is
   * released, so that the next process continues it at once. For functions that a platform starts, freezes and ends. After
   * the first call, this engine executes due work only within such calls.
   * @example const { handedOver, nextDueAt } = await rp.workUntil([checkout], { budget: '50s', idle: '2s' })
   */
  workUntil(definitions: readonly Workable[], options: WorkUntilOptions): Promise<WorkReport>
  /** The same for the definitions of the runs that this process started. */
  workUntil(options: WorkUntilOptions): Promise<WorkReport>
  async workUntil(given: readonly Workable[] | WorkUntilOptions, options?: WorkUntilOptions): Promise<WorkReport> {
    this.#host.check()
    const [definitions, how] = Array.isArray(given)
      ? ([given as readonly Workable[], options] as const)
      : ([[...this.#started], given as WorkUntilOptions] as const)
    checkWorkable(definitions, 'workUntil()')
    if (this.#isEndless) {
      const what = 'work() executes due work until it is stopped: call workUntil() instead'
      throw new RepriseError('INVALID_ARGUMENT', what, {})
    }
    this.#isBounded = true
    return await whileAwaited(workUntil(this.#host, definitions, how!), this.#host.clock)
  }

  /** State as of a sequence or coordinate, recovered separately from the open timeline. */
  async at<State>(
    definition: Folding<State>,
    id: string | undefined,
    where: { readonly seq: number } | Coordinate,
  ): Promise<StateAt<State>> {
    this.#host.check()
    this.#host.know(definition)
    const timeline = idOf(definition.prefix, id)
    checkWhere({ timeline, ...where })
    const named = 'timeline' in where ? where.timeline : timeline
    if (named !== timeline && !isArchiveOf(timeline, named)) {
      const what = `at(${timeline}): the coordinate belongs to ${named}; pass the id of its timeline`
      throw new RepriseError('INVALID_ARGUMENT', what, { timeline, named })
    }
    return await retryWithFreshHead(async () => {
      const { head, point } = await locate(this.#host.kernel, 'digest' in where ? where : { timeline, seq: where.seq })
      const { state } = await recover(this.#host.kernel, head, definition.fold, { to: point.seq })
      const coordinate = { timeline: head.timeline, seq: point.seq, epoch: head.epoch, digest: toHex(point.digest) }
      return { state: state.value, coordinate }
    })
  }

  /**
   * A new timeline that starts at a coordinate and shares history and chunks with its parent; its model does the fork.
   * With edits, it continues with other values than the recorded ones; they are part of the commit that creates it, and of
   * its history.
   * @example await rp.fork({ timeline: 'workflow/checkout/42', seq: 9 }, 'as-if-paid', { set: { charge: { ok: true } } })
   */
  async fork(
    where: TimelinePoint,
    to: string,
    options: ForkOptions = {},
  ): Promise<Coordinate & { readonly parent: string }> {
    this.#host.check()
    checkCall('fork', options)
    checkWhere(where)
    timelineId(to)
    return await forkAsModel(this, this.#host, await this.#target(where.timeline), where, to, options)
  }

  /**
   * Continues from an earlier coordinate; the model does the rollback. Most models continue on a new branch: the undone
   * entries are archived, and their effects listed. A workflow undoes its steps itself.
   */
  async rollback(options: RollbackOptions): Promise<Rollback> {
    this.#host.check()
    checkCall('rollback', options)
    const { to: where, ...rest } = options ?? {}
    checkWhere(where)
    const { model, head } = await this.#target(where.timeline)
    if (!model?.actions?.rollback) return await this.#host.rollbackTimeline(where, rest)
    await locateOnBranch(this.#host.kernel, where)
    const act = actionOf(model, 'rollback', where.timeline)
    const { takeover = false, undo, consumed: force } = rest
    const consumed = await decideConsumed(this.#host.kernel, head, where.seq, force)
    const done = await act({ engine: this.#host, head }, { seq: where.seq, takeover, consumed, ...(undo && { undo }) })
    reportForced(this.#host.kernel, head.timeline, where.seq, consumed)
    return { ...done, consumed }
  }

  override async collect(options: CollectOptions = {}): Promise<CollectReport> {
    this.#host.check()
    checkCall('collect', options)
    await this.groups.expire()
    return await super.collect(options)
  }

  /** A checkpoint that is kept until it is released. */
  async savepoint(where: TimelinePoint, options: SavepointOptions = {}): Promise<Savepoint> {
    checkCall('savepoint', options)
    return await this.#host.savepoint(where, options)
  }

  async release(timeline: string, savepoint: string): Promise<void> {
    this.#host.check()
    await releaseSavepoint(this.#host.kernel, timeline, savepoint)
  }

  /** One self-contained file: history, checkpoints and chunks; or, with stateOnly, just the newest checkpoint. */
  async export(
    where: TimelinePoint,
    path: string,
    options: ExportOptions = {},
  ): Promise<{ coordinate: Coordinate; bytes: number }> {
    this.#host.check()
    checkCall('export', options)
    checkWhere(where)
    refuseOfStore(where.timeline)
    return await written(path, (file) => exportTimeline(this.#host.kernel, where, file, options), options.onlyNew)
  }

  /**
   * Imports an exported or moved timeline in its exported condition, with its unread mail and its wakeup. The first of
   * the file.
   */
  async import(path: string, options: ImportOptions = {}): Promise<Imported> {
    this.#host.check()
    checkCall('import', options)
    return await read(path, (file) => importHere(this.#host, file, options, sourceOf(path)))
  }

  /**
   * Stops a timeline and its family, and moves it: into a file, for another machine to import, or directly into another
   * store.
   * It continues there, and can no longer be opened here. An interrupted move is resumed by repeating the call.
   */
  async move(timeline: string, to: string | Engine, options: MoveOptions = {}): Promise<Moved> {
    this.#host.check()
    checkCall('move', options)
    return await move(this.#host, timelineId(timeline), typeof to === 'string' ? to : hostOf(to), options)
  }

  /**
   * Restores a timeline that was moved out and has not arrived: whose file was not imported anywhere, or whose move to a store
   * was interrupted. A timeline that has arrived is refused (CONFLICT): move it from there.
   */
  async moveBack(timeline: string, options: MoveBackOptions = {}): Promise<void> {
    this.#host.check()
    checkCall('moveBack', options)
    await moveBack(this.#host, timelineId(timeline), options.other ? hostOf(options.other) : null)
  }

  /** Continues an interrupted change (`changes()`): the call that began it is repeated. A move needs both stores: `other`. */
  async resumeChange(id: string, options: ResumeOptions = {}): Promise<void> {
    this.#host.check()
    checkCall('resumeChange', options)
    await resumeChange(this.#host, this, id, options.other ? hostOf(options.other) : null)
  }

  /** Records a person's decision on an effect in doubt, for a timeline without an owner. */
  async settleEffect(
    timeline: string,
    effect: string,
    outcome: 'done' | 'failed' | 'compensated',
    by: string,
    result?: unknown,
  ): Promise<void> {
    this.#host.check()
    const id = timelineId(timeline)
    const open = await this.#host.openTimeline(id, this.#host.models.mustFold(id), { mustExist: true })
    try {
      await open.effects.settle(effect, outcome, by, result)
    } finally {
      await open.close()
    }
  }

  /** A read-only replica that follows history, and can take over. */
  async follow<State, Handle = unknown>(
    definition: Folding<State, Handle>,
    id: string | undefined,
    options: FollowOptions = {},
  ): Promise<Replica<State, Handle>> {
    checkCall('follow', options)
    return await this.#host.follow(definition, id, options)
  }

  /**
   * Rows of your own tables, through the store's own connection. Reads only (else SQL_REFUSED), within `limits.sqlRows`
   * and `limits.sqlMs`. Values are bound; a name in the text comes from a definition.
   * @example await rp.sql<{ total: number }>`SELECT total FROM ${ledger.table('totals')} WHERE id = ${id}`
   */
  sql<Row = Record<string, unknown>>(text: TemplateStringsArray, ...values: readonly unknown[]): Promise<Row[]>
  sql<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
  async sql<Row>(text: string | TemplateStringsArray, ...values: readonly unknown[]): Promise<Row[]> {
    this.#host.check()
    return await querySql<Row>(this.#host, text, values)
  }

  /** Sends a message to a timeline's inbox, even before it exists. The same `key` is delivered once; it is the message's id. */
  async send(timeline: string, kind: string, data: unknown, options: { readonly key?: string } = {}): Promise<string> {
    checkCall('send', options)
    return await this.#host.send(timeline, kind, data, options.key === undefined ? {} : { id: options.key })
  }

  /** Declares the model of a scope's timelines to the tools. Definitions do so on first use. */
  declare(model: Model): void {
    this.#host.declare(model)
  }

  /** A model with verbs of its own must be known: the kernel's verbs would be wrong for it. */
  async #target(timeline: string): Promise<{ readonly model: Model | null; readonly head: Head }> {
    const id = timelineId(timeline)
    refuseOfStore(id)
    const head = await existing(this.#host.kernel, id)
    refuseNotHere(head)
    const model = this.#host.models.find(id)
    if (!model && isReserved(id)) {
      const what = `the definition of ${id} is not known here: open it first, or name it with declare()`
      throw new RepriseError('INVALID_ARGUMENT', what, { timeline })
    }
    return { model, head }
  }

  /**
   * Releases everything open, then the store. `grace`: how long calls in flight may take to end. Default: one second
   * for the steps of workflows.
   */
  async close(options: { readonly grace?: Duration } = {}): Promise<void> {
    checkCall('close', options)
    const graceMs = options.grace === undefined ? null : toMs(options.grace, 'grace')
    await this.#host.close(graceMs)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

function checkWorkable(definitions: readonly Workable<never>[], call: string): void {
  if (!Array.isArray(definitions)) {
    const example = call.replace(')', '[definition])')
    throw new RepriseError('INVALID_ARGUMENT', `${call} takes a list of definitions: rp.${example}`, {})
  }
  for (const definition of definitions) checkDefinition(definition, works, call)
}

/** Text of another type would become part of an id: two objects would share `[object Object]`. */
function refusalOf(id: unknown, call: string): RepriseError | null {
  if (typeof id === 'string') return null
  return new RepriseError('INVALID_ID', `the id in ${call} must be text (got ${id === null ? 'null' : typeof id})`, {})
}
