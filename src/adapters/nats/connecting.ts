// A connection to NATS: the user's, which stays open, or its own, which is closed with the source or sink that opened it.

import {
  type ConsumerMessages,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
} from '@nats-io/jetstream'
import { connect, type NatsConnection, type NodeConnectionOptions } from '@nats-io/transport-node'
import type { Duration } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { awayMsOf, brokerAway } from '../../core/retry/broker-away.ts'
import { realTime, sleep } from '../../lib/waiting.ts'

export interface NatsPatience {
  /** How long a server may be unavailable before the run ends with BROKER_AWAY. Default: 1 minute. */
  readonly awayFor?: Duration
}

export type NatsConnecting = NatsPatience & NatsServers

export type NatsServers =
  | {
      /** Addresses or client options for a connection of its own. */
      readonly servers: string | readonly string[] | NodeConnectionOptions
      readonly connection?: never
    }
  | {
      readonly servers?: never
      /** The user's connection, which stays open. */
      readonly connection: NatsConnection
    }

export interface NatsAccess {
  readonly js: JetStreamClient
  readonly manager: JetStreamManager
  close(): Promise<void>
}

export const connectingNames = ['servers', 'connection', 'awayFor'] as const

export function checkConnecting(name: string, options: NatsConnecting): void {
  awayMsOf(options)
  const { servers, connection } = options
  if (!connection !== !servers) return
  throw new RepriseError('INVALID_ARGUMENT', `${name} needs either { servers: 'nats://…' } or { connection }`)
}

const pauseMs = 100

/** Retries until the work succeeds, for as long as a server may be unavailable. `isOver`: the result is no longer needed. */
export async function whileAway<R>(
  options: NatsPatience,
  what: string,
  work: () => Promise<R>,
  isOver: () => boolean = () => false,
): Promise<R> {
  const awayMs = awayMsOf(options)
  let since: number | null = null
  for (;;) {
    try {
      return await work()
    } catch (error) {
      since ??= Date.now()
      if (!isAway(error) || isOver()) throw error
      if (Date.now() - since > awayMs) throw brokerAway(what, 'no NATS server', awayMs, error)
      await sleep(realTime, pauseMs)
    }
  }
}

const awayNames = new Set([
  'ClosedConnectionError',
  'ConnectionError',
  'NoRespondersError',
  'RequestError',
  'TimeoutError',
])
/** JetStream is running, but not ready yet. */
const unavailable = 10_008

/** No server can be reached, or none answers. Refusals of the server and invalid requests are not transient. */
export function isAway(error: unknown): boolean {
  if (error instanceof RepriseError || !(error instanceof Error)) return false
  if (error instanceof JetStreamApiError) return error.code === unavailable
  const { code } = error as { readonly code?: unknown }
  return awayNames.has(error.name) || (typeof code === 'string' && /^E[A-Z]+$/.test(code))
}

/** How much longer than the server's own limit to wait for a request for messages. */
const lateMs = 2000

/**
 * While it is disconnected, the client does not end a request for messages by itself: this function ends it, `lateMs` after
 * the server should have. The returned function ends the watch, and throws if the limit passed: messages may be missing.
 */
export function watchFetch(fetched: ConsumerMessages, expiresMs: number): () => void {
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    fetched.stop()
  }, expiresMs + lateMs).unref()
  return () => {
    clearTimeout(timer)
    if (!isLate) return
    throw Object.assign(new Error('the server did not complete a request for messages'), { name: 'TimeoutError' })
  }
}

/** An unavailable server at the start is awaited like one that goes away later. */
export async function accessTo(options: NatsConnecting): Promise<NatsAccess> {
  return await whileAway(options, 'connect', () => access(options))
}

async function access({ servers, connection }: NatsConnecting): Promise<NatsAccess> {
  const own = connection ?? (await connect(optionsOf(servers!)))
  try {
    const manager = await jetstreamManager(own)
    return {
      js: jetstream(own),
      manager,
      close: async () => {
        if (!connection) await own.close()
      },
    }
  } catch (error) {
    if (!connection) await own.close()
    throw error
  }
}

function optionsOf(servers: NonNullable<NatsConnecting['servers']>): NodeConnectionOptions {
  // The broker may be unavailable for a while: each caller has its own time limit.
  const usual = { maxReconnectAttempts: -1, reconnectTimeWait: 250 }
  if (typeof servers === 'string') return { ...usual, servers }
  return Array.isArray(servers)
    ? { ...usual, servers: [...servers] }
    : { ...usual, ...(servers as NodeConnectionOptions) }
}

/** The error code of a JetStream answer; null: another error. */
export function codeOf(error: unknown): number | null {
  return error instanceof JetStreamApiError ? error.code : null
}

export const streamNotFound = 10_059
export const wrongLastSequence = 10_071
