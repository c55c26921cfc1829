// Opens a PostgreSQL store: checks the server, creates or checks the schema, returns the store.

import { RepriseError } from '../../core/errors.ts'
import type { Hash, Store } from '../../core/store/ports.ts'
import { refuseWrites } from '../../core/store/read-only.ts'
import { forwardStore } from '../../core/store/store-wrapper.ts'
import { Connections } from './connect.ts'
import { loadDriver } from './driver.ts'
import { checkServer } from './facts.ts'
import { Bell } from './listen.ts'
import { parseLocation } from './location.ts'
import { Presence } from './presence.ts'
import { findSchema, prepareSchema, quoteSchema } from './schema.ts'
import { Session } from './session.ts'
import { PostgresStore } from './store.ts'
import { isStorable } from './text.ts'

export interface PostgresOptions {
  readonly namespace: string
  /** The schema of the tables. Default: `reprise`. */
  readonly schema?: string
  readonly hash: Hash
  /** Maximum number of connections, besides the session that listens and proves that this process is alive. */
  readonly poolSize?: number
  /** How long an unreachable server is retried before STORE_UNREACHABLE. */
  readonly connectTimeoutMs?: number
  /** The time limit of one statement. */
  readonly statementTimeoutMs?: number
  /** Write nothing, neither tables nor rows: for a user who may only read, and for a standby. */
  readonly readOnly?: boolean
}

/** @example const store = await openPostgres('postgres://localhost/app', { namespace: 'shop', hash }) */
export async function openPostgres(url: string, options: PostgresOptions): Promise<Store> {
  const { namespace, schema = 'reprise', hash, poolSize = 8 } = options
  const { connectTimeoutMs = 4000, statementTimeoutMs = 9000, readOnly = false } = options
  const s = quoteSchema(schema)
  if (!isStorable(namespace))
    throw new RepriseError('INVALID_ARGUMENT', 'the namespace must not contain NUL or half of a surrogate pair')
  const location = parseLocation(url)
  const driver = await loadDriver()
  const { isPrepared } = location
  const connections = new Connections(driver, location.url, {
    poolSize,
    connectTimeoutMs,
    statementTimeoutMs,
    isPrepared,
    isReadOnly: readOnly,
    isRelaxed: location.isRelaxed,
  })
  try {
    // A reader cannot lose commits.
    await checkServer(connections, location.isRelaxed || readOnly)
    const number = await (readOnly ? findSchema : prepareSchema)(connections, s, namespace)
    const shown = schema === 'reprise' ? location.shown : `${location.shown}?schema=${schema}`
    const make = (over: Connections): Store => {
      const session = new Session(over)
      const bell = new Bell(over, session, channelName(hash, schema, namespace))
      const presence = new Presence(over, session, s, number)
      const parts = {
        connections: over,
        session,
        bell,
        presence,
        schema: s,
        namespace: number,
        namespaceName: namespace,
      }
      return new PostgresStore({ ...parts, location: shown, isRelaxed: location.isRelaxed, freeze })
    }
    // A query of the user's tables ends its transaction, and with it the frozen snapshot.
    const freeze = async () => forwardStore(refuseWrites(make(await connections.freeze())), { query: refuseQuery })
    const store = make(connections)
    return readOnly ? refuseWrites(store) : store
  } catch (error) {
    await connections.close()
    throw error
  }
}

/** Channels are shared by a whole database, and their names are short. */
function channelName(hash: Hash, schema: string, namespace: string): string {
  const digest = hash(new TextEncoder().encode(`${schema}\n${namespace}`))
  return `reprise_${Buffer.from(digest).toString('hex').slice(0, 24)}`
}

async function refuseQuery(): Promise<never> {
  throw new RepriseError('STORE_UNSUPPORTED', 'a frozen PostgreSQL store cannot query your own tables')
}
