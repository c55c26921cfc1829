// The workflows of one engine in this process: which definitions it knows, which runs are in memory, and how a run is
// started, claimed, let go and found again. A run that cannot be loaded is set aside; the others go on.

import { equalBytes, type TimelineId, timelineId } from '../../core/coordinate.ts'
import { toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/ports.ts'
import { installGuard } from '../../engine/guard/install.ts'
import { type Kernel, newId, newOperation } from '../../engine/kernel.ts'
import type { Reprise } from '../../engine/reprise.ts'
import type { OpenTimeline } from '../../engine/timeline.ts'
import type { UnderWay } from '../../engine/worker.ts'
import type { ChildOptions } from './context.ts'
import type { AnyWorkflow, StartOptions } from './definition.ts'
import { behaviour, type ParentLink } from './entries.ts'
import { foldOf } from './fold-of.ts'
import { Instance, type Left } from './instance.ts'
import { MailWatch } from './mail-watch.ts'
import { workflowKind } from './model.ts'
import { ensureQueue, enterMessage, serveQueue } from './queue.ts'
import { WorkflowRun } from './run.ts'
import { currentScope, leaveScope, readableId } from './scope.ts'
import { type RunState, workflowFold } from './state.ts'
import { createTable } from './transaction.ts'

const hosts = new WeakMap<Reprise, Host>()

export function hostOf(engine: Reprise): Host {
  const known = hosts.get(engine)
  if (known) return known
  const host = new Host(engine)
  hosts.set(engine, host)
  return host
}

export function queueOf(definition: { readonly name: string }): string {
  return `workflow/${definition.name}`
}

const closeGraceMs = 1000
const reopenMs = 1000

export class Host {
  readonly engine: Reprise
  readonly kernel: Kernel
  readonly #definitions = new Map<string, AnyWorkflow>()
  readonly #live = new Map<string, Instance>()
  readonly #watchers = new Map<string, Set<() => void>>()
  readonly #mail: MailWatch
  /** Why nothing can be written through a handle that was let go; one for all of them, as there are many. */
  readonly letGo = new RepriseError('CLOSED', 'the run was let go')
  /** Grows with every call to the outside. */
  callsStarted = 0
  #isClosed = false
  #rides: Promise<void> | null = null

  constructor(engine: Reprise) {
    this.engine = engine
    this.kernel = engine.kernel
    this.#mail = new MailWatch(engine.kernel, this.#live, (error) => this.#problem('mail', error))
    engine.declare(workflowKind)
    engine.kernel.worker.watch(() => this.#underWay())
    const letGo = installGuard(currentScope)
    engine.onClose((graceMs) => this.#close(graceMs ?? closeGraceMs).finally(letGo))
  }

  /** This process executes runs of the definition. */
  work(definition: AnyWorkflow): void {
    const known = this.#definitions.get(definition.name)
    if (known === definition) return
    if (known) {
      const why = `two definitions are called ${definition.name}: their runs could not be told apart`
      throw new RepriseError('INVALID_ARGUMENT', `${why}; rename one of them`, { workflow: definition.name })
    }
    this.#definitions.set(definition.name, definition)
    if (definition.options.queue) serveQueue(this.engine, definition.options.queue)
    const concurrency = definition.options.concurrency ?? 1000
    this.engine.serve(queueOf(definition), (head) => this.#claimed(head), { concurrency })
    void this.#reviveAside(definition).catch((error) => this.#problem(definition.name, error))
  }

  /** How many runs are in memory. */
  get live(): number {
    return this.#live.size
  }

  /** How many calls to the outside are in flight. */
  get calls(): number {
    let calls = 0
    for (const instance of this.#live.values()) calls += instance.attempts.size
    return calls
  }

  handle<Output>(definition: AnyWorkflow, id: string): WorkflowRun<Output> {
    return new WorkflowRun<Output>(this, definition, id)
  }

  definition(name: string): AnyWorkflow | undefined {
    return this.#definitions.get(name)
  }

  instance(timeline: string): Instance | undefined {
    return this.#live.get(timeline)
  }

  /** In memory here, with nothing to do but wait. */
  isAsleep(timeline: string): boolean {
    const instance = this.#live.get(timeline)
    return instance?.execution !== undefined && instance.isAsleep
  }

  run<Output>(definition: AnyWorkflow, input: unknown, options: StartOptions): Promise<WorkflowRun<Output>> {
    const id = options.id ?? newId(this.kernel.random)
    if (options.here !== false) this.work(definition)
    const run = new WorkflowRun<Output>(this, definition, id)
    return this.start(definition, id, input, options, null).then((isNew) =>
      isNew ? run : this.#found(run, input, options),
    )
  }

  async #found<Output>(run: WorkflowRun<Output>, input: unknown, options: StartOptions): Promise<WorkflowRun<Output>> {
    if (options.ifExists === 'reject') {
      throw new RepriseError('EXISTS', `there is already a run ${run.definition.name}/${run.id}`, { run: run.id })
    }
    if (options.ifExists === 'restart') await run.restart(input)
    else await this.#checkInput(run, input)
    return run
  }

  /** Who asks for the same again is given the run; who asks for something else must not take its result for theirs. */
  async #checkInput(run: WorkflowRun, input: unknown): Promise<void> {
    // No input at all: the run is asked for as it is.
    if (input === undefined) return
    const { codec } = this.kernel
    const { started, input: last } = await run.state()
    const asked = codec.encode(input)
    // A restart, or the run itself, may have given it another since.
    if ([started?.input, last].some((each) => equalBytes(codec.encode(each), asked))) return
    const why = `there is already a run ${run.definition.name}/${run.id}, with another input`
    const how =
      'choose another id, pass the same input, or take a handle of it with workflows(rp).of(definition).get(id)'
    throw new RepriseError('EXISTS', `${why}: ${how}`, { run: run.id })
  }

  /** True if this call started it. */
  async start(
    definition: AnyWorkflow,
    id: string,
    input: unknown,
    options: StartOptions & ChildOptions,
    parent: ParentLink | null,
  ): Promise<boolean> {
    const timeline = timelineId(definition.prefix + id)
    if (this.kernel.worker.registered === null) await this.kernel.worker.register()
    const now = this.kernel.worker.now()
    const timeout = options.timeout ?? definition.options.timeout
    const queued = definition.options.queue
    if (queued) await ensureQueue(this.engine, queued)
    const data = {
      ...(input !== undefined && { input }),
      seed: Math.floor(this.kernel.random.number() * 0x40000000),
      behaviour,
      ...(parent && { parent }),
      ...(timeout !== undefined && { deadline: now + toMs(timeout, 'timeout') }),
      ...(queued && { queue: { name: queued.name, ...(options.queueKey !== undefined && { key: options.queueKey }) } }),
    }
    const delayMs = options.delay === undefined ? 0 : toMs(options.delay, 'delay')
    const isHere = !queued && delayMs === 0 && options.here !== false && this.#definitions.has(definition.name)
    const opened = await this.engine.create(timeline, foldOf(definition), [{ type: 'started', data, time: now }], {
      queue: queueOf(definition),
      wakeup: queued ? null : now + delayMs,
      status: isHere ? 'running' : queued ? 'queued' : 'waiting',
      attributes: { ...options.attributes, workflow: definition.name },
      ...(options.priority !== undefined && { priority: options.priority }),
      ...(!isHere && { release: true }),
      ...(queued && {
        send: [enterMessage(this.engine, queued, timeline, options.queueKey ?? '', options.priority ?? 0)],
      }),
    })
    if (opened === null) return false
    if (opened !== 'released') this.#run(definition, opened)
    else {
      this.engine.dispatcher.expect(now + delayMs)
      if (delayMs === 0) this.engine.dispatcher.wake()
    }
    return true
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
    await this.start(definition, id, input, rest, parent)
  }

  async cancelChild(timeline: string, reason: string, by: string): Promise<void> {
    await this.send(timeline, 'cancel', { reason }, `cancel:${by}`)
  }

  async send(timeline: string, kind: string, data: unknown, id?: string): Promise<string> {
    const sent = await this.engine.send(timeline, kind, data, id === undefined ? {} : { id })
    this.poke(timeline)
    return sent
  }

  /** There may be mail for a run that is in memory here. */
  poke(timeline: string): void {
    const instance = this.#live.get(timeline)
    if (instance) instance.spawn(() => instance.mail.read())
    else this.engine.dispatcher.wake()
  }

  hasMail(timeline: TimelineId): Promise<boolean> {
    return this.#mail.hasMail(timeline)
  }

  /** Calls when a run left memory here. */
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

  /** The table that transactions keep their results in; made once by each process. */
  async prepareRides(run: Instance): Promise<void> {
    this.#rides ??= run.readSql(createTable).catch(async (error) => {
      // Two processes that make it in the same moment: one of them fails, and then it is there.
      if (!isReprise(error, 'RIDER_FAILED')) throw error
      await run.readSql(createTable)
    })
    await this.#rides.catch((error) => {
      this.#rides = null
      throw error
    })
  }

  /** Takes a run that is in nobody's hands, for a change from outside. */
  async take(timeline: string, options: { readonly takeover?: boolean } = {}): Promise<OpenTimeline<RunState>> {
    return await this.engine.openTimeline(timelineId(timeline), workflowFold, {
      mustExist: true,
      wait: '10s',
      ...options,
    })
  }

  async #claimed(head: Head): Promise<void> {
    const definition = this.#definitions.get(nameOf(head.timeline))
    if (!definition) throw new RepriseError('NOT_FOUND', `no workflow ${nameOf(head.timeline)} is known here`)
    let open: OpenTimeline<RunState>
    try {
      open = await this.engine.adopt(head, foldOf(definition))
    } catch (error) {
      return await this.#setAside(head, error)
    }
    if (open.state.end) return await open.shut({ wakeup: null, queue: null })
    await this.#run(definition, open, head.mail > 0).left
  }

  #run(definition: AnyWorkflow, open: OpenTimeline<RunState>, mayHaveMail = false): Instance {
    const instance = new Instance(this, definition, open)
    this.#live.set(open.id, instance)
    const { deadline = Number.POSITIVE_INFINITY } = open.state.started ?? {}
    if (mayHaveMail || deadline <= this.kernel.worker.now()) instance.look()
    leaveScope(() => instance.load())
    this.#mail.start()
    return instance
  }

  /** An instance is no longer in memory. */
  left(instance: Instance, left: Left): void {
    const { id } = instance.open
    if (this.#live.get(id) === instance) this.#live.delete(id)
    if (left.because === 'diverged' || left.because === 'broken') {
      const status = left.because === 'diverged' ? 'diverged' : 'quarantined'
      const along = { wakeup: null, queue: null, status, attributes: { problem: problemOf(left.error) } }
      instance.open
        .shut(along)
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

  /** Whoever took it goes on with it. If nobody did, it is still ours, and nobody else will be given it. */
  #lost(instance: Instance, error: unknown): void {
    const { id } = instance.open
    if (!isReprise(error, 'FENCED', 'CLOSED')) this.#problem(id, error)
    if (isReprise(error, 'FENCED')) return
    instance.open.break(new RepriseError('CLOSED', `${id} is read again`))
    this.kernel.clock.after(reopenMs, () => void this.#reopen(instance.definition, id))
  }

  async #reopen(definition: AnyWorkflow, id: TimelineId): Promise<void> {
    if (this.#isClosed || this.#live.has(id)) return
    try {
      const open = await this.engine.openTimeline(id, foldOf(definition), { mustExist: true })
      if (this.#live.has(id)) return
      if (open.state.end) await open.shut({ wakeup: null, queue: null })
      else this.#run(definition, open, true)
    } catch (error) {
      if (isReprise(error, 'OWNED', 'NOT_FOUND', 'FENCED', 'CLOSED')) return
      this.#problem(id, error)
      this.kernel.clock.after(reopenMs, () => void this.#reopen(definition, id))
    }
  }

  /** Damaged or unreadable: it is kept from being claimed over and over, and says why. */
  async #setAside(head: Head, error: unknown): Promise<void> {
    if (isReprise(error, 'FENCED', 'CLOSED', 'STORE_UNREACHABLE', 'STORE_IO', 'STORE_BUSY')) throw error
    await this.kernel.committer.submit({
      operation: newOperation(this.kernel.random),
      guard: { timeline: head.timeline, epoch: head.epoch },
      release: true,
      wakeup: null,
      queue: null,
      status: 'quarantined',
      attributes: { problem: problemOf(error) },
    })
    this.#problem(head.timeline, error)
    this.notify(head.timeline)
  }

  /** New code is here: runs that stopped because of the old get another chance. */
  async #reviveAside(definition: AnyWorkflow): Promise<void> {
    for (const status of ['diverged', 'quarantined']) {
      for (const head of await this.kernel.store.timelines({ prefix: definition.prefix, status, limit: 1000 })) {
        await this.wakeUp(head)
      }
    }
  }

  /** Due now, whatever it was waiting for. */
  async makeDue(head: Head): Promise<void> {
    if (head.owner !== null && head.isOwnerAlive) return
    await this.kernel.committer.submit({
      operation: newOperation(this.kernel.random),
      guard: { timeline: head.timeline, epoch: head.epoch },
      wakeup: this.kernel.worker.now(),
    })
    this.engine.dispatcher.wake()
  }

  /** Back in the queue and due, if nobody has it. */
  async wakeUp(head: Head): Promise<void> {
    await this.kernel.committer.submit({
      operation: newOperation(this.kernel.random),
      guard: { timeline: head.timeline, epoch: head.epoch },
      wakeup: this.kernel.worker.now(),
      queue: queueOf({ name: nameOf(head.timeline) }),
      status: 'waiting',
      attributes: { problem: null },
    })
    this.engine.dispatcher.wake()
  }

  /** Steps in flight, for people who look for what hangs. */
  *#underWay(): Generator<UnderWay> {
    for (const [timeline, { attempts }] of this.#live) {
      for (const [id, attempt] of attempts) {
        yield { timeline, what: `step ${readableId(id)}`, since: attempt.aliveAt }
      }
    }
  }

  async #close(graceMs: number): Promise<void> {
    this.#isClosed = true
    this.#mail.close()
    const live = [...this.#live.values()]
    await Promise.all(live.map((instance) => instance.stay.pause(graceMs)))
    await Promise.allSettled(
      live.map(async (instance) => {
        instance.leave({ because: 'closed' })
        await instance.open.shut({ wakeup: this.kernel.worker.now() })
      }),
    )
  }

  #problem(where: string, error: unknown): void {
    if (!this.#isClosed) this.kernel.events.emit('problem', { where, error })
  }
}

export function nameOf(timeline: string): string {
  return timeline.split('/')[1] ?? ''
}

/** With what caused it: of "the codec refused its data" alone nobody learns what to mend. */
function problemOf(error: unknown): string {
  const parts: string[] = []
  for (let each = error; each !== undefined && each !== null && parts.length < 4; ) {
    const text = each instanceof Error ? each.message : String(each)
    if (!parts.some((part) => part.includes(text))) parts.push(text)
    each = each instanceof Error ? each.cause : undefined
  }
  return parts.join(': ').slice(0, 2000)
}
