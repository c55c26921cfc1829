// A log with positions (a Kafka topic, a JetStream stream, any source of reprise/pipeline) as the source of a job. The position
// is stored in the job's own history, in the commit that makes its items durable, so nothing has to be acknowledged: after a
// crash, reading resumes after the last settled item, and finished items after it are skipped by their keys.

import { type Duration, toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import { checkOptions } from '../../../core/options.ts'
import { checkFunction } from '../../../core/synchronous.ts'
import type { Engine } from '../../../engine/model/definition.ts'
import { realTime, within } from '../../../lib/waiting.ts'
import type { Chunk, PlainSource, ReadContext, Reader } from '../source.ts'
import { idOf, itemOf, itemOrError } from './decoding.ts'
import { messagePrint, type Receipt } from './held-message.ts'

/** One batch of a log, from one partition. */
export interface LogBatch<Message> {
  readonly partition: string
  readonly values: readonly Message[]
  readonly position: unknown
}

export interface LogReader<Message> {
  read(max: number): LogBatch<Message> | null | Promise<LogBatch<Message> | null>
  published?(positions: ReadonlyMap<string, unknown>): Promise<void>
  close(): Promise<void>
}

/** The part of a pipeline's source that a job uses: every source of reprise/pipeline has it. */
export interface Log<Message> {
  readonly kind?: string
  open(
    from: ReadonlyMap<string, unknown> | null,
    context: {
      readonly engine: Engine
      readonly pipeline: string
      readonly name: string
      readonly signal: AbortSignal
      readonly partitions: readonly string[] | null
    },
  ): Promise<LogReader<Message>>
}

export interface LogReading<Message, T = Message> {
  /** Turns a message into an item. A message on which it throws becomes a dead letter. Default: the message itself. */
  readonly decode?: (message: Message) => T
  /** End the round once the log has had no message for this long. Default: the job runs until it is stopped. */
  readonly untilEmptyFor?: Duration
  /** The message's own key, for jobs without `key`. */
  readonly id?: (message: Message) => string
}

interface LogSettings<Message, T> {
  readonly decode: ((message: Message) => T) | null
  readonly untilEmptyMs: number | null
  readonly id: ((message: Message) => string) | null
}

const readingNames = new Set(['decode', 'untilEmptyFor', 'id'])

/** @example job('orders', { source: logSource(kafkaSource({ brokers, topic }), { decode: json<Order>() }), each: ship }) */
export function logSource<Message, T = Message>(
  log: Log<Message>,
  reading: LogReading<Message, T> = {},
): PlainSource<T> {
  checkOptions('logSource', reading, readingNames)
  const { decode, untilEmptyFor, id } = reading
  if (typeof log?.open !== 'function') {
    throw new RepriseError('INVALID_ARGUMENT', 'logSource() needs a source of a pipeline, such as kafkaSource()')
  }
  if (decode !== undefined) checkFunction(decode, 'decode')
  if (id !== undefined) checkFunction(id, 'id')
  const settings: LogSettings<Message, T> = {
    decode: decode ?? null,
    untilEmptyMs: untilEmptyFor === undefined ? null : toMs(untilEmptyFor, 'untilEmptyFor'),
    id: id ?? null,
  }
  return {
    kind: 'queue',
    takesInput: false,
    goesOn: true,
    async open(position, context) {
      const from = position === undefined ? null : positionsOf(position)
      const { engine, signal, timeline } = context
      const reader = await log.open(from, { engine, signal, pipeline: timeline, name: 'source', partitions: null })
      return new LogItems(reader, settings, from ?? new Map(), context)
    },
    readAgain: (stored) => itemOf(settings.decode, stored as Message),
  }
}

class LogItems<Message, T> implements Reader<T> {
  readonly #reader: LogReader<Message>
  readonly #settings: LogSettings<Message, T>
  readonly #max: number
  readonly #positions: Map<string, unknown>

  constructor(
    reader: LogReader<Message>,
    settings: LogSettings<Message, T>,
    from: ReadonlyMap<string, unknown>,
    { slots = 1 }: ReadContext,
  ) {
    this.#reader = reader
    this.#settings = settings
    this.#positions = new Map(from)
    this.#max = Math.max(16, 2 * slots)
  }

  async next(): Promise<Chunk<T> | null> {
    const { untilEmptyMs } = this.#settings
    const reading = Promise.resolve(this.#reader.read(this.#max))
    const batch = untilEmptyMs === null ? await reading : await within(realTime, untilEmptyMs, reading)
    if (batch === null) return null
    if (batch !== 'late') return this.#chunkOf(batch)
    // The read that is still waiting ends with the reader.
    reading.catch(() => undefined)
    return null
  }

  /** For tools that monitor the lag of a consumer group. */
  reached(position: unknown): void {
    void this.#reader.published?.(positionsOf(position)).catch(() => undefined)
  }

  async close(): Promise<void> {
    await this.#reader.close()
  }

  /** A log waits for nothing: the position covers its messages. */
  #receiptOf(stored: Message, id: string | null): Receipt {
    const key = id ?? messagePrint(stored)
    return { isRedelivered: false, stored, id, key, taken: nothing, join: nothing, settled: nothing, released: nothing }
  }

  #chunkOf({ partition, values, position }: LogBatch<Message>): Chunk<T> {
    const { decode, id } = this.#settings
    const items: T[] = []
    const ids: (string | null)[] = []
    const unread = new Map<number, unknown>()
    for (const [i, message] of values.entries()) {
      const read = itemOrError(decode, message)
      items.push(read.item)
      if ('error' in read) unread.set(i, read.error)
      ids.push(idOf(id, message))
    }
    this.#positions.set(partition, position)
    return {
      items,
      receipts: values.map((message, i) => this.#receiptOf(message, ids[i]!)),
      ...(unread.size > 0 && { unread }),
      after: { position: Object.fromEntries(this.#positions) },
    }
  }
}

const nothing = () => undefined

function positionsOf(position: unknown): ReadonlyMap<string, unknown> {
  if (typeof position === 'object' && position !== null && !Array.isArray(position))
    return new Map(Object.entries(position))
  const what = 'the position of this source must hold one position per partition: another source used its name before'
  throw new RepriseError('INVALID_ARGUMENT', what, { position })
}
