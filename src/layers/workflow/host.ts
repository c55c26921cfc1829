// The workflows of one engine in this process: the registered definitions and the runs in memory. It starts, claims,
// releases and finds runs. A run that cannot be loaded is set aside; the others continue.

import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { isPassingStoreFailure, isReprise, RepriseError } from '../../core/errors.ts'
import { checkOptions, checkValues } from '../../core/options.ts'
import type { Head, RequestRow } from '../../core/store/ports.ts'
import { installGuard } from '../../engine/base/guard/install.ts'
import type { UnderWay } from '../../engine/base/worker.ts'
import { Yielder } from '../../engine/base/yielder.ts'
import type { Host as EngineHost, HandedOver } from '../../engine/host/host.ts'
import { validated } from '../../engine/model/schema.ts'
import { type Kernel, newId } from '../../engine/storage/kernel.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { ResultsTable } from './commands/transaction.ts'
import type { AnyWorkflow, ChildOptions } from './context.ts'
import { beginCopy } from './handle/fork.ts'
import { serveRequests } from './handle/requests.ts'
import { ResultPoller } from './handle/result-poller.ts'
import { WorkflowRun } from './handle/run.ts'
import type { RunHost, RunInMemory } from './handle/run-view.ts'
import { createRun, foundRun, refuseForeign } from './handle/starting.ts'
import type { ParentLink } from './history/entries.ts'
import { workflowFold } from './history/fold.ts'
import type { RunState } from './history/state.ts'
import { nameOf, queueOf } from './names.ts'
import { type StartOptions, startOptions, startValues } from './options.ts'
import { aside, reviveAside, setAside } from './queue/due.ts'
import { serveQueue } from './queue/queue.ts'
import { Instance, type InstanceHost } from './run/instance.ts'
import { MailWatch } from './run/mail-watch.ts'
import { currentScope, leaveScope, readableId } from './run/scope.ts'
import type { Left } from './run/tenure.ts'
import { type Replayed, replayAside } from './tools/replay.ts'
import { announcedAs, announcementOf } from './without-code.ts'
import { foldOf } from './workflow-fold.ts'

const hosts = new WeakMap<EngineHost, Host>()

export function hostOf(engine: EngineHost): Host {
  const known = hosts.get(engine)
  if (known) return known
  const host = new Host(engine)
  hosts.set(engine, host)
  return host
}

const closeGraceMs = 1000
const reopenMs = 1000

export class Host implements InstanceHost, RunHost {
  readonly engine: EngineHost
  readonly kernel: Kernel
  readonly looks: ResultPoller
  readonly yielder: Yielder
  readonly #definitions = new Map<string, AnyWorkflow>()
  readonly #live = new Map<string, Instance>()
  readonly #watchers = new Map<string, Set<() => void>>()
  readonly #mail: MailWatch
  /** The error for writes through a released handle. One instance is shared, because there are many handles. */
  readonly released = new RepriseError('CLOSED', 'the run was released')
  readonly results = new ResultsTable()
  callsStarted = 0
  #adopting = 0
  #isClosed = false

  constructor(engine: EngineHost) {
    this.engine = engine
    this.kernel = engine.kernel
    this.looks = new ResultPoller(engine.kernel)
    this.yielder = new Yielder(engine.clock)
    this.#mail = new MailWatch(engine.kernel, this.#live, (error) => this.#problem('mail', error))
    const uninstallGuard = installGuard(currentScope)
    const off = [engine.worker.watch(() => this.#underWay()), engine.watchBusy(() => this.#isBusy()), uninstallGuard]
    engine.onHandOver((graceMs) => this.#handOver(graceMs))
    engine.onClose((graceMs) => this.#close(graceMs ?? closeGraceMs).finally(() => off.forEach((each) => void each())))
  }

  /** Registers the definition: this process executes its runs. */
  work(definition: AnyWorkflow): void {
    const known = this.#definitions.get(definition.name)
    if (known === definition) return
    if (known) {
      const why = `two definitions are called ${definition.name}: rename one of them`
      throw new RepriseError('INVALID_ARGUMENT', `${why}; rename one of them`, { workflow: definition.name })
    }
    this.#definitions.set(definition.name, definition)
    if (definition.options.queue) serveQueue(this.engine, definition.options.queue)
    const concurrency = definition.options.concurrency ?? 1000
    this.engine.serve(queueOf(definition), (head) => this.#claimed(head), { concurrency })
    this.engine.worker.describe(announcedAs(definition.name), announcementOf(definition))
    serveRequests(this, definition)
    void reviveAside(this.engine, definition).catch((error) => this.#problem(definition.name, error))
  }

  /** The number of runs in memory. */
  get live(): number {
    return this.#live.size
  }

  /** The number of calls to the outside that are in flight. */
  get calls(): number {
    let calls = 0
    for (const instance of this.#live.values()) calls += instance.calls.count
    return calls
  }

  handle<Output>(definition: AnyWorkflow, id: string): WorkflowRun<Output> {
    return new WorkflowRun<Output>(this, definition, id)
  }

  definition(name: string): AnyWorkflow | undefined {
    return this.#definitions.get(name)
  }

  instance(timeline: string): RunInMemory | undefined {
    return this.#live.get(timeline)
  }

  /** True if the run is in this process's memory and only waits. */
  isAsleep(timeline: string): boolean {
    return this.#live.get(timeline)?.isAsleep ?? false
  }

  /** True if the run is in this process's memory and does more than wait. */
  isAtWork(timeline: string): boolean {
    return this.#live.get(timeline)?.isAsleep === false
  }

  run<Output>(definition: AnyWorkflow, input: unknown, options: StartOptions): Promise<WorkflowRun<Output>> {
    checkOptions(`run of ${definition.name}`, options, startOptions)
    checkValues(`run of ${definition.name}`, options, startValues)
    const id = options.id ?? newId(this.kernel.random)
    if (options.here !== false) this.work(definition)
    return this.#start(definition, id, input, options, null, (isNew, life, checked) => {
      const run = new WorkflowRun<Output>(this, definition, id, isNew ? life : null)
      return isNew ? run : foundRun(this.kernel.codec, run, checked, options)
    })
  }

  /** Resolves with true if this call started the run. */
  start(
    definition: AnyWorkflow,
    id: string,
    input: unknown,
    options: StartOptions & ChildOptions,
    parent: ParentLink | null,
  ): Promise<boolean> {
    return this.#start(definition, id, input, options, parent, (isNew) => isNew)
  }

  /** `resultOf` computes the result from whether this call started the run, and from its input as the schema returns it. */
  #start<Result>(
    definition: AnyWorkflow,
    id: string,
    input: unknown,
    options: StartOptions & ChildOptions,
    parent: ParentLink | null,
    resultOf: (isNew: boolean, life: number, input: unknown) => Result | Promise<Result>,
  ): Promise<Result> {
    if (!definition.options.input) return this.#create(definition, id, input, options, parent, resultOf)
    return this.#checked(definition, id, input).then((checked) =>
      this.#create(definition, id, checked, options, parent, resultOf),
    )
  }

  /** A request without an input for a run that exists takes the run as it is. */
  async #checked(definition: AnyWorkflow, id: string, input: unknown): Promise<unknown> {
    const { options, name, prefix } = definition
    if (input === undefined && (await this.engine.head(timelineId(prefix + id)))) return undefined
    return await validated(options.input!, `the input of ${name}`, input)
  }

  /** Starts the run of a request, and settles the request in the same commit. False: the run exists. */
  async startRequested(
    definition: AnyWorkflow,
    { id, number }: RequestRow,
    input: unknown,
    options: StartOptions,
  ): Promise<boolean> {
    const start = { input, options, parent: null, isHere: true, settles: number }
    const opened = await createRun(this.engine, definition, id, start)
    if (opened !== null && opened !== 'released') this.#begin(definition, opened)
    return opened !== null
  }

  /** Not async: each async function allocates promises. */
  #create<Result>(
    definition: AnyWorkflow,
    id: string,
    input: unknown,
    options: StartOptions & ChildOptions,
    parent: ParentLink | null,
    resultOf: (isNew: boolean, life: number, input: unknown) => Result | Promise<Result>,
  ): Promise<Result> {
    const isHere = options.here !== false && this.#definitions.has(definition.name)
    try {
      const start = { input, options, parent, isHere, life: 1 }
      return createRun(this.engine, definition, id, start).then((opened) => {
        if (opened !== null && opened !== 'released') this.#begin(definition, opened)
        return resultOf(opened !== null, start.life, input)
      })
    } catch (error) {
      return Promise.reject(error)
    }
  }

  async startChild(
    definition: AnyWorkflow,
    id: string,
    input: unknown,
    options: ChildOptions,
    parent: ParentLink,
  ): Promise<void> {
    this.work(definition)
    const { id: _, ...rest } = options
    const isNew = await this.start(definition, id, input, rest, parent)
    if (!isNew && !parent.detached) await refuseForeign(this.handle(definition, id), parent)
  }

  async undoChild(definition: AnyWorkflow, id: string, reason: string): Promise<void> {
    this.work(definition)
    await this.handle(definition, id).undo({ reason })
  }

  async cancelChild(timeline: string, reason: string, by: string): Promise<void> {
    await this.send(timeline, 'cancel', { reason }, `cancel:${by}`)
  }

  async send(timeline: string, kind: string, data: unknown, id?: string, life?: number): Promise<string> {
    const to = { ...(id !== undefined && { id }), ...(life !== undefined && { life }) }
    const sent = await this.engine.send(timeline, kind, data, to)
    this.poke(timeline)
    return sent
  }

  /** Reports that a run in this process's memory may have mail. */
  poke(timeline: string): void {
    const instance = this.#live.get(timeline)
    if (instance) instance.mail.readSoon()
    else this.engine.dispatcher.wake()
  }

  replay(definition: AnyWorkflow, timeline: string, state: RunState): Promise<Replayed> {
    return replayAside(this, definition, timelineId(timeline), state)
  }

  hasMail(timeline: TimelineId): Promise<boolean> {
    return this.#mail.hasMail(timeline)
  }

  /** Calls `call` when the run leaves this process's memory. */
  watch(timeline: string, call: () => void): () => void {
    const set = this.#watchers.get(timeline) ?? new Set()
    this.#watchers.set(timeline, set.add(call))
    return () => {
      set.delete(call)
      if (set.size === 0) this.#watchers.delete(timeline)
    }
  }

  notify(timeline: string): void {
    for (const call of [...(this.#watchers.get(timeline) ?? [])]) call()
  }

  /** Opens a run that has no owner, for a change from outside. */
  async take(timeline: string, options: { readonly takeover?: boolean } = {}): Promise<OpenTimeline<RunState>> {
    return await this.engine.openTimeline(timelineId(timeline), workflowFold, {
      mustExist: true,
      wait: '10s',
      ...options,
    })
  }

  async #claimed(head: Head): Promise<void> {
    const definition = this.#definitions.get(nameOf(head.timeline))
    if (!definition)
      throw new RepriseError('NOT_FOUND', `the workflow ${nameOf(head.timeline)} is not registered in this process`)
    let open: OpenTimeline<RunState>
    this.#adopting += 1
    try {
      open = await this.engine.adopt(head, foldOf(definition))
      await beginCopy(this.kernel, open)
    } catch (error) {
      return await this.#setAside(head, error)
    } finally {
      this.#adopting -= 1
    }
    if (this.#isClosed) return await open.shut({ wakeup: this.engine.now(open.id) })
    if (open.state.end) return await open.shut({ wakeup: null, queue: null })
    await this.#run(definition, open, head.mail > 0, isUntouched(head, open)).tenure.left
  }

  /** Executes a run that this process has just created. */
  #begin(definition: AnyWorkflow, open: OpenTimeline<RunState>): void {
    if (this.#isClosed) {
      // A run that cannot be released now is due when the lease of this process ends.
      void open.shut({ wakeup: this.engine.now(open.id) }).catch(() => undefined)
      return
    }
    this.engine.dispatcher.began(open.id)
    this.#run(definition, open)
  }

  #run(definition: AnyWorkflow, open: OpenTimeline<RunState>, mayHaveMail = false, isUntouched = false): Instance {
    const instance = new Instance(this, definition, open)
    instance.calls.isUntouched = isUntouched
    this.#live.set(open.id, instance)
    const { deadline = Number.POSITIVE_INFINITY } = open.state.started ?? {}
    if (mayHaveMail || deadline <= this.kernel.worker.now(open.id)) instance.mail.readFirst()
    leaveScope(() => instance.load())
    this.#mail.start()
    return instance
  }

  /** Called by an instance that has left memory. */
  left(instance: Instance, left: Left): void {
    const { id } = instance.open
    if (this.#live.get(id) === instance) this.#live.delete(id)
    this.engine.dispatcher.ended(id, left.because !== 'lost')
    if (left.because === 'diverged' || left.because === 'broken') {
      instance.open
        .shut(aside(left.because === 'diverged' ? 'diverged' : 'quarantined', left.error))
        .then(
          () => this.#problem(id, left.error),
          (error) => this.#problem(id, error),
        )
        .finally(() => this.notify(id))
      return
    }
    if (left.because === 'lost' && !this.#isClosed) this.#lost(instance, left.error)
    this.notify(id)
  }

  /**
   * FENCED: a new owner executes the run. Otherwise this process still owns it and no other process can claim it, so it
   * is opened again here.
   */
  #lost(instance: Instance, error: unknown): void {
    const { id } = instance.open
    if (!isReprise(error, 'FENCED', 'CLOSED')) this.#problem(id, error)
    if (isReprise(error, 'FENCED')) return
    instance.open.break(new RepriseError('CLOSED', `${id} is being reread`))
    this.kernel.clock.after(reopenMs, () => void this.#reopen(instance.definition, id))
  }

  async #reopen(definition: AnyWorkflow, id: TimelineId): Promise<void> {
    if (this.#isClosed || this.#live.has(id)) return
    try {
      const open = await this.engine.openTimeline(id, foldOf(definition), { mustExist: true })
      if (this.#live.has(id)) return
      if (open.state.end) await open.shut({ wakeup: null, queue: null })
      else {
        await beginCopy(this.kernel, open)
        this.#run(definition, open, true)
      }
    } catch (error) {
      if (isReprise(error, 'OWNED', 'NOT_FOUND', 'FENCED', 'CLOSED')) return
      this.#problem(id, error)
      this.kernel.clock.after(reopenMs, () => void this.#reopen(definition, id))
    }
  }

  /** Sets a damaged or unreadable run aside; the others continue. */
  async #setAside(head: Head, error: unknown): Promise<void> {
    if (isReprise(error, 'FENCED', 'CLOSED') || isPassingStoreFailure(error)) throw error
    await setAside(this.engine, head, error)
    this.#problem(head.timeline, error)
    this.notify(head.timeline)
  }

  /** Steps in flight, for finding stalled calls. */
  *#underWay(): Generator<UnderWay> {
    for (const [timeline, { calls }] of this.#live) {
      for (const [id, call] of calls.inFlight) {
        yield { timeline, what: `step ${readableId(id)}`, since: call.aliveAt }
      }
    }
  }

  /** A run is being read, or does more than wait. */
  #isBusy(): boolean {
    for (const instance of this.#live.values()) if (!instance.isAsleep) return true
    return this.#adopting > 0
  }

  async #close(graceMs: number): Promise<void> {
    this.#isClosed = true
    this.#mail.close()
    await this.#releaseAll(graceMs)
  }

  /** Waiting runs keep their wakeup; the others are due at once. */
  async #handOver(graceMs: number): Promise<HandedOver[]> {
    await Promise.all([...this.#live.values()].map((run) => run.isAsleep && run.residency.letGoNow()))
    return await this.#releaseAll(graceMs)
  }

  async #releaseAll(graceMs: number): Promise<HandedOver[]> {
    const live = [...this.#live.values()]
    await Promise.all(live.map((instance) => instance.residency.pause(graceMs)))
    const cut = live.filter(({ tenure }) => !tenure.isLeaving)
    const handedOver = cut.map(({ open, calls }) => {
      return { timeline: open.id, inFlight: [...calls.inFlight].map(([id]) => `step ${readableId(id)}`) }
    })
    await Promise.allSettled(
      live.map(async (instance) => {
        instance.tenure.leave({ because: 'closed' })
        await instance.open.shut({ wakeup: this.kernel.worker.now(instance.open.id) })
      }),
    )
    return handedOver
  }

  #problem(where: string, error: unknown): void {
    if (!this.#isClosed) this.kernel.events.emit('problem', { where, error })
  }
}

/**
 * True for the first claim of a run that was released when it was created, or with nothing in flight. After a later
 * claim this is unknown: an earlier owner may have begun a step and died. For a fork, its parent may have begun one.
 */
function isUntouched({ epoch, status }: Head, { isFork }: { readonly isFork: boolean }): boolean {
  return epoch === 2 && !isFork && (status === 'waiting' || status === 'queued')
}
