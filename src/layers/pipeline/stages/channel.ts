// A channel carries records, watermarks and barriers from one task to another, in order. Between threads, records travel in
// frames of bytes, in columns; within a thread, they are passed on as they are. The sender may have a bounded number of frames
// in progress and stops reading its own inputs at the bound; barriers are never held back.

import { assert } from '../../../core/assert.ts'
import type { Codec } from '../../../core/codec/codec.ts'
import { RepriseError } from '../../../core/errors.ts'
import type { Clock } from '../../../core/store/ports.ts'
import type { Batch, Output } from '../batch.ts'
import type { OperatorNode, SinkNode } from '../graph.ts'
import type { PoisonRecord } from '../operator.ts'
import type { Address, Placement } from '../run/wiring.ts'
import { ColumnPacker, type ColumnReader, type PackedColumn } from './columns.ts'
import type { StagePlan } from './plan.ts'
import { Stopwatch } from './stopwatch.ts'

/** The number of frames of a channel that its receiver has not processed. */
const framesMax = 8
const recordsPerFrame = 1024
/** Watermarks between records may be more than the records. */
const entriesPerFrame = 2048

/** The barrier of a checkpoint, with what a task must know to capture its state. */
export interface Barrier {
  readonly checkpoint: number
  /** The cells that the base of the checkpoint has, by table; a table without an entry is captured in full. */
  readonly stored: Readonly<Record<string, number>>
}

type Place = readonly [node: number, input: number, instance: number, channel: number, channels: number]

/** Plain data: the parts of a frame. */
export type Entry =
  | readonly ['batch', Place, values: Batch['values'], times: Batch['times'], keys: Batch['keys']]
  | readonly ['watermark', Place, time: number]
  | readonly ['idle', Place]
  /** A record that an operator could not process. */
  | readonly ['letter', operator: string, record: PoisonRecord, error: string, at: number]
  /** A record that is sent back to the operator that could not process it. */
  | readonly ['again', Place, record: PoisonRecord]

export type ChannelMessage = { readonly from: number; readonly to: number } & (
  | { readonly entries: readonly Entry[] }
  | { readonly frame: Uint8Array }
  | { readonly barrier: Barrier }
  /** The receiver has processed a frame. */
  | { readonly credit: true }
)

export interface OutputsOf {
  readonly plan: StagePlan
  readonly task: number
  /** Operators and sinks, numbered as in every thread. */
  readonly nodes: ReadonlyMap<OperatorNode | SinkNode, number>
  readonly codec: Pick<Codec, 'encode'>
  readonly clock: Pick<Clock, 'elapsed'>
  send(message: ChannelMessage): void
}

/** The outgoing channels of a task. */
export class TaskOutputs implements Placement {
  readonly #of: OutputsOf
  readonly #channels = new Map<number, Outgoing>()
  #onCredit: () => void = () => undefined
  readonly #blocked: Stopwatch

  constructor(of: OutputsOf) {
    this.#of = of
    const { plan, task } = of
    this.#blocked = new Stopwatch(of.clock)
    for (const to of plan.tasks[task]!.to) {
      const isLocal = plan.tasks[to]!.thread === plan.tasks[task]!.thread
      this.#channels.set(to, new Outgoing(of, to, isLocal, () => this.#blocked.begin()))
    }
  }

  get isFull(): boolean {
    for (const channel of this.#channels.values()) if (channel.isFull) return true
    return false
  }

  /** The time in which a task behind it had too many frames. */
  get blockedMs(): number {
    return this.#blocked.ms
  }

  /** True: dead letters are kept in this task. */
  get keepsLetters(): boolean {
    return this.#of.task === this.#of.plan.last
  }

  /** A task that has not processed its frames; undefined: no channel is full. */
  get fullTask(): number | undefined {
    for (const [to, channel] of this.#channels) if (channel.isFull) return to
    return undefined
  }

  has(node: OperatorNode | SinkNode, instance: number): boolean {
    return this.#of.plan.taskOf(node, instance) === this.#of.task
  }

  outputTo(address: Address): Output {
    const channel = this.#channelTo(this.#of.plan.taskOf(address.to, address.instance))
    const place = this.#placeOf(address)
    return {
      batch: (batch) => channel.batch(place, batch),
      watermark: (time) => channel.add(['watermark', place, time], 0),
      idle: () => channel.add(['idle', place], 0),
    }
  }

  letter(operator: string, record: PoisonRecord, error: string, at: number): void {
    const { value, time, key, input } = record
    const kept = { value, time, key, ...(input !== undefined && { input }) }
    this.#channelTo(this.#of.plan.last).add(['letter', operator, kept, error, at], 1)
  }

  /** Sends a record back to an instance in another task. */
  again(to: OperatorNode, instance: number, input: number, { value, time, key }: PoisonRecord): void {
    const place = this.#placeOf({ to, input, instance, channel: 0, channels: 1 })
    this.#channelTo(this.#of.plan.taskOf(to, instance)).add(['again', place, { value, time, key }], 1)
  }

  flush(): void {
    for (const channel of this.#channels.values()) channel.flush()
  }

  /** Everything sent before belongs to the checkpoint. */
  barrier(barrier: Barrier): void {
    this.flush()
    const { task: from } = this.#of
    for (const to of this.#channels.keys()) this.#of.send({ from, to, barrier })
  }

  credit(to: number): void {
    this.#channelTo(to).credit()
    if (this.isFull) return
    this.#blocked.end()
    this.#onCredit()
  }

  /** Calls back once no channel is full any longer. */
  whenFree(call: () => void): void {
    this.#onCredit = () => {
      this.#onCredit = () => undefined
      call()
    }
  }

  #channelTo(task: number): Outgoing {
    const channel = this.#channels.get(task)
    assert(channel !== undefined, 'a task sends records to the tasks that its plan names')
    return channel
  }

  #placeOf({ to, input, instance, channel, channels }: Address): Place {
    return [this.#of.nodes.get(to)!, input, instance, channel, channels]
  }
}

class Outgoing {
  readonly #of: OutputsOf
  readonly #to: number
  readonly #isLocal: boolean
  readonly #onFull: () => void
  readonly #packer = new ColumnPacker()
  #entries: Entry[] = []
  #records = 0
  #underWay = 0

  constructor(of: OutputsOf, to: number, isLocal: boolean, onFull: () => void) {
    this.#of = of
    this.#onFull = onFull
    this.#to = to
    this.#isLocal = isLocal
  }

  get isFull(): boolean {
    return this.#underWay >= framesMax
  }

  batch(place: Place, { values, times, keys }: Batch): void {
    for (let from = 0; from < values.length; from += recordsPerFrame) {
      // A copy: the sender may use its arrays again.
      const cut = <T>(items: readonly T[] | null) => (items === null ? null : items.slice(from, from + recordsPerFrame))
      const part = cut(values)!
      this.add(['batch', place, part, cut(times), cut(keys)], part.length)
    }
  }

  add(entry: Entry, records: number): void {
    this.#entries.push(entry)
    this.#records += records
    if (this.#records >= recordsPerFrame || this.#entries.length >= entriesPerFrame) this.flush()
  }

  flush(): void {
    if (this.#entries.length === 0) return
    const entries = this.#entries
    this.#entries = []
    this.#records = 0
    this.#send(entries)
  }

  credit(): void {
    assert(this.#underWay > 0, 'a processed frame was in transit')
    this.#underWay -= 1
  }

  #count(): void {
    this.#underWay += 1
    if (this.isFull) this.#onFull()
  }

  #send(entries: readonly Entry[]): void {
    const { task: from, send, codec, plan } = this.#of
    const to = this.#to
    if (this.#isLocal) {
      this.#count()
      send({ from, to, entries })
      return
    }
    let bytes: Uint8Array
    try {
      bytes = codec.encode(entries.map((entry) => packed(entry, this.#packer)))
    } catch (error) {
      if (entries.length > 1 || isLong(entries[0]!)) {
        for (const half of halvesOf(entries)) this.#send(half)
        return
      }
      const what = `a record cannot be sent to ${plan.tasks[to]!.name}: use plain data in records, or omit threads`
      throw new RepriseError('INVALID_ARGUMENT', what, {}, error)
    }
    this.#count()
    // The buffer may be shared, and a shared one cannot be transferred.
    send({ from, to, frame: bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice() })
  }
}

/** The entry as it is encoded. */
function packed(entry: Entry, packer: ColumnPacker): unknown {
  if (entry[0] !== 'batch') return entry
  const [kind, place, ...columns] = entry
  return [kind, place, ...columns.map((each) => each && packer.pack(each))]
}

function isLong(entry: Entry): boolean {
  return entry[0] === 'batch' && entry[2].length > 1
}

/** Two halves of a frame that is too large as a whole. */
function halvesOf(entries: readonly Entry[]): readonly (readonly Entry[])[] {
  const middle = entries.length >> 1
  if (entries.length > 1) return [entries.slice(0, middle), entries.slice(middle)]
  const [kind, place, ...columns] = entries[0] as readonly unknown[] as [
    'batch',
    Place,
    ...(readonly unknown[] | null)[],
  ]
  const half = columns[0]!.length >> 1
  const cut = (from: number, to?: number) => columns.map((each) => (each === null ? null : each.slice(from, to)))
  return [[[kind, place, ...cut(0, half)] as unknown as Entry], [[kind, place, ...cut(half)] as unknown as Entry]]
}

/** The entries of a frame. */
export function entriesIn(frame: unknown, reader: ColumnReader): readonly Entry[] {
  return (frame as readonly Entry[]).map((entry) => {
    if (entry[0] !== 'batch') return entry
    const [kind, place, ...columns] = entry
    return [kind, place, ...columns.map((each) => each && reader.list(each as PackedColumn))] as unknown as Entry
  })
}
