// Changes of PostgreSQL tables as a source, by logical decoding. It starts with the existing rows, as of the moment at which
// the slot begins, so that no change is missing or repeated. A position is the end of a transaction; a transaction is passed
// on as a whole, and so are the initial rows. The server may discard earlier changes once their checkpoint is published.

import type { Client } from 'pg'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { Positions, Source, SourceContext, SourceReader } from '../../layers/pipeline/source.ts'
import { ReadyQueue } from '../../layers/pipeline/sources/ready-queue.ts'
import type { PostgresChange } from './decode.ts'
import { ensurePublication, findSlot, freeSlot, loadPg, lsnOf, lsnText, quoted, tablesOf } from './slot.ts'
import { ReplicationStream } from './stream.ts'

export interface PostgresCdcOptions {
  /** URL of the database; its user needs the REPLICATION right, and the server wal_level = logical. */
  readonly url: string
  /** Created if it does not exist and `tables` are named. Default: `reprise_PIPELINE_SOURCE`. */
  readonly publication?: string
  /** Such as `orders` or `shop.orders`: for a publication that the source creates. */
  readonly tables?: readonly string[]
  /** The slot belongs to this source: one without a checkpoint is recreated. Default: `reprise_PIPELINE_SOURCE`. */
  readonly slot?: string
  /** Start with the existing rows, as one batch. Default: true. */
  readonly snapshot?: boolean
  /** More initial rows, or more changes in one transaction, are refused (LIMIT_EXCEEDED). Default: 1,000,000. */
  readonly rowsMax?: number
}

const known = namesOf<PostgresCdcOptions>()('url publication tables slot snapshot rowsMax')

/** @example p.from('orders', postgresCdcSource({ url, tables: ['orders'] })) */
export function postgresCdcSource(options: PostgresCdcOptions): Source<PostgresChange> {
  checkOptions('postgresCdcSource', options, known)
  if (typeof options.url !== 'string') throw new RepriseError('INVALID_ARGUMENT', 'postgresCdc needs { url }')
  return {
    kind: 'postgresCdc',
    // A slot has one reader, and does not repeat changes that it has passed.
    isExclusive: true,
    async open(from, context) {
      const { Client } = await loadPg()
      const client = new Client({ connectionString: options.url })
      client.on('error', () => undefined)
      await client.connect()
      try {
        return await CdcReader.open(client, options, from, context)
      } finally {
        await client.end()
      }
    },
  }
}

class CdcReader implements SourceReader<PostgresChange> {
  readonly #stream: ReplicationStream
  readonly #ready: ReadyQueue<PostgresChange>
  readonly #signal: AbortSignal
  readonly #onAbort = () => void this.#end()
  #ending: Promise<void> | null = null

  private constructor(stream: ReplicationStream, ready: ReadyQueue<PostgresChange>, signal: AbortSignal) {
    this.#stream = stream
    this.#ready = ready
    this.#signal = signal
    signal.addEventListener('abort', this.#onAbort, { once: true })
    if (signal.aborted) this.#onAbort()
  }

  static async open(
    client: Client,
    options: PostgresCdcOptions,
    from: Positions | null,
    { pipeline, name, signal }: SourceContext,
  ): Promise<CdcReader> {
    const own = `reprise_${pipeline}_${name}`
      .toLowerCase()
      .replaceAll(/[^a-z0-9_]+/g, '_')
      .slice(0, 63)
    const { slot = own, publication = own, tables = null, snapshot = true, rowsMax = 1_000_000 } = options
    const position = from?.get('')
    if (position !== undefined && !isPosition(position)) {
      const what = 'the position of this source must be a place in the log: another source used its name before'
      throw new RepriseError('INVALID_ARGUMENT', what, { position })
    }
    await ensurePublication(client, publication, tables)
    await freeSlot(client, slot)
    const ready = new ReadyQueue<PostgresChange>()
    const stream = await ReplicationStream.connect({ url: options.url, slot, publication, rowsMax }, ready)
    try {
      if (position === undefined) {
        const begun = await stream.createSlot(await findSlot(client, slot))
        const rows = snapshot ? await readRows(client, publication, begun.snapshot, rowsMax) : []
        void ready.push({ partition: '', values: rows, position: { lsn: lsnText(begun.lsn) } })
        await stream.start(begun.lsn)
      } else {
        const lsn = lsnOf(position.lsn)
        await checkThere(client, slot, lsn)
        await stream.start(lsn)
      }
      return new CdcReader(stream, ready, signal)
    } catch (error) {
      await stream.close()
      throw error
    }
  }

  partitions(): readonly string[] {
    return ['']
  }

  read(max: number) {
    return this.#ready.take(max)
  }

  /** The server may discard earlier changes. */
  async published(positions: Positions): Promise<void> {
    const position = positions.get('')
    if (isPosition(position)) this.#stream.acknowledge(lsnOf(position.lsn))
  }

  async close(): Promise<void> {
    this.#signal.removeEventListener('abort', this.#onAbort)
    await this.#end()
  }

  #end(): Promise<void> {
    this.#ready.close()
    this.#ending ??= this.#stream.close()
    return this.#ending
  }
}

function isPosition(position: unknown): position is { readonly lsn: string } {
  const { lsn } = (position ?? {}) as { readonly lsn?: unknown }
  return typeof lsn === 'string' && /^[0-9A-F]+\/[0-9A-F]+$/.test(lsn)
}

async function checkThere(client: Client, slot: string, lsn: bigint): Promise<void> {
  const found = await findSlot(client, slot)
  const hint = 'Run the pipeline under another id: it begins with the current rows of the tables.'
  const data = { slot, position: lsnText(lsn) }
  if (!found) {
    throw new RepriseError(
      'POSITION_GONE',
      `the replication slot ${slot} was dropped, together with the changes after ${lsnText(lsn)}`,
      data,
      undefined,
      hint,
    )
  }
  if (found.isLost) {
    const what = `the server removed changes that the slot ${slot} needed (max_slot_wal_keep_size)`
    throw new RepriseError('POSITION_GONE', what, data, undefined, hint)
  }
  if (found.confirmed !== null && found.confirmed > lsn) {
    const what = `the slot ${slot} is at ${lsnText(found.confirmed)}, behind this position, and a slot cannot move back`
    throw new RepriseError('POSITION_GONE', what, data, undefined, `Resume from the newest checkpoint. Or: ${hint}`)
  }
}

/** The rows of all tables at the moment at which the slot begins. */
async function readRows(
  client: Client,
  publication: string,
  snapshot: string,
  rowsMax: number,
): Promise<PostgresChange[]> {
  const all: PostgresChange[] = []
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
  try {
    await client.query(`SET TRANSACTION SNAPSHOT '${snapshot.replaceAll("'", "''")}'`)
    const { rows: clock } = await client.query('SELECT (extract(epoch FROM now()) * 1000)::float8 AS now')
    const time = Math.floor((clock[0] as { now: number }).now)
    for (const { schema, table } of await tablesOf(client, publication)) {
      const name = `${quoted(schema)}.${quoted(table)}`
      const { rows } = await client.query(`SELECT * FROM ${name} LIMIT ${rowsMax - all.length + 1}`)
      for (const row of rows) all.push({ kind: 'snapshot', schema, table, row, before: null, time })
      if (all.length <= rowsMax) continue
      const what = `the tables of ${publication} have more than ${rowsMax} rows, and a snapshot is delivered as one batch`
      const hint = 'Raise rowsMax, or set { snapshot: false } on its source.'
      throw new RepriseError('LIMIT_EXCEEDED', what, { publication, rowsMax }, undefined, hint)
    }
  } finally {
    await client.query('ROLLBACK').catch(() => undefined)
  }
  return all
}
