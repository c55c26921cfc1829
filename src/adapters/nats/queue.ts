// A durable consumer of a JetStream stream as the source of a job. The server delivers a message again when its wait for an
// acknowledgement ends, which is extended while the item is worked on; a message is acknowledged after its item is durable.

import { AckPolicy, type Consumer, type ConsumerMessages, type JsMsg } from '@nats-io/jetstream'
import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkOptions, checkText } from '../../core/options.ts'
import type { Delivery, ExternalQueue, QueueConnection } from '../../layers/job/queues/external-queue.ts'
import {
  type QueueReading,
  type QueueSource,
  queueReadingNames,
  queueSource,
  splitReading,
} from '../../layers/job/queues/queue-source.ts'
import { Condition, realTime } from '../../lib/waiting.ts'
import {
  accessTo,
  checkConnecting,
  codeOf,
  isAway,
  type NatsAccess,
  type NatsServers,
  streamNotFound,
  watchFetch,
} from './connecting.ts'
import { type NatsRecord, recordOf } from './source.ts'

export type NatsConsuming = NatsServers & {
  readonly stream: string
  /** The name of the durable consumer. It is created if it does not exist, and must acknowledge explicitly. */
  readonly consumer: string
  /** For a consumer that is created: the subjects to read, wildcards allowed. Default: all subjects of the stream. */
  readonly filter?: string | readonly string[]
  /**
   * For a consumer that is created: how long the server waits between two extensions. A crash repeats items after this time.
   * Default: 30 seconds.
   */
  readonly holdFor?: Duration
}

export type NatsQueueOptions<T = NatsRecord> = NatsConsuming & QueueReading<NatsRecord, T>

const connectingNames = ['servers', 'connection', 'stream', 'consumer', 'filter', 'holdFor'] as const
const known = new Set<string>([...connectingNames, ...queueReadingNames])
const consumerNotFound = 10_014
const nanosPerMs = 1_000_000
/** How long one request for messages waits at the server. */
const fetchMs = 1000

/** @example job('orders', { source: natsQueue({ servers, stream: 'ORDERS', consumer: 'shipping' }), each: ship }) */
export function natsQueue<T = NatsRecord>(options: NatsQueueOptions<T>): QueueSource<T> {
  checkOptions('natsQueue', options ?? null, known)
  const { reading, connecting } = splitReading<NatsRecord, T, NatsQueueOptions<T>>(options)
  return queueSource<NatsRecord, T>(natsBroker(connecting as NatsConsuming), reading)
}

/** The consumer without the options of reading: for queueSource() and queueConformance(). */
export function natsBroker(options: NatsConsuming): ExternalQueue<NatsRecord> {
  checkOptions('natsBroker', options ?? null, new Set(connectingNames))
  checkConnecting('natsQueue', options)
  checkText('the stream of natsQueue', options.stream)
  checkText('the consumer of natsQueue', options.consumer)
  const holdMs = toMs(options.holdFor ?? '30s', 'holdFor')
  return {
    kind: 'nats',
    name: `the stream ${options.stream}`,
    isAway: (error) => isAway(error) || isReprise(error, 'BROKER_AWAY'),
    async connect() {
      const { servers, connection } = options
      // The job itself waits for an unavailable server.
      const access = await accessTo({ ...((servers ? { servers } : { connection }) as NatsServers), awayFor: 1 })
      try {
        const heldMs = await ensureConsumer(access, options, holdMs)
        const consumer = await access.js.consumers.get(options.stream, options.consumer)
        return new NatsConsumer(access, consumer, options, heldMs)
      } catch (error) {
        await access.close()
        throw error
      }
    },
  }
}

/** Returns its hold time. */
async function ensureConsumer({ manager }: NatsAccess, options: NatsConsuming, holdMs: number): Promise<number> {
  const { stream, consumer, filter } = options
  try {
    const { config } = await manager.consumers.info(stream, consumer)
    if (config.ack_policy === AckPolicy.Explicit) return (config.ack_wait ?? 30_000 * nanosPerMs) / nanosPerMs
    const what = `the consumer ${consumer} of ${stream} must have the ack policy explicit (it has ${config.ack_policy})`
    throw new RepriseError('INVALID_ARGUMENT', what, { stream, consumer })
  } catch (error) {
    if (codeOf(error) === streamNotFound) {
      throw new RepriseError('NOT_FOUND', `there is no stream ${stream}`, { stream }, error)
    }
    if (codeOf(error) !== consumerNotFound) throw error
  }
  const subjects = filter === undefined ? [] : [filter].flat()
  await manager.consumers.add(stream, {
    durable_name: consumer,
    ack_policy: AckPolicy.Explicit,
    ack_wait: holdMs * nanosPerMs,
    max_ack_pending: -1,
    ...(subjects.length > 0 && { filter_subjects: subjects as string[] }),
  })
  return holdMs
}

class NatsConsumer implements QueueConnection<NatsRecord> {
  readonly holdMs: number
  readonly #access: NatsAccess
  readonly #consumer: Consumer
  readonly #options: NatsConsuming
  readonly #changed = new Condition()
  /** Delivered by the server, and not received yet. */
  readonly #ready: JsMsg[] = []
  /** Messages of this connection: the server redelivers those of an earlier connection. */
  readonly #own = new WeakSet<JsMsg>()
  #fetched: ConsumerMessages | null = null
  #isFetching = false
  #isClosed = false
  #failure: { readonly error: unknown } | null = null

  constructor(access: NatsAccess, consumer: Consumer, options: NatsConsuming, holdMs: number) {
    this.#access = access
    this.#consumer = consumer
    this.#options = options
    this.holdMs = holdMs
  }

  async receive(max: number, waitMs: number, signal: AbortSignal): Promise<readonly Delivery<NatsRecord>[]> {
    let isOver = signal.aborted
    const end = () => {
      isOver = true
      this.#changed.changed()
    }
    signal.addEventListener('abort', end, { once: true })
    const cancel = realTime.after(waitMs, end, true)
    try {
      while (this.#ready.length === 0 && !isOver) {
        this.#check()
        if (!this.#isFetching) void this.#fetch(max)
        await this.#changed.until(() => this.#ready.length > 0 || isOver || !this.#isFetching || this.#isClosed)
      }
    } finally {
      cancel()
      signal.removeEventListener('abort', end)
    }
    this.#check()
    if (signal.aborted) return []
    return this.#ready.splice(0, max).map((message) => this.#deliveryOf(message))
  }

  async acknowledge(deliveries: readonly Delivery<NatsRecord>[]): Promise<void> {
    this.#check()
    const messages = this.#messagesOf(deliveries)
    const timeout = Math.max(1000, Math.min(this.holdMs, 5000))
    await Promise.all(messages.map((message) => message.ackAck({ timeout })))
  }

  async extend(deliveries: readonly Delivery<NatsRecord>[]): Promise<void> {
    this.#check()
    for (const message of this.#messagesOf(deliveries)) message.working()
  }

  async release(deliveries: readonly Delivery<NatsRecord>[]): Promise<void> {
    this.#check()
    for (const message of this.#messagesOf(deliveries)) message.nak()
    await this.#flushed()
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#fetched?.stop()
    this.#changed.changed()
    try {
      for (const message of this.#ready.splice(0)) message.nak()
      if (!this.#failure) await this.#flushed()
    } finally {
      await this.#access.close()
    }
  }

  /** The messages of one request, which may arrive during several calls of `receive`. */
  async #fetch(max: number): Promise<void> {
    this.#isFetching = true
    try {
      const fetched = await this.#consumer.fetch({ max_messages: max, expires: fetchMs })
      this.#fetched = fetched
      if (this.#isClosed) fetched.stop()
      const endWatch = watchFetch(fetched, fetchMs)
      let count = 0
      try {
        for await (const message of fetched) {
          count += 1
          this.#own.add(message)
          this.#ready.push(message)
          this.#changed.changed()
        }
      } finally {
        endWatch()
      }
      // No message, or no consumer: `info` throws if the consumer does not exist.
      if (count === 0 && !this.#isClosed) await this.#consumer.info()
    } catch (error) {
      if (!this.#isClosed) this.#failure = { error }
    } finally {
      this.#isFetching = false
      this.#changed.changed()
    }
  }

  /** A reply of the server proves that it has handled the earlier requests, which get no reply. */
  async #flushed(): Promise<void> {
    await this.#access.manager.consumers.info(this.#options.stream, this.#options.consumer)
  }

  #messagesOf(deliveries: readonly Delivery<NatsRecord>[]): JsMsg[] {
    return deliveries.map(({ receipt }) => receipt as JsMsg).filter((message) => this.#own.has(message))
  }

  #deliveryOf(message: JsMsg): Delivery<NatsRecord> {
    const id = `${this.#options.stream}/${message.seq}`
    return { id, message: recordOf(message), isRedelivered: message.redelivered, receipt: message }
  }

  #check(): void {
    if (this.#failure) throw this.#failure.error
    if (this.#isClosed) throw Object.assign(new Error('the connection was closed'), { name: 'ClosedConnectionError' })
  }
}
