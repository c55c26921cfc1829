// A JetStream stream as a source. A position is the sequence, in the stream, of the last message that was passed on: nothing
// is acknowledged, and no consumer is left on the server. JetStream has no partitions; subjects that are declared as
// partitions are read side by side, each with its own position.

import { type Consumer, type ConsumerMessages, DeliverPolicy, type JsMsg } from '@nats-io/jetstream'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, checkValues } from '../../core/options.ts'
import { awayMsOf, brokerAway } from '../../core/retry/broker-away.ts'
import type { Positions, Source, SourceContext, SourceReader } from '../../layers/pipeline/source.ts'
import { ReadyQueue } from '../../layers/pipeline/sources/ready-queue.ts'
import { realTime, sleep } from '../../lib/waiting.ts'
import {
  accessTo,
  checkConnecting,
  codeOf,
  connectingNames,
  type NatsAccess,
  type NatsConnecting,
  streamNotFound,
  watchFetch,
  whileAway,
} from './connecting.ts'

export interface NatsRecord {
  readonly subject: string
  readonly value: Uint8Array
  /** Sequence in the stream. */
  readonly seq: number
  /** When the server stored the message, in milliseconds since 1970. */
  readonly time: number
  readonly headers: Readonly<Record<string, readonly string[]>>
}

export type NatsOptions = NatsConnecting &
  NatsReading &
  (
    | {
        /** Subjects to read, wildcards allowed. Default: all subjects of the stream. */
        readonly filter?: string | readonly string[]
        readonly partitions?: never
      }
    | {
        readonly filter?: never
        /**
         * Subjects that are read side by side, each with its own position, and shared by several processes. They must not
         * overlap.
         */
        readonly partitions: readonly string[]
      }
  )

/** The stream to read, and where to start. */
export interface NatsReading {
  readonly stream: string
  /** Where a first run begins. Default: 'oldest'. */
  readonly start?: 'oldest' | 'newest' | { readonly seq: number } | { readonly time: number }
  /** If the stream no longer has the messages after the position. 'fail' is POSITION_GONE. Default: 'fail'. */
  readonly gone?: 'fail' | 'oldest' | 'newest'
}

const known = new Set([...connectingNames, 'stream', 'filter', 'partitions', 'start', 'gone'])
const goneHint =
  "Messages may be missing. Set { gone: 'oldest' } or { gone: 'newest' } on its source to continue with the messages of the stream, or start from a savepoint with { from }."
/** How long one request for messages waits at the server. */
const fetchMs = 1000
const fetchMessages = 512

/** @example p.from('orders', natsSource({ servers, stream: 'ORDERS' }), { decode: json<Order>() }) */
export function natsSource(options: NatsOptions): Source<NatsRecord> {
  checkOptions('natsSource', options, known)
  checkValues('nats', options, { gone: ['fail', 'oldest', 'newest'] })
  checkConnecting('nats', options)
  const { stream, partitions, filter } = options
  if (typeof stream !== 'string' || stream === '') throw new RepriseError('INVALID_ARGUMENT', 'nats needs { stream }')
  if (typeof options.start === 'object' && 'time' in options.start && !Number.isFinite(options.start.time)) {
    throw new RepriseError('INVALID_ARGUMENT', 'the time at which nats starts must be in milliseconds since 1970')
  }
  if (partitions && filter)
    throw new RepriseError('INVALID_ARGUMENT', 'nats accepts either filter or partitions, not both')
  if (partitions?.length === 0) throw new RepriseError('INVALID_ARGUMENT', 'partitions must name at least one subject')
  return {
    kind: 'nats',
    ...(partitions && { partitions: async () => partitions }),
    async open(from, context) {
      const access = await accessTo(options)
      try {
        const reader = new NatsReader(access, options, from, context)
        await reader.begin()
        return reader
      } catch (error) {
        await access.close()
        throw error
      }
    },
  }
}

interface Begun {
  readonly consumer: Consumer
  readonly last: number
}

class NatsReader implements SourceReader<NatsRecord> {
  readonly #access: NatsAccess
  readonly #options: NatsOptions
  readonly #from: Positions | null
  readonly #names: readonly string[]
  readonly #ready = new ReadyQueue<NatsRecord>()
  readonly #signal: AbortSignal
  readonly #running: Promise<void>[] = []
  readonly #fetches = new Set<ConsumerMessages>()
  readonly #onAbort = () => {
    this.#ready.close()
    for (const fetched of this.#fetches) fetched.stop()
  }
  #isClosed = false

  constructor(access: NatsAccess, options: NatsOptions, from: Positions | null, context: SourceContext) {
    this.#access = access
    this.#options = options
    this.#from = from
    this.#signal = context.signal
    this.#names = context.partitions ?? options.partitions ?? ['']
  }

  async begin(): Promise<void> {
    for (const name of this.#names) {
      const begin = () => this.#consumerOf(name, this.#from?.get(name))
      const consumer = await whileAway(this.#options, `read ${this.#options.stream}`, begin, () => this.#isOver)
      this.#running.push(this.#follow(name, consumer).catch((error) => this.#ready.fail(error)))
    }
    this.#signal.addEventListener('abort', this.#onAbort, { once: true })
    if (this.#signal.aborted) this.#onAbort()
  }

  partitions(): readonly string[] {
    return this.#names
  }

  read(max: number) {
    return this.#ready.take(max)
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#onAbort()
    await this.#access.close()
    await Promise.all(this.#running)
  }

  get #isOver(): boolean {
    return this.#isClosed || this.#signal.aborted
  }

  async #follow(partition: string, begun: Begun): Promise<void> {
    const place = { partition, last: begun.last }
    let consumer: Consumer | null = begun.consumer
    let failingSince: number | null = null
    const awayMs = awayMsOf(this.#options)
    while (!this.#isOver) {
      try {
        consumer ??= (await this.#consumerOf(partition, place.last)).consumer
        await this.#fetch(consumer, place)
        failingSince = null
      } catch (error) {
        if (this.#isOver) return
        failingSince ??= Date.now()
        // A server that was unavailable has lost the consumer: a new one continues after the last message.
        if (error instanceof RepriseError) throw error
        if (Date.now() - failingSince > awayMs)
          throw brokerAway(`read ${this.#options.stream}`, 'no NATS server', awayMs, error)
        consumer = null
        await sleep(realTime, 100)
      }
    }
  }

  async #fetch(consumer: Consumer, place: { readonly partition: string; last: number }): Promise<void> {
    const before = place.last
    const fetched = await consumer.fetch({ max_messages: fetchMessages, expires: fetchMs })
    this.#fetches.add(fetched)
    const endWatch = watchFetch(fetched, fetchMs)
    try {
      await this.#handOn(fetched, place, endWatch)
    } finally {
      this.#fetches.delete(fetched)
    }
    // No message, or no consumer: `info` throws if the consumer does not exist.
    if (place.last === before && !this.#isOver) await consumer.info()
  }

  /** Passes on the messages of one turn together; the next request follows once all were accepted. */
  async #handOn(
    fetched: ConsumerMessages,
    place: { readonly partition: string; last: number },
    ended: () => void,
  ): Promise<void> {
    let came: JsMsg[] = []
    let taken: Promise<void> = Promise.resolve()
    const give = () => {
      const messages = came
      came = []
      if (messages.length > 0) taken = Promise.all([taken, this.#push(messages, place)]).then(() => undefined)
      taken.catch(() => undefined)
    }
    if (this.#isOver) fetched.stop()
    for await (const message of fetched) {
      // A duplicate after a reconnect.
      if (message.seq <= place.last) continue
      if (this.#isWhole && message.seq !== place.last + 1) await this.#checkGone(place.partition, place.last)
      place.last = message.seq
      came.push(message)
      if (came.length === 1) setImmediate(give)
    }
    give()
    // Before waiting for the pipeline to take them, which may take any time.
    ended()
    await taken
  }

  #push(messages: readonly JsMsg[], { partition }: { readonly partition: string }): Promise<void> {
    const positionAt = (count: number) => messages[count - 1]!.seq
    return this.#ready.push({ partition, values: messages.map(recordOf), positionAt, position: messages.at(-1)!.seq })
  }

  /** All messages of the stream are required: a gap means that a message was removed. */
  get #isWhole(): boolean {
    return this.#options.filter === undefined && this.#options.partitions === undefined
  }

  async #consumerOf(partition: string, position: unknown): Promise<Begun> {
    const { stream, filter } = this.#options
    const last = await this.#begin(partition, position)
    const subjects = partition !== '' ? [partition] : filter === undefined ? [] : [filter].flat()
    const where =
      typeof last === 'number' ? { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: last + 1 } : last
    const consumer = await this.#access.js.consumers.get(stream, {
      ...where,
      ...(subjects.length > 0 && { filter_subjects: subjects as string[] }),
    })
    return { consumer, last: typeof last === 'number' ? last : 0 }
  }

  /** The last sequence to skip, or the server's start option for a time. */
  async #begin(partition: string, position: unknown) {
    const { start = 'oldest' } = this.#options
    if (position !== undefined) {
      if (!Number.isSafeInteger(position) || (position as number) < 0) {
        const what = 'the position of this source must be a sequence of the stream: another source used its name before'
        throw new RepriseError('INVALID_ARGUMENT', what, { position })
      }
      return await this.#checkGone(partition, position as number)
    }
    const { state } = await this.#info()
    if (start === 'oldest') return Math.max(0, state.first_seq - 1)
    if (start === 'newest') return state.last_seq
    if ('seq' in start) return Math.max(0, start.seq - 1)
    return { deliver_policy: DeliverPolicy.StartTime, opt_start_time: new Date(start.time).toISOString() }
  }

  /** The sequence to continue from. */
  async #checkGone(partition: string, position: number): Promise<number> {
    const { stream, gone = 'fail' } = this.#options
    const { state } = await this.#info()
    const isThere = state.first_seq <= position + 1 && position <= state.last_seq
    if (isThere) return position
    if (gone === 'oldest') return state.first_seq - 1
    if (gone === 'newest') return state.last_seq
    const has =
      state.messages === 0 ? `is empty and at ${state.last_seq}` : `has ${state.first_seq} to ${state.last_seq}`
    const what = `the stream ${stream} ${has}: messages after ${position} were removed`
    throw new RepriseError('POSITION_GONE', what, { stream, partition, position }, undefined, goneHint)
  }

  async #info() {
    const { stream } = this.#options
    try {
      return await this.#access.manager.streams.info(stream)
    } catch (error) {
      if (codeOf(error) !== streamNotFound) throw error
      const hint = 'Create the stream, or correct its name or the servers.'
      throw new RepriseError('NOT_FOUND', `there is no stream ${stream}`, { stream }, error, hint)
    }
  }
}

export function recordOf({ subject, data, seq, timestampNanos, headers }: JsMsg): NatsRecord {
  return {
    subject,
    value: data,
    seq,
    time: Number(timestampNanos / 1_000_000n),
    headers: headers ? Object.fromEntries([...headers].map(([name, values]) => [name, values])) : {},
  }
}
