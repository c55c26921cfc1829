// The stream of changes from the server: a connection in replication mode, which assembles transactions and acknowledges
// the position up to which everything is safe. The server is not read while too many changes wait to be taken.

import type { Client } from 'pg'
import { RepriseError } from '../../core/errors.ts'
import type { ReadyQueue } from '../../layers/pipeline/sources/ready-queue.ts'
import { PgoutputDecoder, type PostgresChange } from './decode.ts'
import { loadPg, lsnOf, lsnText, quoted, type Slot } from './slot.ts'

export interface StreamOptions {
  readonly url: string
  readonly slot: string
  readonly publication: string
  readonly rowsMax: number
}

/** The driver's undocumented interface in replication mode. */
interface Wire {
  on(event: 'copyData', call: (message: { readonly chunk: Buffer }) => void): void
  once(event: 'replicationStart', call: () => void): void
  sendCopyFromChunk(chunk: Buffer): void
  readonly stream: { pause(): void; resume(): void }
}

/** The server ends a connection that is silent for a minute. */
const statusMs = 10_000
/** After this much log without own changes the position advances anyway: the server keeps the log after it. */
const silentBytes = 1024n * 1024n
/** Changes that may wait to be taken before the server is no longer read. */
const waitingMax = 10_000

export class ReplicationStream {
  readonly #client: Client
  readonly #wire: Wire
  readonly #options: StreamOptions
  readonly #ready: ReadyQueue<PostgresChange>
  readonly #decoder: PgoutputDecoder
  #acknowledged = 0n
  /** The newest position that was passed on. */
  #position = 0n
  #isInTransaction = false
  #time = 0
  #changes: PostgresChange[] = []
  #waiting = 0
  #timer: NodeJS.Timeout | null = null
  #isClosed = false

  private constructor(
    client: Client,
    options: StreamOptions,
    ready: ReadyQueue<PostgresChange>,
    decoder: PgoutputDecoder,
  ) {
    this.#client = client
    this.#wire = (client as unknown as { readonly connection: Wire }).connection
    this.#options = options
    this.#ready = ready
    this.#decoder = decoder
  }

  static async connect(options: StreamOptions, ready: ReadyQueue<PostgresChange>): Promise<ReplicationStream> {
    const { Client, types } = await loadPg()
    const config = { connectionString: options.url, replication: 'database' }
    const client = new Client(config as { connectionString: string })
    const decoder = new PgoutputDecoder((id) => types.getTypeParser(id, 'text') as (text: string) => unknown)
    const stream = new ReplicationStream(client, options, ready, decoder)
    client.on('error', (error) => stream.#fail(error))
    await client.connect()
    return stream
  }

  /** Also returns the snapshot of that moment, valid until the stream starts. Replaces a slot of a run without a checkpoint. */
  async createSlot(existing: Slot | null): Promise<{ readonly lsn: bigint; readonly snapshot: string }> {
    const { slot } = this.#options
    if (existing) await this.#client.query(`DROP_REPLICATION_SLOT ${quoted(slot)}`)
    try {
      const { rows } = await this.#client.query(
        `CREATE_REPLICATION_SLOT ${quoted(slot)} LOGICAL pgoutput (SNAPSHOT 'export')`,
      )
      const [made] = rows as { consistent_point: string; snapshot_name: string }[]
      return { lsn: lsnOf(made!.consistent_point), snapshot: made!.snapshot_name }
    } catch (error) {
      if ((error as { code?: string }).code !== '55000') throw error
      const what = `${(error as Error).message}: set wal_level = logical in the server's configuration and restart it`
      throw new RepriseError('INVALID_ARGUMENT', what, { slot }, error)
    }
  }

  async start(lsn: bigint): Promise<void> {
    const { slot, publication } = this.#options
    this.#acknowledged = lsn
    this.#position = lsn
    this.#wire.on('copyData', ({ chunk }) => this.#receive(chunk))
    const started = new Promise<void>((resolve) => this.#wire.once('replicationStart', resolve))
    const text = `START_REPLICATION SLOT ${quoted(slot)} LOGICAL ${lsnText(lsn)} (proto_version '1', publication_names '${quoted(publication).replaceAll("'", "''")}')`
    const ended = this.#client.query(text).then(
      () => this.#fail(new Error('the server ended the stream of changes')),
      (error) => {
        this.#fail(error)
        throw error
      },
    )
    ended.catch(() => undefined)
    await Promise.race([started, ended])
    this.#timer = setInterval(() => this.#reportStatus(), statusMs)
    this.#timer.unref()
  }

  /** All changes before this position are in a published checkpoint. It never moves back. */
  acknowledge(lsn: bigint): void {
    if (lsn <= this.#acknowledged) return
    this.#acknowledged = lsn
    this.#reportStatus()
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    if (this.#timer) clearInterval(this.#timer)
    this.#wire.stream.resume()
    // `end` waits for an answer that a dead server does not send.
    const late = new Promise<void>((resolve) => setTimeout(resolve, 2000).unref())
    await Promise.race([this.#client.end().catch(() => undefined), late])
  }

  #receive(chunk: Buffer): void {
    if (this.#isClosed) return
    try {
      const kind = String.fromCharCode(chunk[0]!)
      // A keepalive: how far the server has read its log, and whether it requests an answer.
      if (kind === 'k') {
        this.#passSilence(chunk.readBigInt64BE(1))
        if (chunk[17] === 1) this.#reportStatus()
      }
      // The payload follows two positions and a time.
      if (kind === 'w') this.#take(chunk.subarray(25))
    } catch (error) {
      this.#fail(error)
    }
  }

  #take(payload: Buffer): void {
    const decoded = this.#decoder.decode(payload)
    if (decoded.is === 'begin') {
      this.#time = decoded.time
      this.#isInTransaction = true
    } else if (decoded.is === 'changes') {
      for (const change of decoded.changes) this.#changes.push({ ...change, time: this.#time })
      const { rowsMax } = this.#options
      if (this.#changes.length > rowsMax) {
        const what = `a transaction has more than ${rowsMax} changes, and is delivered as one batch`
        throw new RepriseError('LIMIT_EXCEEDED', what, { rowsMax }, undefined, 'Raise rowsMax at the source.')
      }
    } else if (decoded.is === 'commit') this.#commit(decoded.end)
  }

  #commit(end: bigint): void {
    const values = this.#changes
    this.#changes = []
    this.#isInTransaction = false
    this.#position = end
    this.#waiting += values.length
    if (this.#waiting > waitingMax) this.#wire.stream.pause()
    void this.#ready.push({ partition: '', values, position: { lsn: lsnText(end) } }).then(() => {
      this.#waiting -= values.length
      if (this.#waiting <= waitingMax && !this.#isClosed) this.#wire.stream.resume()
    })
  }

  /** Up to this position the log holds no further changes for this source, only changes of other tables. */
  #passSilence(end: bigint): void {
    if (this.#isInTransaction || end - this.#position < silentBytes) return
    this.#position = end
    void this.#ready.push({ partition: '', values: [], position: { lsn: lsnText(end) }, isDue: true })
  }

  #reportStatus(): void {
    if (this.#isClosed) return
    const bytes = Buffer.alloc(34)
    bytes.write('r')
    // Written, flushed, applied: all are the position of the published checkpoint.
    for (const at of [1, 9, 17]) bytes.writeBigInt64BE(this.#acknowledged, at)
    bytes.writeBigInt64BE((BigInt(Date.now()) - 946_684_800_000n) * 1000n, 25)
    this.#wire.sendCopyFromChunk(bytes)
  }

  #fail(error: unknown): void {
    if (!this.#isClosed) this.#ready.fail(error)
  }
}
