// A queue of AMQP 0.9.1 as the source of a job. The broker holds a delivery until the connection ends; a message is acknowledged
// after its item is durable. The driver is the optional package amqplib.

import type { Channel, ChannelModel, ConsumeMessage } from 'amqplib'
import { driverMissing } from '../../core/driver-missing.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions } from '../../core/options.ts'
import type { Delivery, ExternalQueue, QueueConnection, QueueContext } from '../../layers/job/queues/external-queue.ts'
import {
  type QueueReading,
  type QueueSource,
  queueReadingNames,
  queueSource,
  splitReading,
} from '../../layers/job/queues/queue-source.ts'
import { Condition, realTime } from '../../lib/waiting.ts'

export interface AmqpMessage {
  /** The property messageId, which the publisher sets; null: it did not. */
  readonly id: string | null
  readonly value: Uint8Array
  readonly headers: Readonly<Record<string, unknown>>
  readonly exchange: string
  readonly routingKey: string
  readonly contentType: string | null
  /** Milliseconds since 1970; null: the publisher did not set it. */
  readonly time: number | null
}

export interface AmqpConnecting {
  /** The address of the broker: amqp://user:password@host:5672/vhost */
  readonly url: string
  /** The name of a queue that exists. */
  readonly queue: string
  /** Options of the socket, as for `connect` of amqplib: certificates, timeouts. */
  readonly socket?: Readonly<Record<string, unknown>>
}

export type AmqpOptions<T = AmqpMessage> = AmqpConnecting & QueueReading<AmqpMessage, T>

const connectingNames = ['url', 'queue', 'socket'] as const
const known = new Set<string>([...connectingNames, ...queueReadingNames])
const notFound = 404
/** Codes of AMQP for a broker that stops, or a connection that it ended. */
const awayCodes = new Set([320, 501, 541])

class AmqpAway extends Error {
  override readonly name: string = 'AmqpAway'
}

/** @example job('orders', { source: amqpQueue({ url, queue: 'orders', decode: json() }), key: (o) => o.id, each: ship }) */
export function amqpQueue<T = AmqpMessage>(options: AmqpOptions<T>): QueueSource<T> {
  checkOptions('amqpQueue', options ?? null, known)
  const { reading, connecting } = splitReading<AmqpMessage, T, AmqpOptions<T>>(options)
  return queueSource<AmqpMessage, T>(amqpBroker(connecting), reading)
}

/** The queue without the options of reading: for queueSource() and queueConformance(). */
export function amqpBroker(options: AmqpConnecting): ExternalQueue<AmqpMessage> {
  checkOptions('amqpBroker', options ?? null, new Set(connectingNames))
  const { url, queue, socket } = options
  if (typeof url !== 'string' || !URL.canParse(url)) {
    throw new RepriseError('INVALID_ARGUMENT', 'amqp needs { url }: amqp://host')
  }
  if (typeof queue !== 'string' || queue === '') throw new RepriseError('INVALID_ARGUMENT', 'amqp needs { queue }')
  return {
    kind: 'amqp',
    name: `the queue ${queue}`,
    isAway,
    async connect(context) {
      const { connect } = await loadDriver()
      const model = await connect(url, { ...socket })
      try {
        return await AmqpConnection.open(model, queue, context)
      } catch (error) {
        await model.close().catch(() => undefined)
        throw error
      }
    },
  }
}

class AmqpConnection implements QueueConnection<AmqpMessage> {
  readonly holdMs = null
  readonly #model: ChannelModel
  readonly #channel: Channel
  /** Delivered by the broker, and not received yet. */
  #ready: ConsumeMessage[] = []
  /** The delivery tags that the broker waits for. A second acknowledgement would end the channel. */
  readonly #outstanding = new Set<ConsumeMessage>()
  readonly #changed = new Condition()
  #failure: Error | null = null
  #isClosed = false

  private constructor(model: ChannelModel, channel: Channel, queue: string) {
    this.#model = model
    this.#channel = channel
    const fail = (error?: Error) => {
      this.#failure ??= refusalOf(error, queue) ?? new AmqpAway(error?.message ?? 'the connection was closed')
      this.#changed.changed()
    }
    for (const each of [model, channel]) each.on('error', fail).on('close', fail)
  }

  static async open(model: ChannelModel, queue: string, { prefetch }: QueueContext): Promise<AmqpConnection> {
    const channel = await model.createChannel()
    const opened = new AmqpConnection(model, channel, queue)
    try {
      await channel.prefetch(Math.min(prefetch, 0xffff))
      await channel.consume(queue, (message) => opened.#take(message, queue))
    } catch (error) {
      throw opened.#failure ?? refusalOf(error, queue) ?? error
    }
    return opened
  }

  async receive(max: number, waitMs: number, signal: AbortSignal): Promise<readonly Delivery<AmqpMessage>[]> {
    let isOver = signal.aborted
    const end = () => {
      isOver = true
      this.#changed.changed()
    }
    signal.addEventListener('abort', end, { once: true })
    const cancel = realTime.after(waitMs, end, true)
    try {
      await this.#changed.until(() => this.#ready.length > 0 || isOver || this.#failure !== null)
    } finally {
      cancel()
      signal.removeEventListener('abort', end)
    }
    this.#check()
    if (signal.aborted) return []
    return this.#ready.splice(0, max).map(deliveryOf)
  }

  async acknowledge(deliveries: readonly Delivery<AmqpMessage>[]): Promise<void> {
    this.#each(deliveries, (message) => this.#channel.ack(message))
  }

  /** The broker holds deliveries until the connection ends. */
  async extend(): Promise<void> {}

  async release(deliveries: readonly Delivery<AmqpMessage>[]): Promise<void> {
    this.#each(deliveries, (message) => this.#channel.nack(message, false, true))
  }

  /** The broker handles the acknowledgements before it closes the channel, and returns the other messages to the queue. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    const isBroken = this.#failure !== null
    try {
      if (!isBroken) await this.#channel.close()
    } finally {
      await this.#model.close().catch(() => undefined)
    }
  }

  #take(message: ConsumeMessage | null, queue: string): void {
    // The broker cancels a consumer whose queue was deleted, or moves to another node.
    if (message === null) this.#failure ??= new AmqpAway(`the broker ended the delivery of ${queue}`)
    else {
      this.#outstanding.add(message)
      this.#ready.push(message)
    }
    this.#changed.changed()
  }

  /** Deliveries of an earlier connection have returned to the queue. */
  #each(deliveries: readonly Delivery<AmqpMessage>[], call: (message: ConsumeMessage) => void): void {
    this.#check()
    for (const { receipt } of deliveries) {
      const message = receipt as ConsumeMessage
      if (this.#outstanding.delete(message)) call(message)
    }
  }

  #check(): void {
    if (this.#failure) throw this.#failure
  }
}

function deliveryOf(message: ConsumeMessage): Delivery<AmqpMessage> {
  const { content, fields, properties } = message
  const { messageId, headers, contentType, timestamp } = properties
  const id = typeof messageId === 'string' && messageId !== '' ? messageId : null
  return {
    id,
    receipt: message,
    isRedelivered: fields.redelivered,
    message: {
      id,
      value: new Uint8Array(content),
      headers: plain(headers),
      exchange: fields.exchange,
      routingKey: fields.routingKey,
      contentType: typeof contentType === 'string' ? contentType : null,
      time: typeof timestamp === 'number' ? timestamp * 1000 : null,
    },
  }
}

/** Headers of the broker itself change with every delivery, and would make the same message look different. */
function plain(headers: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => name !== 'x-delivery-count'))
}

/** An answer that no retry changes. */
function refusalOf(error: unknown, queue: string): RepriseError | null {
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: string }
  if (code === notFound) return new RepriseError('NOT_FOUND', `there is no queue ${queue}`, { queue }, error)
  // Access, a locked queue, an invalid argument. A delivery that was held too long (406) is delivered again.
  if (code === 403 || code === 405) return new RepriseError('QUEUE_REFUSED', String(message), { queue, code }, error)
  return null
}

function isAway(error: unknown): boolean {
  if (error instanceof RepriseError || !(error instanceof Error)) return false
  const { code } = error as { readonly code?: unknown }
  if (typeof code === 'number') return awayCodes.has(code) || code === 406
  // The driver reports a closed connection only as text.
  return (
    error instanceof AmqpAway ||
    typeof code === 'string' ||
    /socket|closed|closing|ended|heartbeat/i.test(error.message)
  )
}

async function loadDriver(): Promise<typeof import('amqplib')> {
  try {
    const driver = await import('amqplib')
    return (driver as unknown as { readonly default?: typeof import('amqplib') }).default ?? driver
  } catch (cause) {
    throw driverMissing('amqpQueue()', ['amqplib'], cause)
  }
}
