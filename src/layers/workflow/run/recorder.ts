// Writes a run's entries to its timeline, with their time and with the entries that wait for the next commit, and
// retries while the store is full or busy, so that a known outcome is not lost.

import { isReprise, RepriseError } from '../../../core/errors.ts'
import type { Attribute } from '../../../core/store/ports.ts'
import type { Entry } from '../../../engine/history/history.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { NewEntry } from '../../../engine/writing/timeline.ts'
import type { CommitExtras, OutcomeReceiver, Written } from '../../../engine/writing/writer.ts'
import { sleep } from '../../../lib/waiting.ts'
import { type BatchedRun, type Batcher, batcherOf } from './batcher.ts'
import type { CommandRun } from './command-host.ts'
import type { RunTimeline } from './run-timeline.ts'
import { leaveScope } from './scope.ts'
import { reportedLater, type Work, type Working } from './work-count.ts'

type Draft = Omit<NewEntry, 'time'>

interface Pending {
  readonly entries: NewEntry[]
  readonly attributes: Readonly<Record<string, Attribute | null>> | null
}

/** A write in progress: its entries, those of them that had been waiting, and the fallback if it cannot be stored. */
interface Writing {
  readonly entries: readonly NewEntry[]
  readonly extras: CommitExtras | undefined
  readonly before: Pending
  readonly otherwise: ((error: unknown) => Promise<unknown>) | undefined
}

const recorded = Promise.resolve()
const noPending: Pending = { entries: [], attributes: null }

const pauseMs = 500
/** The number of entries between checkpoints at loop boundaries, unless the workflow sets a policy. */
const loopCheckpointEvery = 1000

/** The parts of a run that the recorder uses. */
export interface RecordedRun extends BatchedRun, Pick<CommandRun, 'tenure' | 'now'> {
  readonly open: Pick<RunTimeline, 'id' | 'state' | 'seq' | 'broken' | 'recovery' | 'ask' | 'write' | 'checkpoint'>
  readonly definition: BatchedRun['definition'] & { readonly options: { readonly checkpoint?: object } }
  readonly kernel: Pick<Kernel, 'clock' | 'codec' | 'events'>
  readonly residency: { readonly work: Pick<Work, 'done' | 'failed'> }
  /** A dry replay: nothing is started or written. */
  readonly isDry: boolean
}

export class Recorder {
  readonly #run: RecordedRun
  readonly #batcher: Batcher | null
  #extras = noPending
  #lastStamp = 0
  #lastCheckpointSeq: number

  constructor(run: RecordedRun) {
    this.#run = run
    this.#lastCheckpointSeq = run.open.recovery.checkpoint?.seq ?? 0
    this.#batcher = batcherOf(run)
  }

  /** No entries wait for the next commit, so a refused write leaves nothing behind. */
  get isDirect(): boolean {
    return this.#batcher === null && this.#extras === noPending
  }

  /** Writes one entry and resolves once it is durable. The timeline then delivers it to the code (code.ts). */
  record(type: string, data: unknown, extras?: CommitExtras): Promise<void> {
    return this.#record(type, data, extras) as Promise<void>
  }

  /** `otherwise` is called if the data cannot be stored. */
  #record(
    type: string,
    data: unknown,
    extras?: CommitExtras,
    otherwise?: (error: unknown) => Promise<unknown>,
  ): Promise<unknown> {
    try {
      if (this.#batcher && !extras && this.#batcher.take(type, data)) return recorded
    } catch (error) {
      return otherwise && isUnstorable(error) ? otherwise(error) : Promise.reject(error)
    }
    return this.write([{ type, data }], extras, otherwise)
  }

  /**
   * Writes one entry as part of a piece of work, without a promise if possible: the work is notified once the entry is
   * durable.
   */
  recordLater(type: string, data: unknown, otherwise: (error: unknown) => Promise<unknown>): Working {
    const { open, residency, tenure } = this.#run
    if (this.#batcher || this.#extras !== noPending || tenure.isLeaving)
      return this.#record(type, data, undefined, otherwise)
    const entries = [{ type, data, time: this.stamp() }]
    const outcome = new RecordedOutcome(this, residency.work, entries, otherwise)
    try {
      open.ask(entries, outcome)
    } catch (error) {
      return outcome.refused(error)
    }
    return reportedLater
  }

  /** @internal Tries again, or calls `otherwise`. */
  refused(
    entries: readonly NewEntry[],
    otherwise: (error: unknown) => Promise<unknown>,
    error: unknown,
  ): Promise<unknown> {
    return this.#refused({ entries, extras: undefined, before: noPending, otherwise }, error)
  }

  /** Not async: this is the hot path, and each async function allocates promises. */
  write(
    entries: readonly Draft[],
    extras?: CommitExtras,
    otherwise?: (error: unknown) => Promise<unknown>,
  ): Promise<unknown> {
    if (!this.#batcher && this.#extras === noPending) {
      return this.#persist({ entries: this.#stamped(entries), extras, before: noPending, otherwise })
    }
    return this.#writeAfter(entries, extras, otherwise)
  }

  async #writeAfter(
    entries: readonly Draft[],
    extras: CommitExtras | undefined,
    otherwise: Writing['otherwise'],
  ): Promise<unknown> {
    // Data that cannot be stored is refused before any waiting entries are taken along.
    if (this.#batcher) for (const entry of entries) this.#run.kernel.codec.encode(entry.data)
    const before = this.#takePending()
    const stamped = [...(this.#batcher?.drain() ?? []), ...before.entries, ...this.#stamped(entries)]
    const { attributes } = before
    const whole = { ...extras, ...(attributes && { attributes: { ...attributes, ...extras?.attributes } }) }
    return await this.#persist({ entries: stamped, extras: whole, before, otherwise })
  }

  /** Adds an entry to the next commit: it is useless without the next entry. */
  alongNext(entry: Draft): void {
    const time = leaveScope(() => this.stamp())
    this.#extras = { ...this.#extras, entries: [...this.#extras.entries, { ...entry, time }] }
  }

  attributesNext(values: Readonly<Record<string, Attribute | null>>): void {
    this.#extras = { ...this.#extras, attributes: { ...this.#extras.attributes, ...values } }
  }

  async flush(): Promise<void> {
    await this.#batcher?.flush()
  }

  /** True if the entry was delivered to the code before it was durable. */
  wasDelivered(entry: Entry): boolean {
    return this.#batcher?.wasDelivered(entry) ?? false
  }

  /** Time never goes back within a run, whatever the clocks of its owners show. */
  stamp(): number {
    this.#lastStamp = Math.max(this.#run.now(), this.#run.open.state.lastAt, this.#lastStamp)
    return this.#lastStamp
  }

  /** The store's clock showed this time: later entries must not have an earlier one. */
  noteTime(now: number): void {
    if (now > this.#lastStamp) this.#lastStamp = now
  }

  /** Called at loop boundaries. */
  checkpointIfDue(): void {
    const { definition, open } = this.#run
    if (definition.options.checkpoint) return
    if (open.seq - this.#lastCheckpointSeq >= loopCheckpointEvery) this.checkpoint('loop')
  }

  checkpoint(trigger: string): void {
    const { open, kernel, tenure, isDry } = this.#run
    if (isDry || tenure.isLeaving) return
    this.#lastCheckpointSeq = open.seq
    leaveScope(() => open.checkpoint({ trigger })).catch((error) => {
      if (!tenure.isLeaving) kernel.events.emit('problem', { where: open.id, error })
    })
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
    const { open, tenure } = this.#run
    if (tenure.isLeaving) return Promise.reject(new RepriseError('CLOSED', `${open.id} was released by this process`))
    return open.write(writing.entries, writing.extras).then(sqlResultOf, (error) => this.#refused(writing, error))
  }

  async #refused(writing: Writing, error: unknown): Promise<unknown> {
    const { open, kernel } = this.#run
    if (!isReprise(error) || error.remedy !== 'retry' || open.broken) {
      if (isUnstorable(error) || isReprise(error, 'RIDER_FAILED')) this.#giveBack(writing.before)
      if (writing.otherwise && isUnstorable(error)) return await writing.otherwise(error)
      throw error
    }
    kernel.events.emit('problem', { where: open.id, error })
    await sleep(kernel.clock, pauseMs, { isAwaited: false })
    return await this.#persist(writing)
  }

  #takePending(): Pending {
    const before = this.#extras
    this.#extras = noPending
    return before
  }

  #giveBack(before: Pending): void {
    if (before === noPending) return
    this.#extras = {
      entries: [...before.entries, ...this.#extras.entries],
      attributes: before.attributes ? { ...before.attributes, ...this.#extras.attributes } : this.#extras.attributes,
    }
  }
}

/** Receives the outcome of an entry that belongs to a piece of work. Every step has one: no promise and no closure. */
class RecordedOutcome implements OutcomeReceiver {
  readonly #recorder: Recorder
  readonly #work: Pick<Work, 'done' | 'failed'>
  readonly #entries: readonly NewEntry[]
  readonly #otherwise: (error: unknown) => Promise<unknown>

  constructor(
    recorder: Recorder,
    work: Pick<Work, 'done' | 'failed'>,
    entries: readonly NewEntry[],
    otherwise: (error: unknown) => Promise<unknown>,
  ) {
    this.#recorder = recorder
    this.#work = work
    this.#entries = entries
    this.#otherwise = otherwise
  }

  resolve(): void {
    this.#work.done()
  }

  reject(error: unknown): void {
    void this.refused(error).then(this.#work.done, this.#work.failed)
  }

  refused(error: unknown): Promise<unknown> {
    return this.#recorder.refused(this.#entries, this.#otherwise, error)
  }
}

function sqlResultOf({ sqlResult }: Written): unknown {
  return sqlResult
}

function isUnstorable(error: unknown): boolean {
  return isReprise(error, 'UNSERIALIZABLE', 'LIMIT_EXCEEDED')
}
