// A stream of Redis, read by a consumer group, as the source of a job. An entry stays with its consumer for `holdFor`, which is
// extended while its item is worked on; entries of a consumer that died are claimed after that time. An entry is acknowledged
// after its item is durable. The driver is the optional package @redis/client. Redis 6.2 or newer.

import { randomUUID } from 'node:crypto'
import { driverMissing } from '../../core/driver-missing.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, checkText } from '../../core/options.ts'
import type { Delivery, ExternalQueue, QueueConnection, QueueContext } from '../../layers/job/queues/external-queue.ts'
import {
  type QueueReading,
  type QueueSource,
  queueReadingNames,
  queueSource,
  splitReading,
} from '../../layers/job/queues/queue-source.ts'

export interface RedisMessage {
  /** The id of the entry. */
  readonly id: string
  readonly fields: Readonly<Record<string, string>>
  /** The field named by the option `field`, as UTF-8. Null: the entry does not have it. */
  readonly value: Uint8Array | null
}

export interface RedisConnecting {
  /** redis://user:password@host:6379/0, or options of `createClient` of @redis/client. */
  readonly url: string | Readonly<Record<string, unknown>>
  readonly stream: string
  /** The consumer group. It is created at the beginning of the stream if it does not exist. */
  readonly group: string
  /** The field that `value` holds. Default: 'value'. */
  readonly field?: string
  /**
   * How long an entry stays with a process between two extensions: the delay before a crash repeats it.
   * Default: 30 seconds.
   */
  readonly holdFor?: Duration
  /** Remove entries from the stream once they are acknowledged: for streams with one group. Default: false. */
  readonly remove?: boolean
}

export type RedisOptions<T = RedisMessage> = RedisConnecting & QueueReading<RedisMessage, T>

const connectingNames = ['url', 'stream', 'group', 'field', 'holdFor', 'remove'] as const
const known = new Set<string>([...connectingNames, ...queueReadingNames])
/** How long one request waits at the server: a signal is noticed after at most this time. */
const blockMs = 250
/** Entries of processes that died are searched this often, and more often if they are held for a shorter time. */
const claimEveryMs = 5000
/** Consumers of processes that died are removed after this time without entries. */
const forgottenMs = 3_600_000

/** The part of the driver that a queue uses. */
interface Client {
  connect(): Promise<unknown>
  sendCommand(command: readonly string[]): Promise<unknown>
  on(event: 'error', listener: (error: Error) => void): unknown
  destroy(): void
}

/** @example job('orders', { source: redisQueue({ url, stream: 'orders', group: 'shipping' }), each: ship }) */
export function redisQueue<T = RedisMessage>(options: RedisOptions<T>): QueueSource<T> {
  checkOptions('redisQueue', options ?? null, known)
  const { reading, connecting } = splitReading<RedisMessage, T, RedisOptions<T>>(options)
  return queueSource<RedisMessage, T>(redisBroker(connecting), reading)
}

/** The stream without the options of reading: for queueSource() and queueConformance(). */
export function redisBroker(options: RedisConnecting): ExternalQueue<RedisMessage> {
  checkOptions('redisBroker', options ?? null, new Set(connectingNames))
  const { url, stream, group, holdFor = '30s' } = options
  checkText('the stream of redis', stream)
  checkText('the group of redis', group)
  if (url === undefined || (typeof url === 'string' && !URL.canParse(url))) {
    throw new RepriseError('INVALID_ARGUMENT', 'redis needs { url }: redis://host')
  }
  const holdMs = toMs(holdFor, 'holdFor')
  if (holdMs < 1) throw new RepriseError('INVALID_ARGUMENT', 'holdFor must be at least 1 ms')
  return {
    kind: 'redis',
    name: `the stream ${stream}`,
    isAway,
    async connect(context) {
      const { createClient } = await loadDriver()
      const given = typeof url === 'string' ? { url } : url
      const socket = { ...(given as { readonly socket?: object }).socket, reconnectStrategy: false }
      // A request that blocks holds its connection: the others have a separate one.
      const [reading, acting] = [0, 1].map(() => createClient({ ...given, RESP: 2, socket }))
      const connection = new RedisConnection(reading!, acting!, options, holdMs, context)
      try {
        await connection.begin()
        return connection
      } catch (error) {
        await connection.close()
        throw error
      }
    },
  }
}

type Row = readonly [id: string, fields: readonly string[]]

class RedisConnection implements QueueConnection<RedisMessage> {
  readonly holdMs: number
  readonly #reading: Client
  readonly #acting: Client
  readonly #options: RedisConnecting
  readonly #job: string
  readonly #consumer: string
  #claimedAt = Number.NEGATIVE_INFINITY

  constructor(reading: Client, acting: Client, options: RedisConnecting, holdMs: number, { job }: QueueContext) {
    this.#reading = reading
    this.#acting = acting
    this.#options = options
    this.holdMs = holdMs
    this.#job = job
    this.#consumer = `${job}-${randomUUID()}`
    // A failure of the connection also rejects the requests in progress.
    for (const client of [reading, acting]) client.on('error', () => undefined)
  }

  async begin(): Promise<void> {
    const { stream, group } = this.#options
    await this.#reading.connect()
    await this.#acting.connect()
    try {
      await this.#acting.sendCommand(['XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM'])
    } catch (error) {
      if (!(error as Error).message.startsWith('BUSYGROUP')) throw refusalOf(error, stream)
    }
    await this.#forgetConsumers()
  }

  async receive(max: number, waitMs: number, signal: AbortSignal): Promise<readonly Delivery<RedisMessage>[]> {
    const { stream, group } = this.#options
    const until = performance.now() + waitMs
    for (;;) {
      const claimed = await this.#claim(max)
      if (claimed.length > 0 || signal.aborted) return claimed
      const block = String(Math.max(1, Math.min(blockMs, Math.ceil(until - performance.now()))))
      const read = ['XREADGROUP', 'GROUP', group, this.#consumer, 'COUNT', String(max), 'BLOCK', block]
      const found = (await this.#send(this.#reading, [...read, 'STREAMS', stream, '>'])) as
        | readonly (readonly [string, readonly Row[]])[]
        | null
      const rows = found?.[0]?.[1] ?? []
      // A delivery during the abort is returned too: it is held by this consumer.
      if (rows.length > 0) return rows.map((row) => this.#deliveryOf(row, false))
      if (signal.aborted || performance.now() >= until) return []
    }
  }

  async acknowledge(deliveries: readonly Delivery<RedisMessage>[]): Promise<void> {
    const { stream, group, remove = false } = this.#options
    const ids = deliveries.map(({ id }) => id!)
    const commands = remove
      ? [['MULTI'], ['XACK', stream, group, ...ids], ['XDEL', stream, ...ids], ['EXEC']]
      : [['XACK', stream, group, ...ids]]
    // Sent together: a crash between two commands would leave entries behind permanently.
    await Promise.all(commands.map((command) => this.#send(this.#acting, command)))
  }

  async extend(deliveries: readonly Delivery<RedisMessage>[]): Promise<void> {
    await this.#claimAs(deliveries, '0')
  }

  /** An entry that has been idle for the hold time is claimed by the next request of any consumer. */
  async release(deliveries: readonly Delivery<RedisMessage>[]): Promise<void> {
    await this.#claimAs(deliveries, String(this.holdMs))
    this.#claimedAt = Number.NEGATIVE_INFINITY
  }

  async close(): Promise<void> {
    for (const client of [this.#reading, this.#acting]) {
      try {
        client.destroy()
      } catch {
        // It is closed already.
      }
    }
  }

  /** Only entries that this consumer still holds: others may work on the rest. */
  async #claimAs(deliveries: readonly Delivery<RedisMessage>[], idleMs: string): Promise<void> {
    const { stream, group } = this.#options
    const own = await this.#ownOf(deliveries)
    if (own.length === 0) return
    await this.#send(this.#acting, ['XCLAIM', stream, group, this.#consumer, '0', ...own, 'IDLE', idleMs, 'JUSTID'])
  }

  async #ownOf(deliveries: readonly Delivery<RedisMessage>[]): Promise<string[]> {
    const { stream, group } = this.#options
    const ids = new Set(deliveries.map(({ id }) => id!))
    const ask = ['XPENDING', stream, group, '-', '+', '1000000', this.#consumer]
    const rows = (await this.#send(this.#acting, ask)) as readonly (readonly [string])[]
    return rows.map(([id]) => id).filter((id) => ids.has(id))
  }

  /** Entries that no consumer has extended in time. */
  async #claim(max: number): Promise<Delivery<RedisMessage>[]> {
    const now = performance.now()
    if (now - this.#claimedAt < Math.min(claimEveryMs, this.holdMs / 4)) return []
    const { stream, group } = this.#options
    const command = ['XAUTOCLAIM', stream, group, this.#consumer, String(this.holdMs), '0-0', 'COUNT', String(max)]
    const [, rows] = (await this.#send(this.#acting, command)) as readonly [string, readonly (Row | null)[]]
    const claimed = rows.filter((row): row is Row => row !== null)
    // After a full answer, there may be more.
    this.#claimedAt = claimed.length >= max ? Number.NEGATIVE_INFINITY : now
    return claimed.map((row) => this.#deliveryOf(row, true))
  }

  /** Without entries, the consumer of a dead process is only a name. */
  async #forgetConsumers(): Promise<void> {
    const { stream, group } = this.#options
    const rows = (await this.#send(this.#acting, ['XINFO', 'CONSUMERS', stream, group])) as readonly unknown[][]
    for (const row of rows) {
      const [, name, , pending, , idleMs] = row as [string, string, string, number, string, number]
      const isOurs = name.startsWith(`${this.#job}-`)
      if (isOurs && Number(pending) === 0 && Number(idleMs) > forgottenMs) {
        await this.#send(this.#acting, ['XGROUP', 'DELCONSUMER', stream, group, name])
      }
    }
  }

  async #send(client: Client, command: readonly string[]): Promise<unknown> {
    try {
      return await client.sendCommand(command)
    } catch (error) {
      throw refusalOf(error, this.#options.stream)
    }
  }

  #deliveryOf([id, pairs]: Row, isRedelivered: boolean): Delivery<RedisMessage> {
    const fields: Record<string, string> = Object.create(null)
    for (let i = 0; i + 1 < pairs.length; i += 2) fields[pairs[i]!] = pairs[i + 1]!
    const text = fields[this.#options.field ?? 'value']
    const value = text === undefined ? null : new TextEncoder().encode(text)
    return { id, receipt: null, isRedelivered, message: { id, fields: { ...fields }, value } }
  }
}

/** Answers of the server that no retry changes. */
function refusalOf(error: unknown, stream: string): unknown {
  const { message = '' } = (error ?? {}) as { readonly message?: string }
  if (!/^(WRONGTYPE|NOAUTH|WRONGPASS|NOPERM|NOGROUP|ERR) ?/.test(message)) return error
  return new RepriseError('QUEUE_REFUSED', `${stream}: ${message}`, { stream }, error)
}

function isAway(error: unknown): boolean {
  if (error instanceof RepriseError || !(error instanceof Error)) return false
  const { code } = error as { readonly code?: unknown }
  if (typeof code === 'string') return true
  return /LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|READONLY|closed|Socket|disconnect|timeout/i.test(
    `${error.name} ${error.message}`,
  )
}

async function loadDriver(): Promise<{ createClient(options: object): Client }> {
  try {
    return (await import('@redis/client')) as unknown as { createClient(options: object): Client }
  } catch (cause) {
    throw driverMissing('redisQueue()', ['@redis/client'], cause)
  }
}
