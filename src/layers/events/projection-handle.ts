// What a user holds of a projection: its state, how far it is, and the rebuild: a new generation is made beside the live
// one, catches up, and takes its place in one step. Readers never see a half-built one.

import { RepriseError } from '../../core/errors.ts'
import type { Reprise } from '../../engine/reprise.ts'
import { liveGeneration, swapGeneration } from './generations.ts'
import { MemorySink } from './memory-sink.ts'
import { Runner, type RunnerStatus } from './runner.ts'
import type { Quarantined, Sink } from './sink.ts'
import type { Events } from './source.ts'

/** One generation of a projection, not started yet. */
export interface Build<State> {
  readonly partitions: number
  readonly timelines: readonly string[]
  readonly poison: 'stop' | 'quarantine'
  events(partition: number): Events
  open(partition: number): Promise<Sink>
  stateOf(sinks: readonly Sink[]): State
  /** It is the live generation from here on: other processes share it. */
  begin(): void
  stop(): void
  /** Its generation is no longer read: removes what is ours of it. */
  retire(timeline: string): Promise<void>
}

export interface ProjectionModel<State> {
  readonly name: string
  readonly version: string
  build(engine: Reprise, generation: number): Build<State>
}

export interface RebuildOptions {
  /** Called about every hundred milliseconds. */
  readonly onProgress?: (progress: { readonly applied: number; readonly isCaughtUp: boolean }) => void
  /** In the same step as the swap is told to other processes: rename your tables here, for example. */
  readonly onSwap?: (generation: { readonly from: number; readonly to: number }) => Promise<void>
  /** Keep the old generation's data; by default it goes once the new one is live. */
  readonly keepOld?: boolean
}

interface Running<State> {
  readonly generation: number
  readonly build: Build<State>
  readonly runners: readonly Runner[]
}

const lookMs = 1000
const progressMs = 100

export class ProjectionHandle<State> {
  readonly name: string
  readonly #engine: Reprise
  readonly #model: ProjectionModel<State>
  readonly #forget: () => void
  #running: Running<State>
  #holders = 0
  #isRebuilding = false
  #isClosed = false
  #cancelLook: (() => void) | null = null

  private constructor(engine: Reprise, model: ProjectionModel<State>, running: Running<State>) {
    this.name = model.name
    this.#engine = engine
    this.#model = model
    this.#running = running
    this.#forget = engine.onClose(() => this.#shut())
    this.#lookForSwaps()
  }

  static async start<State>(
    engine: Reprise,
    model: ProjectionModel<State>,
    generation: number,
  ): Promise<ProjectionHandle<State>> {
    const running = await run(engine, model, generation)
    running.build.begin()
    return new ProjectionHandle(engine, model, running)
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** As of the last event applied here. A table projection gives the table's handle, an SQL one nothing. */
  get state(): State {
    const { build, runners } = this.#running
    return build.stateOf(runners.map(({ sink }) => sink))
  }

  get generation(): number {
    return this.#running.generation
  }

  /** One for each partition. */
  get status(): readonly RunnerStatus[] {
    return this.#running.runners.map((runner) => runner.status)
  }

  /** Partitions that this process writes. */
  get owned(): number {
    return this.#running.runners.filter(({ sink }) => isWrittenBy(sink)).length
  }

  /** Events that were set aside, with what was thrown. */
  get quarantine(): readonly Quarantined[] {
    return this.#running.runners.flatMap((runner) => runner.sink.quarantine)
  }

  /** Resolves when everything that was in the feed at this call is applied: read what you wrote. */
  async catchUp(): Promise<State> {
    await Promise.all(this.#running.runners.map((runner) => runner.catchUp()))
    return this.state
  }

  /** Goes on after a stop on poison: once the handler is mended, or to see it fail again. */
  resume(): void {
    for (const runner of this.#running.runners) runner.resume()
  }

  /** Writes a checkpoint now (in memory only; the others write with every step). */
  async checkpoint(): Promise<void> {
    for (const { sink } of this.#running.runners) if (sink instanceof MemorySink) await sink.save()
  }

  /** Builds the projection anew from the first event, beside this one, and takes its place when it has caught up. */
  async rebuild(options: RebuildOptions = {}): Promise<void> {
    if (this.#isRebuilding) throw new RepriseError('CONFLICT', `${this.name} is being rebuilt already`)
    this.#isRebuilding = true
    const from = this.#running.generation
    const to = await this.#freeGeneration(from)
    const next = await run(this.#engine, this.#model, to)
    try {
      await this.#watchProgress(next, options)
      if (next.runners.some(({ sink }) => !sink.isOwned)) {
        throw new RepriseError('CONFLICT', `${this.name} is being rebuilt by another process`, { name: this.name, to })
      }
      for (const { sink } of next.runners) if (sink instanceof MemorySink) await sink.save()
      await swapGeneration(this.#engine, this.name, this.#model.version, from, to)
      await options.onSwap?.({ from, to })
    } catch (error) {
      // What another process builds under the same number is its own.
      const isOurs = next.runners.every(({ sink }) => isWrittenBy(sink))
      await stop(next)
      if (isOurs) for (const timeline of next.build.timelines) await next.build.retire(timeline)
      throw error
    } finally {
      this.#isRebuilding = false
    }
    const old = this.#running
    this.#running = next
    next.build.begin()
    await stop(old)
    if (!options.keepOld) for (const timeline of old.build.timelines) await old.build.retire(timeline)
  }

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
    this.#cancelLook?.()
    this.#forget()
    await stop(this.#running)
  }

  /** Numbers of builds that were given up are not used again: their tables may still be there. */
  async #freeGeneration(from: number): Promise<number> {
    for (let to = from + 1; ; to++) {
      const [timeline] = this.#model.build(this.#engine, to).timelines
      if (timeline === undefined || !(await this.#engine.head(timeline))) return to
    }
  }

  async #watchProgress(next: Running<State>, options: RebuildOptions): Promise<void> {
    const { clock } = this.#engine.kernel
    const tell = () => {
      const statuses = next.runners.map((runner) => runner.status)
      options.onProgress?.({
        applied: statuses.reduce((sum, status) => sum + status.applied, 0),
        isCaughtUp: statuses.every((status) => status.isCaughtUp),
      })
    }
    let cancel = () => {}
    const again = () => {
      tell()
      cancel = clock.after(progressMs, again)
    }
    if (options.onProgress) again()
    try {
      await Promise.all(next.runners.map((runner) => runner.catchUp()))
    } finally {
      cancel()
    }
    tell()
  }

  /** Another process may have swapped: follow it. */
  #lookForSwaps(): void {
    if (this.#isClosed) return
    this.#cancelLook = this.#engine.kernel.clock.after(lookMs, () => {
      void this.#follow()
        .catch((error) => {
          if (!this.#isClosed) this.#engine.events.emit('problem', { where: `projection ${this.name}`, error })
        })
        .finally(() => this.#lookForSwaps())
    })
  }

  async #follow(): Promise<void> {
    if (this.#isRebuilding || this.#isClosed) return
    const live = await liveGeneration(this.#engine, this.name, this.#model.version)
    if (live === this.#running.generation || this.#isRebuilding || this.#isClosed) return
    const next = await run(this.#engine, this.#model, live)
    next.build.begin()
    await Promise.all(next.runners.map((runner) => (runner.sink.isOwned ? runner.catchUp() : undefined)))
    const old = this.#running
    this.#running = next
    await stop(old)
  }
}

async function run<State>(engine: Reprise, model: ProjectionModel<State>, generation: number): Promise<Running<State>> {
  const build = model.build(engine, generation)
  const runners: Runner[] = []
  for (let p = 0; p < build.partitions; p++) {
    runners.push(new Runner(engine.kernel, build.events(p), await build.open(p), build.poison))
  }
  return { generation, build, runners }
}

/** Whether this process writes what the sink holds. */
function isWrittenBy(sink: Sink): boolean {
  return sink instanceof MemorySink ? sink.isWriter : sink.isOwned
}

async function stop(running: Running<unknown>): Promise<void> {
  running.build.stop()
  await Promise.allSettled(running.runners.map((runner) => runner.stop()))
}
