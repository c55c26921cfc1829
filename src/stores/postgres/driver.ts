// The part of the driver `pg` that this store uses. The driver is optional: it is imported only when a postgres URL is
// opened, and its types are declared here so that the types of Reprise do not depend on it.

import { driverMissing } from '../../core/driver-missing.ts'

export interface QueryResult {
  readonly rows: Record<string, unknown>[]
  readonly rowCount: number | null
  /** The first word of the executed command: INSERT, COMMIT, ROLLBACK. */
  readonly command: string
}

export interface QueryConfig {
  /** Extended: exactly one statement. `rows` has the same effect on drivers that do not support queryMode yet. */
  readonly queryMode?: 'extended'
  readonly rows?: number
  readonly text: string
  readonly values?: readonly unknown[]
  readonly name?: string
  readonly query_timeout?: number
  readonly types?: TypeParsers
  readonly rowMode?: 'array'
}

interface TypeParsers {
  getTypeParser(oid: number, format?: string): (value: string) => unknown
}

/** Messages of the protocol, as queries send them. */
export interface DriverConnection {
  /** The socket that the driver uses on workerd cannot be corked. */
  readonly stream: { cork?(): void; uncork?(): void }
  /** By name: the statements prepared in this session. */
  readonly parsedStatements: Record<string, string>
  parse(statement: { readonly name: string; readonly text: string }): void
  bind(portal: { readonly statement?: string; readonly values?: readonly (string | Buffer | null)[] }): void
  close(what: { readonly type: 'S'; readonly name: string }): void
  execute(portal: object): void
  sync(): void
}

/** A query that sends its own messages and receives the answers. */
export interface Submittable {
  submit(connection: DriverConnection): null
}

/** The driver's own query, with its result. Several statements return a list of results. */
export interface DriverQuery extends Submittable {
  callback: (error: unknown, result?: QueryResult | QueryResult[]) => void
  submit(connection: DriverConnection): null
}

export interface DriverClient {
  connect(): Promise<void>
  query(query: QueryConfig): Promise<QueryResult>
  query(query: Submittable): unknown
  release(error?: Error | boolean): void
  end(): Promise<void>
  on(event: string, call: (value: never) => void): void
  /** The server's process id for this session, sent at connect; behind a pooler, another number. */
  readonly processID?: number | null
  unref?(): void
}

export interface DriverPool {
  connect(): Promise<DriverClient>
  end(): Promise<void>
  on(event: 'connect' | 'error', call: (value: never) => void): void
}

export interface Driver {
  readonly Pool: new (config: Readonly<Record<string, unknown>>) => DriverPool
  readonly Client: (new (config: Readonly<Record<string, unknown>>) => DriverClient) & Pick<Driver, 'Query'>
  readonly Query: new (config: QueryConfig) => DriverQuery
  readonly types: TypeParsers
}

export async function loadDriver(): Promise<Driver> {
  try {
    const module = (await import('pg')) as unknown as { default?: Driver } & Driver
    const driver = module.default ?? module
    // The driver of Neon exports its query only there.
    return { ...driver, Query: driver.Query ?? driver.Client.Query }
  } catch (cause) {
    throw driverMissing('opening a postgres URL', ['pg'], cause)
  }
}

/** Parsers for our own results: numbers as numbers (all of ours are below 2^53), bytes as plain Uint8Arrays. */
export const ownTypes: TypeParsers = { getTypeParser: (oid) => parsers[oid] ?? asText }

const asText = (value: string): unknown => value
const parsers: Readonly<Record<number, (value: string) => unknown>> = {
  16: (value) => value === 't',
  17: fromByteaText,
  20: Number,
  21: Number,
  23: Number,
  26: Number,
  114: JSON.parse,
  701: Number,
  3802: JSON.parse,
}

/** The driver has only the text form of bytes: \\x and hexadecimal or, depending on bytea_output, the older one. */
export function fromByteaText(value: string): Uint8Array {
  if (!value.startsWith('\\x')) return fromEscapes(value)
  const bytes = new Uint8Array((value.length - 2) / 2)
  const view = Buffer.from(bytes.buffer)
  view.write(value.slice(2), 'hex')
  return bytes
}

/** A backslash is doubled; an unprintable byte is a backslash and three octal digits; any other byte is itself. */
function fromEscapes(value: string): Uint8Array {
  const bytes = value.replace(/\\(\\|[0-7]{3})/g, (_, piece: string) =>
    piece === '\\' ? piece : String.fromCharCode(Number.parseInt(piece, 8)),
  )
  return new Uint8Array(Buffer.from(bytes, 'latin1'))
}
