// A source as the flow reads it: one read at a time, records decoded and with times, and one watermark merged from those of its
// partitions. Its positions are after records that were passed on, never after records that were only read.

import { assert } from '../../../core/assert.ts'
import { type Batch, type Output, slice } from '../batch.ts'
import type { SourceNode } from '../graph.ts'
import type { OperatorContext, TimedOperator } from '../operator.ts'
import { lastWatermark, PartitionWatermark, WatermarkMerge } from '../rules/watermarks.ts'
import { passedOver, type SourceBatch, type SourceReader } from '../source.ts'

/** The result of a read: a batch, null at the end, undefined if nothing is ready. */
type Read = SourceBatch<unknown> | null | undefined

/** The outputs and operators after a source. */
export interface Behind {
  readonly next: Output
  /** The output for records that are sent back, which are not counted again. */
  readonly again: Output
  /** The operators whose results depend on the position of watermarks between records. */
  readonly timed: readonly Pick<TimedOperator, 'dueAbove'>[]
}

export class RunningSource {
  readonly name: string
  readonly #node: SourceNode
  readonly #reader: SourceReader<unknown>
  readonly #next: Output
  readonly #again: Output
  readonly #timed: readonly Pick<TimedOperator, 'dueAbove'>[]
  readonly #context: OperatorContext
  readonly #positions: Map<string, unknown>
  readonly #partitions = new Map<string, PartitionWatermark>()
  readonly #merge = new WatermarkMerge<string>()
  #given = Number.NEGATIVE_INFINITY
  #highest = Number.NEGATIVE_INFINITY
  #isIdle = false
  #isReading = false
  #ready: Read
  #isEnded = false
  records = 0
  /** The number of skipped records in the current batch: they are not meant for pipelines. */
  #passed = 0
  /** True: a position that the outside system waits for was passed since the last barrier. */
  isDue = false

  constructor(
    node: SourceNode,
    reader: SourceReader<unknown>,
    { next, again, timed }: Behind,
    context: OperatorContext,
    from: ReadonlyMap<string, unknown> | null,
  ) {
    this.name = node.name
    this.#node = node
    this.#reader = reader
    this.#next = next
    this.#again = again
    this.#timed = timed
    this.#context = context
    this.#positions = new Map(from)
    this.#findPartitions()
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  get positions(): ReadonlyMap<string, unknown> {
    return this.#positions
  }

  get watermark(): number {
    return this.#merge.current
  }

  /** The age of the newest record, by the clock; null: records have no times, or none has arrived. */
  lagMs(now: number): number | null {
    return Number.isFinite(this.#highest) ? Math.max(0, now - this.#highest) : null
  }

  /** The partitions that windows wait for. */
  get slowest(): readonly string[] {
    return this.#merge.slowest()
  }

  get reader(): SourceReader<unknown> {
    return this.#reader
  }

  /**
   * Reads and passes on one batch if it is ready. Returns the number of records; -1: nothing is ready, and the source wakes the
   * flow.
   */
  step(max: number): number {
    if (this.#isEnded || this.#isReading) return -1
    let read = this.#ready
    this.#ready = undefined
    if (read === undefined) {
      const reading = this.#reader.read(max)
      if (reading instanceof Promise) {
        this.#await(reading)
        return -1
      }
      read = reading
    }
    if (read !== null) return this.#hand(read)
    this.end()
    return 0
  }

  /** Decodes a failed record again. Positions and watermarks stay: they are already past it. */
  again(value: unknown): void {
    const batch = this.#batchOf([value], undefined)
    if (batch.values.length > 0) this.#again.batch(batch)
  }

  /** No record follows: every window is final. */
  end(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#next.watermark(lastWatermark)
  }

  /** Partitions that are silent for too long become idle. */
  tick(now: number): void {
    if (this.#isEnded || this.#node.idleMs === null || this.#node.time === null) return
    for (const [partition, watermark] of this.#partitions) {
      if (watermark.isIdleAt(now)) this.#advance(this.#merge.idle(partition))
    }
    if (this.#merge.isIdle && !this.#isIdle) {
      this.#isIdle = true
      this.#next.idle()
    }
  }

  #await(reading: Promise<SourceBatch<unknown> | null>): void {
    this.#isReading = true
    reading.then(
      (read) => {
        this.#isReading = false
        this.#ready = read
        this.#context.wake()
      },
      (error) => this.#context.fail(error),
    )
  }

  #hand(read: SourceBatch<unknown>): number {
    assert(!this.#isEnded, 'no record follows the last watermark')
    this.#findPartitions()
    const { partition, values, position, isDue, names } = read
    if (isDue) this.isDue = true
    const count = values.length
    // Set in the same turn in which the records are passed on: a barrier falls before both or after both.
    this.#positions.set(partition, position)
    if (count === 0) return 0
    this.#passed = 0
    const batch = this.#batchOf(values, names)
    this.records += count - this.#passed
    const { times } = batch
    if (batch.values.length === 0) return count
    const rest = times && this.#timed.length > 0 ? this.#handInCuts(partition, batch, times) : batch
    if (rest.values.length > 0) this.#next.batch(rest)
    if (times) this.#observe(partition, highestOf(times))
    return count
  }

  /**
   * Passes records on with watermarks between them where the position matters: as soon as a watermark reaches a time that an
   * operator waits for, and on both sides of a late record. Results are then those of one record at a time. Returns the
   * remaining records.
   */
  #handInCuts(partition: string, batch: Batch, times: readonly number[]): Batch {
    const own = this.#partitions.get(partition)!
    const others = this.#merge.lowestBeside(partition)
    let [from, highest] = [0, Number.NEGATIVE_INFINITY]
    let due = this.#dueAbove()
    /** The watermark if it were sent after every record. */
    let reached = this.#given
    const cut = (to: number) => {
      if (to > from) this.#next.batch(slice(batch, from, to))
      from = to
      if (reached > this.#given) this.#observe(partition, highest)
    }
    for (let i = 0; i < times.length; i++) {
      const time = times[i]!
      const isLate = time < reached
      if (isLate) {
        cut(i)
        cut(i + 1)
      } else if (time > highest) {
        highest = time
        reached = Math.max(reached, Math.min(others, own.after(highest)))
        if (reached >= due && reached > this.#given) cut(i + 1)
        else continue
      } else continue
      due = this.#dueAbove()
    }
    return slice(batch, from, times.length)
  }

  #dueAbove(): number {
    let lowest = Number.POSITIVE_INFINITY
    for (const operator of this.#timed) lowest = Math.min(lowest, operator.dueAbove(this.#given))
    return lowest
  }

  #batchOf(values: readonly unknown[], names: readonly string[] | undefined): Batch {
    const { decode, time } = this.#node
    if (decode === null && time === null) return { values, times: null, keys: null, names }
    if (decode === null) {
      const times = timesOf(values, time!)
      // The usual case: the array of values is reused.
      if (times) return { values, times, keys: null, names }
    }
    const kept: unknown[] = []
    const keptNames: string[] = []
    const times: number[] = []
    for (let i = 0; i < values.length; i++) {
      const given = values[i]
      try {
        const value = decode === null ? given : decode(given as never)
        if (value === passedOver) {
          this.#passed += 1
          continue
        }
        if (time !== null) times.push(checkTime(time(value as never)))
        kept.push(value)
        if (names) keptNames.push(names[i]!)
      } catch (error) {
        this.#context.poison({ value: given, time: null, key: null }, error)
      }
    }
    return { values: kept, times: time === null ? null : times, keys: null, names: names && keptNames }
  }

  #observe(partition: string, highest: number): void {
    if (highest > this.#highest) this.#highest = highest
    const watermark = this.#partitions.get(partition)!.observe(highest, this.#context.clock.now())
    this.#isIdle = false
    this.#advance(this.#merge.advance(partition, watermark))
  }

  #advance(watermark: number): void {
    if (watermark <= this.#given) return
    this.#given = watermark
    this.#next.watermark(watermark)
  }

  /** New partitions may appear during the run. */
  #findPartitions(): void {
    const partitions = this.#reader.partitions()
    if (partitions.length === this.#partitions.size) return
    const { outOfOrderMs, idleMs } = this.#node
    for (const partition of partitions) {
      if (this.#partitions.has(partition)) continue
      this.#partitions.set(partition, new PartitionWatermark({ outOfOrderMs, idleMs }, this.#context.clock.now()))
      this.#merge.add(partition)
    }
  }
}

function highestOf(times: readonly number[]): number {
  let highest = Number.NEGATIVE_INFINITY
  for (let i = 0; i < times.length; i++) if (times[i]! > highest) highest = times[i]!
  return highest
}

/** Null: the time of a record could not be determined. */
function timesOf(values: readonly unknown[], time: (value: never) => number): number[] | null {
  const times = new Array<number>(values.length)
  try {
    for (let i = 0; i < values.length; i++) times[i] = checkTime(time(values[i] as never))
  } catch {
    return null
  }
  return times
}

function checkTime(time: unknown): number {
  if (typeof time === 'number' && Number.isFinite(time)) return time
  throw new TypeError(`the time of a record must be a number of milliseconds (got ${String(time).slice(0, 40)})`)
}
