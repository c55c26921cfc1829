// The user's handle of a projection: its state, its position, and the rebuild: a new generation is built beside the
// live one, catches up, and replaces it in one step. Readers never see an incomplete one.

import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { ResolvedRetry } from '../../core/retry/retry.ts'
import { throwIfAborted } from '../../engine/base/abortable-wait.ts'
import { type Reads, readsAttribute } from '../../engine/branch/consumers.ts'
import { isSame, type Quarantined, type SubscriptionSink } from '../../engine/feed/sink.ts'
import { type CatchUpOptions, Subscription, type SubscriptionStatus } from '../../engine/feed/subscription.ts'
import { pollEvery } from '../../engine/feed/wake-up.ts'
import type { Host } from '../../engine/host/host.ts'
import { feedEnd, nextGeneration, note, readBuilds, swapGeneration } from '../../engine/tools/generations.ts'
import { sleep } from '../../lib/waiting.ts'
import { MemorySink } from './memory-sink.ts'
import { catalogOf, generationTimeline } from './model.ts'
import type { Events, Occurrence } from './source.ts'

/** One generation of a projection, not started yet. */
export interface Build<State> {
  readonly partitions: number
  readonly timelines: readonly string[]
  readonly poison: 'stop' | 'quarantine'
  readonly retry: ResolvedRetry
  events(partition: number): Events
  open(partition: number): Promise<SubscriptionSink<Occurrence>>
  stateOf(sinks: readonly SubscriptionSink<Occurrence>[]): State
  /** The generation is live from here on: other processes share it. */
  begin(): void
  stop(): void
  /** The generation is no longer read: removes its data, partition by partition, and calls the author's teardown last. */
  retire(): Promise<void>
}

export interface ProjectionModel<State> {
  readonly name: string
  readonly version: string
  readonly reads: Reads
  readonly partitions: number
  build(engine: Host, generation: number, partitions: number): Build<State>
}

export interface RebuildOptions {
  /** Called about every 100 milliseconds. */
  readonly onProgress?: (progress: { readonly applied: number; readonly isCaughtUp: boolean }) => void
  /** Called right after the swap: rename your tables here, for example. */
  readonly onSwap?: (generation: { readonly from: number; readonly to: number }) => Promise<void>
  /** Keep the old generation's data. Default: false, it is removed once the new one is live. */
  readonly keepOld?: boolean
  /** Aborts the rebuild with ABORTED; the next rebuild resumes it. */
  readonly signal?: AbortSignal
}

const knownRebuild = namesOf<RebuildOptions>()('onProgress onSwap keepOld signal')
const knownCatchUp = namesOf<CatchUpOptions>()('signal timeout')

/** The progress of a partition. `stale`: a rollback undid events that it has applied, and it was not rebuilt yet. */
export type ProjectionStatus = SubscriptionStatus & { readonly stale: string | null }

interface Running<State> {
  readonly generation: number
  readonly build: Build<State>
  readonly runners: readonly Subscription<Occurrence>[]
}

const lookMs = 1000
const progressMs = 100

export class ProjectionHandle<State> {
  readonly name: string
  /** The projection's name: each projection exists once. */
  readonly id: string
  readonly #engine: Host
  readonly #model: ProjectionModel<State>
  readonly #forget: () => void
  readonly #stopLooking: () => void
  #running: Running<State>
  #holders = 0
  #isRebuilding = false
  #isClosed = false
  #stale: string | null = null

  private constructor(engine: Host, model: ProjectionModel<State>, running: Running<State>) {
    this.name = model.name
    this.id = model.name
    this.#engine = engine
    this.#model = model
    this.#running = running
    this.#forget = engine.onClose(() => this.#shut())
    this.#stopLooking = pollEvery(
      engine.clock,
      lookMs,
      () => this.#follow(),
      (error) => engine.events.emit('problem', { where: `projection ${model.name}`, error }),
    )
  }

  static async start<State>(engine: Host, model: ProjectionModel<State>): Promise<ProjectionHandle<State>> {
    const { live, retiring } = await readBuilds(engine, catalogOf(model.name), model.version)
    await checkPartitions(engine, model, live)
    if (retiring !== null) await retire(engine, model, retiring)
    return new ProjectionHandle(engine, model, await run(engine, model, live, true))
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /**
   * The state after the last event applied here. A table projection returns the table's handle, an SQL projection
   * nothing.
   */
  get state(): State {
    const { build, runners } = this.#running
    return build.stateOf(runners.map(({ sink }) => sink))
  }

  get generation(): number {
    return this.#running.generation
  }

  /** One status per partition. */
  status(): readonly ProjectionStatus[] {
    return this.#running.runners.map((runner) => ({ ...runner.status(), stale: this.#stale }))
  }

  /** The number of partitions that this process writes. */
  get owned(): number {
    return this.#running.runners.filter(({ sink }) => isWrittenBy(sink)).length
  }

  /** Quarantined events, with their errors. */
  async deadLetters(): Promise<readonly Quarantined[]> {
    return this.#running.runners.flatMap((runner) => runner.sink.quarantine)
  }

  /**
   * Resolves when every event in the feed at the time of this call is applied, here or by the owners of the other
   * partitions: read your own writes. State in another process's memory counts once it is in a checkpoint.
   */
  async catchUp(options: CatchUpOptions = {}): Promise<State> {
    checkOptions(`catchUp of ${this.name}`, options, knownCatchUp)
    for (;;) {
      const { runners } = this.#running
      try {
        await Promise.all(runners.map((runner) => runner.catchUp(options)))
        // Events that it has applied were undone: it is caught up after the rebuild.
        if (!(await this.#isStale())) return this.state
        await this.#correct(options)
      } catch (error) {
        // A swap happened meanwhile: repeat for the new generation.
        const isSwapped = !this.#isClosed && this.#running.runners !== runners
        if (!isSwapped || !isReprise(error, 'CLOSED')) throw error
      }
    }
  }

  /** Resumes after a stop on poison: once the handler is fixed, or to see the error again. */
  resume(): void {
    for (const runner of this.#running.runners) runner.resume()
  }

  /**
   * Applies quarantined events again (default: all of them) once the handler is fixed: on the current state, so after
   * events that happened later. Rejects at the first event that still fails, which stays quarantined. Returns the
   * number of applied events.
   */
  async redrive(letters?: readonly Pick<Quarantined, 'timeline' | 'seq'>[]): Promise<number> {
    return await this.#each(letters, (runner, own) => runner.redrive(own))
  }

  /** Discards quarantined events (default: all of them), and returns their number. They are never applied. */
  async discard(letters?: readonly Pick<Quarantined, 'timeline' | 'seq'>[]): Promise<number> {
    return await this.#each(letters, (runner, own) => runner.discard(own))
  }

  async #each(
    letters: readonly Pick<Quarantined, 'timeline' | 'seq'>[] | undefined,
    call: (runner: Subscription<Occurrence>, own: readonly Quarantined[]) => Promise<number>,
  ): Promise<number> {
    let count = 0
    for (const runner of this.#running.runners) {
      const held = runner.sink.quarantine
      const own = letters ? held.filter((letter) => letters.some((at) => isSame(letter, at))) : held
      if (own.length > 0) count += await call(runner, own)
    }
    return count
  }

  /** Writes a checkpoint now (projections in memory only; the others write with every step). */
  async checkpoint(): Promise<void> {
    for (const { sink } of this.#running.runners) if (sink instanceof MemorySink) await sink.save()
  }

  /**
   * Rebuilds the projection from the first event, beside this one, and replaces it when it has caught up. An
   * interrupted rebuild is resumed.
   */
  async rebuild(options: RebuildOptions = {}): Promise<void> {
    checkOptions(`rebuild of ${this.name}`, options, knownRebuild)
    if (this.#isRebuilding) throw new RepriseError('CONFLICT', `${this.name} is already being rebuilt`)
    this.#isRebuilding = true
    let next: Running<State>
    try {
      next = await makeGeneration(this.#engine, this.#model, this.#running.generation, options)
    } finally {
      this.#isRebuilding = false
    }
    const old = this.#running
    this.#running = next
    next.build.begin()
    await stop(old)
    if (!options.keepOld) await retire(this.#engine, this.#model, old.generation)
  }

  /**
   * Rebuilds the projection with another number of partitions than the live generation: beside it, from the first
   * event, then swaps.
   */
  static async rescale<State>(engine: Host, model: ProjectionModel<State>, options: RebuildOptions): Promise<void> {
    checkOptions(`rescale of ${model.name}`, options, knownRebuild)
    const { live } = await readBuilds(engine, catalogOf(model.name), model.version)
    if ((await partitionsOf(engine, model, live)) === model.partitions) return
    const next = await makeGeneration(engine, model, live, options)
    await stop(next)
    if (!options.keepOld) await retire(engine, model, live)
  }

  /** @internal Adds a holder in this process; each holder closes. */
  share(): this {
    this.#holders += 1
    return this
  }

  async close(): Promise<void> {
    this.#holders -= 1
    if (this.#holders <= 0) await this.#shut()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #shut(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#stopLooking()
    this.#forget()
    await stop(this.#running)
  }

  async #isStale(): Promise<boolean> {
    const builds = await readBuilds(this.#engine, catalogOf(this.name), this.#model.version)
    this.#stale = builds.staleBy(this.#running.generation)
    return this.#stale !== null
  }

  /** Rebuilds here, or follows the generation of the process that was first. */
  async #correct(options: CatchUpOptions = {}): Promise<void> {
    const { clock } = this.#engine
    throwIfAborted(options.signal, `projection ${this.name}`)
    if (this.#isRebuilding || this.owned === 0) await sleep(clock, lookMs / 10, { isAwaited: false })
    else {
      const stale = this.#running.generation
      await this.rebuild(options.signal ? { signal: options.signal } : {}).catch((error) => {
        if (!isReprise(error, 'CONFLICT') || this.#isClosed) throw error
      })
      if (this.#running.generation !== stale) this.#stale = null
    }
    await this.#follow()
  }

  /** Another process may have swapped. */
  async #follow(): Promise<void> {
    if (this.#isRebuilding || this.#isClosed) return
    const { live, staleBy } = await readBuilds(this.#engine, catalogOf(this.name), this.#model.version)
    this.#stale = staleBy(live)
    if (live === this.#running.generation && this.#stale !== null && this.owned > 0) return await this.#correct()
    if (live === this.#running.generation || this.#isRebuilding || this.#isClosed) return
    await checkPartitions(this.#engine, this.#model, live)
    const next = await run(this.#engine, this.#model, live, true)
    await Promise.all(next.runners.map((runner) => (runner.sink.isOwned ? runner.catchUp() : undefined)))
    const old = this.#running
    this.#running = next
    await stop(old)
  }
}

/** Builds the next generation, or resumes a begun one, waits until it has caught up, and swaps it in. */
async function makeGeneration<State>(
  engine: Host,
  model: ProjectionModel<State>,
  from: number,
  options: RebuildOptions,
): Promise<Running<State>> {
  const { name, version } = model
  const to = await generationAfter(engine, model, from)
  const next = await run(engine, model, to, false)
  try {
    await watchProgress(engine, next, options)
    if (next.runners.some(({ sink }) => !isWrittenBy(sink))) {
      throw new RepriseError('CONFLICT', `${name} is being rebuilt by another process`, { name, to })
    }
    for (const { sink } of next.runners) if (sink instanceof MemorySink) await sink.save()
    await swapGeneration(engine, catalogOf(name), version, { from, to, keepOld: options.keepOld === true })
    await options.onSwap?.({ from, to })
    return next
  } catch (error) {
    // Another process owns its own build under the same number. An aborted build is resumed by the next rebuild.
    const isOurs = next.runners.every(({ sink }) => isWrittenBy(sink))
    await stop(next)
    if (isOurs && !isReprise(error, 'ABORTED')) {
      await next.build.retire()
      await note(engine, catalogOf(name), { [`building.${version}`]: null })
    }
    throw error
  }
}

async function generationAfter<State>(engine: Host, model: ProjectionModel<State>, from: number): Promise<number> {
  const { name, version, partitions } = model
  return await nextGeneration(engine, catalogOf(name), version, from, partitions, {
    async exists(generation) {
      const [timeline] = partsOf(engine, model, generation).timelines
      return timeline !== undefined && (await engine.head(timeline)) !== null
    },
    giveUp: (generation) => partsOf(engine, model, generation).retire(),
  })
}

/** The parts of a generation, without running it. */
function partsOf<State>(engine: Host, model: ProjectionModel<State>, generation: number): Build<State> {
  return model.build(engine, generation, model.partitions)
}

/** Removes a replaced generation; after a crash, the next process repeats it. */
async function retire<State>(engine: Host, model: ProjectionModel<State>, generation: number): Promise<void> {
  const { name, version } = model
  const partitions = (await partitionsOf(engine, model, generation)) ?? model.partitions
  await partsOf(engine, { ...model, partitions }, generation).retire()
  await note(engine, catalogOf(name), { [`retiring.${version}`]: null })
}

/** Opening a generation with another number of partitions would miss some events, or count some twice. */
async function checkPartitions<State>(engine: Host, model: ProjectionModel<State>, generation: number): Promise<void> {
  const { name, version, partitions } = model
  const known = await partitionsOf(engine, model, generation)
  if (known === null) {
    const began = { [`began.${version}-${generation}`]: await feedEnd(engine.kernel.store) }
    return await note(engine, catalogOf(name), {
      ...{ [`partitions.${version}-${generation}`]: partitions, [readsAttribute]: JSON.stringify(model.reads) },
      ...began,
    })
  }
  await noteReads(engine, model)
  if (known === partitions) return
  throw new RepriseError(
    'INVALID_ARGUMENT',
    `projection ${name} has ${known} partitions, not ${partitions}: call its rescale(rp), or open it with ${known}`,
    { name, known, partitions },
  )
}

/** Records which events it reads, for rollbacks. */
async function noteReads<State>(engine: Host, { name, reads }: ProjectionModel<State>): Promise<void> {
  const head = await engine.head(catalogOf(name))
  const noted = JSON.stringify(reads)
  if (head?.attributes[readsAttribute] !== noted) await note(engine, catalogOf(name), { [readsAttribute]: noted })
}

/** The recorded number, or the number of existing timelines; null if nothing was built yet. */
async function partitionsOf<State>(
  engine: Host,
  model: ProjectionModel<State>,
  generation: number,
): Promise<number | null> {
  const noted = (await readBuilds(engine, catalogOf(model.name), model.version)).partitionsOf(generation)
  if (noted !== null) return noted
  const whole = generationTimeline(model.name, model.version, generation, null)
  if (await engine.head(whole)) return 1
  const parts = await engine.kernel.store.timelines({ prefix: `${whole}/`, limit: 5000 })
  const numbers = parts.map(({ timeline }) => Number(timeline.slice(whole.length + 1))).filter(Number.isSafeInteger)
  return numbers.length > 0 ? Math.max(...numbers) + 1 : null
}

async function watchProgress(engine: Host, next: Running<unknown>, options: RebuildOptions): Promise<void> {
  const { clock } = engine
  const notify = () => {
    const statuses = next.runners.map((runner) => runner.status())
    options.onProgress?.({
      applied: statuses.reduce((sum, status) => sum + status.applied, 0),
      isCaughtUp: statuses.every((status) => status.isCaughtUp),
    })
  }
  let cancel = () => {}
  const again = () => {
    notify()
    cancel = clock.after(progressMs, again)
  }
  if (options.onProgress) again()
  try {
    const { signal } = options
    await Promise.all(next.runners.map((runner) => runner.catchUp(signal ? { signal } : {})))
  } finally {
    cancel()
  }
  notify()
}

async function run<State>(
  engine: Host,
  model: ProjectionModel<State>,
  generation: number,
  isLive: boolean,
): Promise<Running<State>> {
  const build = model.build(engine, generation, model.partitions)
  // Before anything is taken, so that other processes learn of this one with its first heartbeat.
  if (isLive) build.begin()
  const runners: Subscription<Occurrence>[] = []
  const { poison, retry } = build
  for (let p = 0; p < build.partitions; p++) {
    const [reading, sink] = [build.events(p), await build.open(p)]
    runners.push(new Subscription(engine.kernel, { name: `projection ${model.name}`, reading, sink, poison, retry }))
  }
  return { generation, build, runners }
}

/** Whether this process writes the sink's data. */
function isWrittenBy(sink: SubscriptionSink<Occurrence>): boolean {
  return sink instanceof MemorySink ? sink.isWriter : sink.isOwned
}

async function stop(running: Running<unknown>): Promise<void> {
  running.build.stop()
  await Promise.allSettled(running.runners.map((runner) => runner.stop()))
}
