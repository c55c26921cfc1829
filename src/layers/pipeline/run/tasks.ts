// A pipeline shared by several processes: one task per partition of its sources, each with its own timeline, fenced by its
// epoch. A process takes free tasks, including those of dead processes, up to its fair share, and releases tasks above the
// share when another process joins; its other tasks continue meanwhile. New partitions become tasks.

import { type TimelineId, timelineId } from '../../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { growingPause } from '../../../core/retry/pause.ts'
import type { Head } from '../../../core/store/ports.ts'
import type { UnderWay } from '../../../engine/base/worker.ts'
import { fairShare } from '../../../engine/feed/fair-share.ts'
import { pollEvery } from '../../../engine/feed/wake-up.ts'
import type { Host } from '../../../engine/host/host.ts'
import { giveBack } from '../../../engine/ownership/take-timeline.ts'
import { StateTimeline } from '../../../engine/writing/state-timeline.ts'
import { Latch } from '../../../lib/waiting.ts'
import type { Graph } from '../graph.ts'
import { liveRuns } from './flow-view.ts'
import type { ResolvedPipelineOptions } from './options.ts'
import { PipelineRun } from './run.ts'
import { partitionsAttribute, sharedAttribute } from './state.ts'
import { taskPartition, taskTimeline } from './task-name.ts'

/** A pipeline without keys: partitions may be added and removed. */
const noKeys = 0
const lookMs = 250
const markWaitMs = 2000
const firstPauseMs = 100
const longestPauseMs = 30_000

export interface TasksOf {
  readonly engine: Host
  readonly name: string
  readonly timeline: string
  readonly options: ResolvedPipelineOptions
  draw(): Graph
}

/** The work of this process, or this thread, on a shared pipeline. */
export interface TasksStatus {
  /** The number of tasks that run here. */
  readonly running: number
  /** The number of partitions that are known to this process to have ended, among all partitions. */
  readonly done: number
  readonly partitions: number
  /** The number of records read by tasks that run or ran here. */
  readonly records: number
}

export interface TasksReport {
  readonly status: 'completed' | 'stopped'
  readonly tasks: number
  /** The number of records in all runs, up to the last checkpoint of each task. */
  readonly records: number
  readonly deadLetters: number
}

interface Pause {
  readonly failures: number
  readonly until: number
}

export class PipelineTasks {
  readonly #of: TasksOf
  /** The graph for listing the partitions of sources; tasks have graphs of their own. */
  readonly #graph: Graph
  readonly #running = new Map<string, PipelineRun>()
  readonly #done = new Set<string>()
  readonly #paused = new Map<string, Pause>()
  readonly #abort = new AbortController()
  readonly #stopLooking: () => void
  /** The number of records of ended runs. */
  #records = 0
  /** The number of partitions by which the keys of this pipeline are divided; null: not known yet. */
  #keyedPartitions: number | null = null
  #isRefused = false
  /** Set when every partition has ended, in this process or another. */
  readonly ended = new Latch()
  #announced: number | null = null
  /** The source whose partitions are being listed, and since when. */
  #listing: { readonly source: string; readonly since: number } | null = null

  constructor(of: TasksOf) {
    this.#of = of
    this.#graph = of.draw()
    const { engine } = of
    const { clock, events } = engine
    const onError = (error: unknown) => void events.emit('problem', { where: `pipeline ${of.name}`, error })
    this.#stopLooking = pollEvery(clock, lookMs, () => this.#look(), onError, true)
    engine.worker.watch(() => this.#underWay())
    // Each run stops by itself, with a checkpoint.
    engine.onClose(async () => this.stop())
  }

  get status(): TasksStatus {
    let records = this.#records
    for (const run of this.#running.values()) records += run.status().records
    return { running: this.#running.size, done: this.#done.size, partitions: this.#announced ?? 0, records }
  }

  /** Takes no further task. */
  stop(): void {
    this.#stopLooking()
    this.#of.engine.worker.describe(this.#key, null)
    this.#abort.abort(new RepriseError('ABORTED', `this process no longer works on ${this.#of.timeline}`))
  }

  get #key(): string {
    return `pipeline ${this.#of.timeline}`
  }

  *#underWay(): Generator<UnderWay> {
    if (!this.#listing) return
    const { source, since } = this.#listing
    yield { timeline: this.#of.timeline, what: `listing the partitions of the source ${source}`, since }
  }

  async #look(): Promise<void> {
    const { kernel } = this.#of.engine
    // A killed process counts until its lease expires, unless it is checked: on this host the check works at once.
    await kernel.deadWorkers.retireGone()
    const partitions = await this.#partitions()
    await this.#announce(partitions.length)
    this.#keyedPartitions ??= await this.#markShared(partitions.length)
    if (await this.#isRepartitioned(partitions.length)) return
    const share = await fairShare(kernel, this.#key, partitions.length)
    await this.#giveUp(share)
    if (partitions.length > 0 && partitions.every((partition) => this.#done.has(partition))) this.ended.set()
    const free = partitions.filter((partition) => this.#isTakeable(partition))
    if (free.length === 0 || this.#running.size >= share) return
    const heads = await kernel.store.head(free.map((partition) => this.#timelineOf(partition)))
    const byId = new Map(heads.flatMap((head) => (head ? [[head.timeline as string, head] as const] : [])))
    for (const partition of free) {
      if (this.#running.size >= share || this.#abort.signal.aborted) return
      const head = byId.get(this.#timelineOf(partition))
      if (head?.status === 'completed' && !this.#goesBack(head)) this.#done.add(partition)
      else if (head && this.#isLeftOwned(head)) await giveBack(kernel, head)
      else if (!isHeld(head)) this.#start(partition, head)
    }
  }

  /** Announces immediately, not with the next heartbeat: other processes must count a process that has no tasks yet. */
  async #announce(parts: number): Promise<void> {
    if (this.#announced === parts) return
    const { worker } = this.#of.engine
    worker.describe(this.#key, parts)
    if (worker.registered) await worker.beatNow()
    else await worker.register()
    this.#announced = parts
  }

  /** Marks the pipeline's own timeline under ownership: no process runs it as a whole meanwhile or later. */
  async #markShared(partitions: number): Promise<number> {
    const { engine, timeline, name } = this.#of
    const attributesNow = async () => (await engine.heads([timelineId(timeline)]))[0]?.attributes ?? {}
    const before = await attributesNow()
    const stored = before[partitionsAttribute]
    if (typeof stored === 'number') return stored
    const isKeyed = this.#graph.sources.some((source) => source.isKeyed)
    if (before[sharedAttribute] !== true || isKeyed) {
      // A process that starts at the same moment marks it too; a process that runs it as a whole holds it longer, and is
      // reported.
      const options = { wait: markWaitMs, signal: this.#abort.signal }
      const taken = await StateTimeline.take(engine.kernel, timelineId(timeline), options)
      try {
        // Another process may have been faster.
        const noted = (await attributesNow())[partitionsAttribute]
        if (typeof noted === 'number') return noted
        if (taken.head.seq > 0) {
          const what = `${timeline} was run by one process, so its state is not divided into partitions: continue with rp.run(), or rename the pipeline ${name} to share it`
          throw new RepriseError('CONFLICT', what, { timeline })
        }
        const attributes = { [sharedAttribute]: true, ...(isKeyed && { [partitionsAttribute]: partitions }) }
        await taken.write({ status: 'shared', attributes })
      } finally {
        await taken.release()
      }
    }
    return isKeyed ? partitions : noKeys
  }

  /**
   * With another number of partitions, producers send keys to other partitions: a task would start a new count for a key that
   * another task has counted. No task runs then; each of them stops with a savepoint.
   */
  async #isRepartitioned(partitions: number): Promise<boolean> {
    const before = this.#keyedPartitions
    if (before === noKeys || before === partitions) {
      this.#isRefused = false
      return false
    }
    for (const run of [...this.#running.values()]) await run.stop().catch(() => undefined)
    if (this.#isRefused) return true
    this.#isRefused = true
    const { timeline } = this.#of
    const what = `${timeline} has keys in ${before} partitions, and its sources now have ${partitions}: records of a key may arrive in a different partition than its state`
    throw new RepriseError('PARTITIONS_CHANGED', what, { timeline, before, now: partitions })
  }

  async #partitions(): Promise<readonly string[]> {
    const { engine, timeline } = this.#of
    const { signal } = this.#abort
    const lists: (readonly string[])[] = []
    for (const { name, source } of this.#graph.sources) {
      this.#listing = { source: name, since: engine.clock.elapsed() }
      try {
        lists.push(await source.partitions!({ engine, pipeline: timeline, name, signal }))
      } finally {
        this.#listing = null
      }
    }
    const [first = [], ...others] = lists.map((list) => [...list].sort())
    if (others.every((other) => other.join('\n') === first.join('\n'))) return first
    const what = `${timeline}: its sources have different partitions, so records of one key may belong to different tasks: use the same number of partitions`
    throw new RepriseError('INVALID_ARGUMENT', what, { partitions: lists })
  }

  /** Stops the newest tasks first: they have the least to lose. */
  async #giveUp(share: number): Promise<void> {
    const above = [...this.#running.values()].slice(share)
    for (const run of above) await run.stop().catch(() => undefined)
  }

  #isTakeable(partition: string): boolean {
    if (this.#running.has(partition) || this.#done.has(partition)) return false
    const pause = this.#paused.get(partition)
    return pause === undefined || this.#of.engine.clock.elapsed() >= pause.until
  }

  /** A run of this process that lost its store could not release its task: no other process can take it meanwhile. */
  #isLeftOwned({ owner, timeline }: Head): boolean {
    const { engine } = this.#of
    return owner !== null && owner === engine.worker.id && !liveRuns(engine).has(timeline)
  }

  #timelineOf(partition: string): TimelineId {
    return timelineId(taskTimeline(this.#of.timeline, partition))
  }

  /** True: the task has not begun from the requested time yet. */
  #goesBack(head: Head | undefined): boolean {
    const from = fromOf(this.#of.options)
    return from !== null && head !== undefined && head.seq > 0 && head.attributes[fromAttribute] !== from
  }

  #start(partition: string, head: Head | undefined): void {
    const { engine, name } = this.#of
    const { from: _, ...rest } = this.#of.options
    // The next checkpoint writes it: until then, a process that takes the task over begins from the same place.
    const options = { ...rest, noted: { [fromAttribute]: fromOf(this.#of.options) } }
    const { from } = this.#of.options
    const begins = from !== undefined && this.#goesBack(head) ? { ...options, from } : options
    const run = new PipelineRun(engine, name, this.#timelineOf(partition), this.#of.draw(), begins, [partition])
    this.#running.set(partition, run)
    void this.#watch(partition, run)
  }

  async #watch(partition: string, run: PipelineRun): Promise<void> {
    const { clock, events } = this.#of.engine
    try {
      if ((await run.result()).status === 'completed') this.#done.add(partition)
      this.#paused.delete(partition)
    } catch (error) {
      const failures = (this.#paused.get(partition)?.failures ?? 0) + 1
      const until = clock.elapsed() + growingPause(failures, firstPauseMs, longestPauseMs)
      this.#paused.set(partition, { failures, until })
      // Another process took it first, or this one closes.
      if (!isReprise(error, 'OWNED', 'FENCED', 'CLOSED')) events.emit('problem', { where: run.timeline, error })
    } finally {
      this.#records += run.status().records
      this.#running.delete(partition)
    }
  }
}

/** The requested time from which a task began, so that each task does it once. */
const fromAttribute = '$from'

function fromOf({ from }: ResolvedPipelineOptions): number | null {
  return from === undefined || typeof from === 'string' ? null : Number(from.time)
}

/** The status of a shared pipeline's tasks, wherever they ran, from their last checkpoints. */
export async function reportOfTasks(engine: Host, timeline: string): Promise<TasksReport> {
  let [tasks, done, records, deadLetters] = [0, 0, 0, 0]
  for await (const { timeline: task, status, attributes } of engine.each({ prefix: timeline })) {
    if (taskPartition(timeline, task) === null) continue
    tasks += 1
    if (status === 'completed') done += 1
    records += Number(attributes.records ?? 0)
    deadLetters += Number(attributes.dead ?? 0)
  }
  return { status: tasks > 0 && done === tasks ? 'completed' : 'stopped', tasks, records, deadLetters }
}

function isHeld(head: Head | undefined): boolean {
  return head !== undefined && head.owner !== null && head.isOwnerAlive
}
