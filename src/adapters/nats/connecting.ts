// A connection to NATS: that of the user, which stays theirs, or one of our own, which is closed with whoever asked for it.

import {
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
} from '@nats-io/jetstream'
import { connect, type NatsConnection, type NodeConnectionOptions } from '@nats-io/transport-node'
import { RepriseError } from '../../core/errors.ts'

export type NatsConnecting =
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

export const connectingNames = ['servers', 'connection'] as const

export function checkConnecting(name: string, { servers, connection }: NatsConnecting): void {
  if (!connection !== !servers) return
  throw new RepriseError('INVALID_ARGUMENT', `${name} needs either { servers: 'nats://…' } or { connection }`)
}

export async function accessTo({ servers, connection }: NatsConnecting): Promise<NatsAccess> {
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
