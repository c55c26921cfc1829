// The pen of a run: entries with their time, what goes along with the next of them, and patience with a store that is full
// or busy, so that an outcome at hand is not lost over it.

import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Attribute } from '../../core/ports.ts'
import type { Entry } from '../../engine/history.ts'
import type { NewEntry } from '../../engine/timeline.ts'
import type { Along } from '../../engine/writer.ts'
import { type Batcher, batcherOf } from './batcher.ts'
import type { Instance } from './instance.ts'
import { leaveScope } from './scope.ts'

type Draft = Omit<NewEntry, 'time'>

interface Pending {
  readonly entries: NewEntry[]
  readonly attributes: Readonly<Record<string, Attribute | null>> | null
}

const nothing: Along = {}
const noPending: Pending = { entries: [], attributes: null }

const pauseMs = 500

export class Recorder {
  readonly #run: Instance
  readonly #batcher: Batcher | null
  #along = noPending
  #lastStamp = 0

  constructor(run: Instance) {
    this.#run = run
    this.#batcher = batcherOf(run)
  }

  async record(type: string, data: unknown, along?: Along): Promise<void> {
    if (this.#batcher && !along && this.#batcher.take(type, data)) return
    await this.write([{ type, data }], along)
  }

  async write(entries: readonly Draft[], along: Along = nothing): Promise<unknown> {
    if (!this.#batcher && this.#along === noPending) {
      return await this.#persist(this.#stamped(entries), along, noPending)
    }
    // What cannot be stored is refused before anything that waits is taken along.
    if (this.#batcher) for (const entry of entries) this.#run.kernel.codec.encode(entry.data)
    const before = this.#takeAlong()
    const stamped = [...(this.#batcher?.drain() ?? []), ...before.entries, ...this.#stamped(entries)]
    const { attributes } = before
    return await this.#persist(
      stamped,
      { ...along, ...(attributes && { attributes: { ...attributes, ...along.attributes } }) },
      before,
    )
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
    this.#lastStamp = Math.max(this.#run.now(), this.#run.state.lastAt, this.#lastStamp)
    return this.#lastStamp
  }

  #stamped(entries: readonly Draft[]): NewEntry[] {
    return entries.map(({ type, data, version, key }) => ({
      type,
      data,
      time: this.stamp(),
      ...(version !== undefined && { version }),
      ...(key !== undefined && { key }),
    }))
  }

  async #persist(entries: readonly NewEntry[], along: Along, before: Pending): Promise<unknown> {
    const { open, kernel } = this.#run
    for (;;) {
      if (this.#run.isLeaving) throw new RepriseError('CLOSED', `${open.id} has left this process`)
      try {
        return (await open.write(entries, along)).ridden
      } catch (error) {
        if (!isReprise(error) || error.remedy !== 'retry' || open.broken) {
          if (isReprise(error, 'UNSERIALIZABLE', 'LIMIT_EXCEEDED', 'RIDER_FAILED')) this.#giveBack(before)
          throw error
        }
        kernel.events.emit('problem', { where: open.id, error })
        await new Promise<void>((resolve) => kernel.clock.after(pauseMs, resolve))
      }
    }
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
