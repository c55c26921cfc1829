// A queue of SQS as the source of a job. A message stays invisible for `holdFor`, which is extended while its item is worked on,
// and is deleted after the item is durable.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions } from '../../core/options.ts'
import type { Delivery, ExternalQueue, QueueConnection } from '../../layers/job/queues/external-queue.ts'
import {
  type QueueReading,
  type QueueSource,
  queueReadingNames,
  queueSource,
  splitReading,
} from '../../layers/job/queues/queue-source.ts'
import { realTime, sleep } from '../../lib/waiting.ts'
import { type Json, SqsAway, SqsClient, type SqsKeys } from './client.ts'

export type { SqsKeys } from './client.ts'

export interface SqsMessage {
  readonly id: string
  /** The body, as UTF-8. */
  readonly value: Uint8Array
  /** Message attributes with text or number values. */
  readonly headers: Readonly<Record<string, string>>
  /** Milliseconds since 1970. */
  readonly time: number
  /** Of a FIFO queue. */
  readonly group: string | null
}

export interface SqsConnecting {
  /** The address of the queue: https://sqs.eu-west-1.amazonaws.com/123456789012/orders */
  readonly url: string
  /** Default: the region in the address, else AWS_REGION, else us-east-1. */
  readonly region?: string
  /** Default: environment variables, the profile, or the role of the machine, as for reprise/s3. */
  readonly credentials?: SqsKeys | (() => Promise<SqsKeys>)
  /**
   * How long a message is invisible to others between two extensions: the delay before a crash repeats it.
   * Default: 30 seconds.
   */
  readonly holdFor?: Duration
}

export type SqsOptions<T = SqsMessage> = SqsConnecting & QueueReading<SqsMessage, T>

const connectingNames = ['url', 'region', 'credentials', 'holdFor'] as const
const known = new Set<string>([...connectingNames, ...queueReadingNames])
/** The limits of the service. */
const perRequest = 10
const longestPollMs = 20_000
const longestHoldMs = 12 * 3_600_000
const requestsAtOnce = 8
const pollMs = 100
const gone = /ReceiptHandle|NotInflight|InvalidParameterValue|MessageNotFound/i

/** @example job('orders', { source: sqsQueue({ url, decode: json<Order>() }), key: (order) => order.id, each: ship }) */
export function sqsQueue<T = SqsMessage>(options: SqsOptions<T>): QueueSource<T> {
  checkOptions('sqsQueue', options ?? null, known)
  const { reading, connecting } = splitReading<SqsMessage, T, SqsOptions<T>>(options)
  return queueSource<SqsMessage, T>(sqsBroker(connecting), reading)
}

/** The queue without the options of reading: for queueSource() and queueConformance(). */
export function sqsBroker(options: SqsConnecting): ExternalQueue<SqsMessage> {
  checkOptions('sqsBroker', options ?? null, new Set(connectingNames))
  const { url, credentials, holdFor = '30s' } = options
  if (typeof url !== 'string' || !URL.canParse(url)) {
    throw new RepriseError('INVALID_ARGUMENT', 'sqs needs { url }, the address of the queue')
  }
  const holdMs = Math.ceil(toMs(holdFor, 'holdFor') / 1000) * 1000
  if (holdMs < 1000 || holdMs > longestHoldMs) {
    throw new RepriseError('INVALID_ARGUMENT', 'holdFor must be from 1 second to 12 hours')
  }
  return {
    kind: 'sqs',
    name: `the queue ${url}`,
    isAway: (error) => error instanceof SqsAway,
    async connect() {
      const region = options.region ?? regionOf(url)
      const client = await SqsClient.open({ url, region, credentials })
      return new SqsConnection(client, holdMs)
    },
  }
}

class SqsConnection implements QueueConnection<SqsMessage> {
  readonly holdMs: number
  readonly #client: SqsClient

  constructor(client: SqsClient, holdMs: number) {
    this.#client = client
    this.holdMs = holdMs
  }

  async receive(max: number, waitMs: number, signal: AbortSignal): Promise<readonly Delivery<SqsMessage>[]> {
    const until = performance.now() + waitMs
    for (;;) {
      const leftMs = until - performance.now()
      // The service counts in whole seconds; shorter waits are made of short polls.
      const seconds = Math.min(longestPollMs / 1000, Math.max(0, Math.floor(leftMs / 1000)))
      const first = await this.#receive(Math.min(perRequest, max), seconds, signal)
      if (first.length === perRequest && max > perRequest) {
        const requests = Math.min(requestsAtOnce, Math.ceil((max - perRequest) / perRequest))
        const sizes = Array.from({ length: requests }, (_, i) => Math.min(perRequest, max - perRequest * (i + 1)))
        const more = await Promise.allSettled(sizes.map((size) => this.#receive(size, 0, signal)))
        return [...first, ...more.flatMap((each) => (each.status === 'fulfilled' ? each.value : []))]
      }
      if (first.length > 0 || signal.aborted || performance.now() >= until) return first
      await sleep(realTime, Math.min(pollMs, Math.max(1, until - performance.now())), { signal })
      if (signal.aborted) return []
    }
  }

  async acknowledge(deliveries: readonly Delivery<SqsMessage>[]): Promise<void> {
    await this.#eachBatch(deliveries, 'DeleteMessageBatch', {})
  }

  async extend(deliveries: readonly Delivery<SqsMessage>[]): Promise<void> {
    await this.#eachBatch(deliveries, 'ChangeMessageVisibilityBatch', { VisibilityTimeout: this.holdMs / 1000 })
  }

  async release(deliveries: readonly Delivery<SqsMessage>[]): Promise<void> {
    await this.#eachBatch(deliveries, 'ChangeMessageVisibilityBatch', { VisibilityTimeout: 0 })
  }

  async close(): Promise<void> {}

  async #receive(max: number, seconds: number, signal: AbortSignal): Promise<Delivery<SqsMessage>[]> {
    const input = {
      MaxNumberOfMessages: max,
      WaitTimeSeconds: seconds,
      VisibilityTimeout: this.holdMs / 1000,
      AttributeNames: ['All'],
      MessageAttributeNames: ['All'],
    }
    try {
      const { Messages } = await this.#client.call('ReceiveMessage', input, seconds * 1000, signal)
      return Array.isArray(Messages) ? Messages.map(deliveryOf) : []
    } catch (error) {
      // Messages of an unread answer become visible again after their hold.
      if (signal.aborted && error instanceof SqsAway) return []
      throw error
    }
  }

  async #eachBatch(deliveries: readonly Delivery<SqsMessage>[], action: string, more: Json): Promise<void> {
    const batches: (readonly Delivery<SqsMessage>[])[] = []
    for (let at = 0; at < deliveries.length; at += perRequest) batches.push(deliveries.slice(at, at + perRequest))
    for (let at = 0; at < batches.length; at += requestsAtOnce) {
      await Promise.all(batches.slice(at, at + requestsAtOnce).map((batch) => this.#batch(batch, action, more)))
    }
  }

  async #batch(batch: readonly Delivery<SqsMessage>[], action: string, more: Json): Promise<void> {
    const Entries = batch.map(({ receipt }, i) => ({ Id: String(i), ReceiptHandle: receipt, ...more }))
    const { Failed } = await this.#client.call(action, { Entries })
    for (const { Code = '', Message = '', SenderFault = false } of (Failed ?? []) as readonly Json[]) {
      // The hold has ended, or the message was deleted before.
      if (gone.test(`${Code} ${Message}`)) continue
      if (!SenderFault) throw new SqsAway(`${action}: ${Code} ${Message}`)
      throw new RepriseError('QUEUE_REFUSED', `${action}: ${Code} ${Message}`, { answer: Code })
    }
  }
}

function deliveryOf(given: Json): Delivery<SqsMessage> {
  const { MessageId, Body, ReceiptHandle, Attributes = {}, MessageAttributes = {} } = given
  const headers: Record<string, string> = {}
  for (const [name, attribute] of Object.entries(MessageAttributes as Json)) {
    if (typeof attribute?.StringValue === 'string') headers[name] = attribute.StringValue
  }
  return {
    id: String(MessageId),
    receipt: ReceiptHandle,
    isRedelivered: Number(Attributes.ApproximateReceiveCount ?? 1) > 1,
    message: {
      id: String(MessageId),
      value: new TextEncoder().encode(String(Body)),
      headers,
      time: Number(Attributes.SentTimestamp ?? 0),
      group: typeof Attributes.MessageGroupId === 'string' ? Attributes.MessageGroupId : null,
    },
  }
}

function regionOf(url: string): string {
  const inUrl = /^https:\/\/sqs\.([a-z0-9-]+)\./.exec(url)?.[1]
  return inUrl ?? process.env.AWS_REGION ?? process.env.AWS_DEFAULT_REGION ?? 'us-east-1'
}
