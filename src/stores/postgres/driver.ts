// The driver `pg`, as much of it as this store uses. It is optional: imported when a postgres URL is opened and not
// before, and its types are written down here so that ours do not need its.

import { RepriseError } from '../../core/errors.ts'

export interface QueryResult {
  readonly rows: Record<string, unknown>[]
  readonly rowCount: number | null
  /** The first word of what was done: INSERT, COMMIT, ROLLBACK. */
  readonly command: string
}

export interface QueryConfig {
  /** Extended: one statement, and never several at once. `rows` asks for the same of drivers that do not know it yet. */
  readonly queryMode?: 'extended'
  readonly rows?: number
  readonly text: string
  readonly values?: readonly unknown[]
  readonly name?: string
  readonly query_timeout?: number
  readonly types?: { getTypeParser(oid: number, format?: string): (value: string) => unknown }
}

/** Messages of the protocol, as queries send them. */
export interface DriverConnection {
  readonly stream: { cork(): void; uncork(): void }
  /** By name: the statements that this session has. */
  readonly parsedStatements: Record<string, string>
  parse(statement: { readonly name: string; readonly text: string }): void
  bind(portal: { readonly statement?: string; readonly values?: readonly (string | Buffer | null)[] }): void
  close(what: { readonly type: 'S'; readonly name: string }): void
  execute(portal: object): void
  sync(): void
}

/** A query that sends its own messages and takes the answers. */
export interface Submittable {
  submit(connection: DriverConnection): null
}

/** The driver's own query, with its result. Several statements give a list of results. */
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
  /** What the server said at connect is its process for this session; a pooler says something else. */
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
  readonly Client: new (config: Readonly<Record<string, unknown>>) => DriverClient
  readonly Query: new (config: QueryConfig) => DriverQuery
}

export async function loadDriver(): Promise<Driver> {
  try {
    const module = (await import('pg')) as unknown as { default?: Driver } & Driver
    return module.default ?? module
  } catch (cause) {
    throw new RepriseError('DRIVER_MISSING', 'opening a postgres URL needs the package pg: npm install pg', {}, cause)
  }
}

/** How our own results are read: numbers as numbers (all of ours are below 2^53), bytes as plain Uint8Arrays. */
export const ownTypes: NonNullable<QueryConfig['types']> = { getTypeParser: (oid) => parsers[oid] ?? asText }

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

/** The driver only has the text form of bytes: \\x and hexadecimal, or, where bytea_output is set to it, the older one. */
export function fromByteaText(value: string): Uint8Array {
  if (!value.startsWith('\\x')) return fromEscapes(value)
  const bytes = new Uint8Array((value.length - 2) / 2)
  const view = Buffer.from(bytes.buffer)
  view.write(value.slice(2), 'hex')
  return bytes
}

/** A backslash is doubled, what cannot be printed is a backslash and three octal digits, the rest is itself. */
function fromEscapes(value: string): Uint8Array {
  const bytes = value.replace(/\\(\\|[0-7]{3})/g, (_, piece: string) =>
    piece === '\\' ? piece : String.fromCharCode(Number.parseInt(piece, 8)),
  )
  return new Uint8Array(Buffer.from(bytes, 'latin1'))
}
