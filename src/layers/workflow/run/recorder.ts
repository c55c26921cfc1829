// Writes a run's entries to its timeline: with their time, with what goes along with the next of them, and with patience
// while the store is full or busy, so that an outcome at hand is not lost over it.

import { isReprise, RepriseError } from '../../../core/errors.ts'
import type { Attribute } from '../../../core/store/ports.ts'
import type { Entry } from '../../../engine/history/history.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { NewEntry, OpenTimeline } from '../../../engine/writing/timeline.ts'
import type { CommitExtras, Written } from '../../../engine/writing/writer.ts'
import type { RunState } from '../history/state.ts'
import { type BatchedRun, type Batcher, batcherOf } from './batcher.ts'
import { leaveScope } from './scope.ts'
import { toldLater, type Work, type Working } from './work.ts'

type Draft = Omit<NewEntry, 'time'>

interface Pending {
  readonly entries: NewEntry[]
  readonly attributes: Readonly<Record<string, Attribute | null>> | null
}

/** On its way: what is written, what of it was waiting before, and what to do if it cannot be stored. */
interface Writing {
  readonly entries: readonly NewEntry[]
  readonly along: CommitExtras | undefined
  readonly before: Pending
  readonly otherwise: ((error: unknown) => Promise<unknown>) | undefined
}

const recorded = Promise.resolve()
const noPending: Pending = { entries: [], attributes: null }

const pauseMs = 500

/** What the recorder needs of its run. */
export interface RecordedRun extends BatchedRun {
  readonly open: Pick<OpenTimeline<RunState>, 'id' | 'state' | 'broken' | 'ask' | 'write'>
  readonly kernel: Pick<Kernel, 'codec' | 'events'>
  readonly work: Pick<Work, 'done' | 'failed'>
  readonly isLeaving: boolean
  now(): number
}

export class Recorder {
  readonly #run: RecordedRun
  readonly #batcher: Batcher | null
  #along = noPending
  #lastStamp = 0

  constructor(run: RecordedRun) {
    this.#run = run
    this.#batcher = batcherOf(run)
  }

  /** Nothing waits to be written along with the next entries: what is refused leaves nothing behind. */
  get isDirect(): boolean {
    return this.#batcher === null && this.#along === noPending
  }

  /** `otherwise` is asked what to do instead if the data cannot be stored. */
  record(
    type: string,
    data: unknown,
    along?: CommitExtras,
    otherwise?: (error: unknown) => Promise<unknown>,
  ): Promise<unknown> {
    try {
      if (this.#batcher && !along && this.#batcher.take(type, data)) return recorded
    } catch (error) {
      return otherwise && isUnstorable(error) ? otherwise(error) : Promise.reject(error)
    }
    return this.write([{ type, data }], along, otherwise)
  }

  /** One entry during work, without a promise if it can be: the work is told when it is durable. */
  recordLater(type: string, data: unknown, otherwise: (error: unknown) => Promise<unknown>): Working {
    const { open, work, isLeaving } = this.#run
    if (this.#batcher || this.#along !== noPending || isLeaving) return this.record(type, data, undefined, otherwise)
    const entries = [{ type, data, time: this.stamp() }]
    const refused = (error: unknown) =>
      this.#refused({ entries, along: undefined, before: noPending, otherwise }, error)
    try {
      open.ask(entries, { resolve: work.done, reject: (error) => void refused(error).then(work.done, work.failed) })
    } catch (error) {
      return refused(error)
    }
    return toldLater
  }

  /** Not an async function: this is the hot path, and each of those costs promises. */
  write(
    entries: readonly Draft[],
    along?: CommitExtras,
    otherwise?: (error: unknown) => Promise<unknown>,
  ): Promise<unknown> {
    if (!this.#batcher && this.#along === noPending) {
      return this.#persist({ entries: this.#stamped(entries), along, before: noPending, otherwise })
    }
    return this.#writeAfter(entries, along, otherwise)
  }

  async #writeAfter(
    entries: readonly Draft[],
    along: CommitExtras | undefined,
    otherwise: Writing['otherwise'],
  ): Promise<unknown> {
    // What cannot be stored is refused before anything that waits is taken along.
    if (this.#batcher) for (const entry of entries) this.#run.kernel.codec.encode(entry.data)
    const before = this.#takeAlong()
    const stamped = [...(this.#batcher?.drain() ?? []), ...before.entries, ...this.#stamped(entries)]
    const { attributes } = before
    const whole = { ...along, ...(attributes && { attributes: { ...attributes, ...along?.attributes } }) }
    return await this.#persist({ entries: stamped, along: whole, before, otherwise })
  }

  /** An entry that is written with the next one: it is of no use without it. */
  alongNext(entry: Draft): void {
    const time = leaveScope(() => this.stamp())
    this.#along = { ...this.#along, entries: [...this.#along.entries, { ...entry, time }] }
  }

  attributesNext(values: Readonly<Record<string, Attribute | null>>): void {
    this.#along = { ...this.#along, attributes: { ...this.#along.attributes, ...values } }
  }

  async flush(): Promise<void> {
    await this.#batcher?.flush()
  }

  /** It was handed to the code before it was durable. */
  wasDelivered(entry: Entry): boolean {
    return this.#batcher?.wasDelivered(entry) ?? false
  }

  /** Time never goes back within a run, whatever the clocks of its owners say. */
  stamp(): number {
    this.#lastStamp = Math.max(this.#run.now(), this.#run.open.state.lastAt, this.#lastStamp)
    return this.#lastStamp
  }

  /** The store's clock showed this time: what is written from now on is not from before. */
  noteTime(now: number): void {
    if (now > this.#lastStamp) this.#lastStamp = now
  }

  #stamped(entries: readonly Draft[]): NewEntry[] {
    return entries.map(({ type, data, version, key }) =>
      version === undefined && key === undefined
        ? { type, data, time: this.stamp() }
        : {
            type,
            data,
            time: this.stamp(),
            ...(version !== undefined && { version }),
            ...(key !== undefined && { key }),
          },
    )
  }

  #persist(writing: Writing): Promise<unknown> {
    const { open, isLeaving } = this.#run
    if (isLeaving) return Promise.reject(new RepriseError('CLOSED', `${open.id} has left this process`))
    return open.write(writing.entries, writing.along).then(sqlResultOf, (error) => this.#refused(writing, error))
  }

  async #refused(writing: Writing, error: unknown): Promise<unknown> {
    const { open, kernel, clock } = this.#run
    if (!isReprise(error) || error.remedy !== 'retry' || open.broken) {
      if (isUnstorable(error) || isReprise(error, 'RIDER_FAILED')) this.#giveBack(writing.before)
      if (writing.otherwise && isUnstorable(error)) return await writing.otherwise(error)
      throw error
    }
    kernel.events.emit('problem', { where: open.id, error })
    await new Promise<void>((resolve) => clock.after(pauseMs, resolve))
    return await this.#persist(writing)
  }

  #takeAlong(): Pending {
    const before = this.#along
    this.#along = noPending
    return before
  }

  #giveBack(before: Pending): void {
    if (before === noPending) return
    this.#along = {
      entries: [...before.entries, ...this.#along.entries],
      attributes: before.attributes ? { ...before.attributes, ...this.#along.attributes } : this.#along.attributes,
    }
  }
}

function sqlResultOf({ sqlResult }: Written): unknown {
  return sqlResult
}

function isUnstorable(error: unknown): boolean {
  return isReprise(error, 'UNSERIALIZABLE', 'LIMIT_EXCEEDED')
}
