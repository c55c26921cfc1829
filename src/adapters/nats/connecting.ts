// A connection to NATS: that of the user, which stays theirs, or one of our own, which is closed with whoever asked for it.

import {
  type ConsumerMessages,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
} from '@nats-io/jetstream'
import { connect, type NatsConnection, type NodeConnectionOptions } from '@nats-io/transport-node'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'

export interface NatsPatience {
  /** How long a server may be away before the run ends with BROKER_AWAY; a minute if left out. */
  readonly awayFor?: Duration
}

export type NatsConnecting = NatsPatience & NatsServers

export type NatsServers =
  | {
      /** Where to connect to, or with which options of the client: a connection of our own. */
      readonly servers: string | readonly string[] | NodeConnectionOptions
      readonly connection?: never
    }
  | {
      readonly servers?: never
      /** The user's own, which stays open. */
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

export function awayMsOf({ awayFor = '1m' }: NatsPatience): number {
  const awayMs = toMs(awayFor, 'awayFor')
  if (awayMs > 0) return awayMs
  throw new RepriseError('INVALID_ARGUMENT', 'awayFor must be at least 1 ms (got 0)')
}

const pauseMs = 100

/** Until it goes through, for as long as a server may be away. `isOver`: nobody waits for it any more. */
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
      if (Date.now() - since > awayMs) throw awayError(what, awayMs, error)
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
  }
}

export function awayError(what: string, awayMs: number, cause: unknown): RepriseError {
  const last = cause instanceof Error ? cause.message : String(cause)
  const text = `${what}: no server of NATS could do it for ${awayMs} ms (awayFor), the last answer was "${last}"`
  return new RepriseError('BROKER_AWAY', text, { awayMs }, cause)
}

const awayNames = new Set([
  'ClosedConnectionError',
  'ConnectionError',
  'NoRespondersError',
  'RequestError',
  'TimeoutError',
])
/** JetStream is there, and not ready yet. */
const unavailable = 10_008

/** Nobody is there, or nobody answers. What the server refuses, and what is wrong in our own words, does not pass by waiting. */
export function isAway(error: unknown): boolean {
  if (error instanceof RepriseError || !(error instanceof Error)) return false
  if (error instanceof JetStreamApiError) return error.code === unavailable
  const { code } = error as { readonly code?: unknown }
  return awayNames.has(error.name) || (typeof code === 'string' && /^E[A-Z]+$/.test(code))
}

/** How much longer than the server's own limit a request for messages is waited for. */
const lateMs = 2000

/**
 * While it is not connected, the client does not end a request for messages by itself: this does, `lateMs` after the server
 * should have. The returned function ends the watch, and throws if it was too late: what is missing may still be there.
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
    throw Object.assign(new Error('the server did not end a request for messages'), { name: 'TimeoutError' })
  }
}

/** A server that is away at the beginning is waited for as one that goes away later. */
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
  // The broker may be away for a while: whoever waits is told by its own time limit.
  const usual = { maxReconnectAttempts: -1, reconnectTimeWait: 250 }
  if (typeof servers === 'string') return { ...usual, servers }
  return Array.isArray(servers)
    ? { ...usual, servers: [...servers] }
    : { ...usual, ...(servers as NodeConnectionOptions) }
}

/** The code of an answer of JetStream's; null: it was something else. */
export function codeOf(error: unknown): number | null {
  return error instanceof JetStreamApiError ? error.code : null
}

export const streamNotFound = 10_059
export const wrongLastSequence = 10_071
