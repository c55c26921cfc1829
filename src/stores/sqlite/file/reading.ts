// The reading side: a connection of its own, so that reads never see an open transaction. Each read sees one state of the
// file.

import { crc32 } from 'node:zlib'
import { RepriseError } from '../../../core/errors.ts'
import type { Hash } from '../../../core/store/ports.ts'
import { Log, nothingStaged } from '../log/log.ts'
import { checkReaches, checkVersion } from '../log/log-end.ts'
import { UnsettledRuns } from '../log/unsettled.ts'
import type { CountedInboxes } from '../rows/mail.ts'
import { Timelines } from '../rows/timelines.ts'
import { Workers } from '../rows/workers.ts'
import { findSpace } from '../schema.ts'
import type { AckMark } from './ack-mark.ts'
import type { Connection } from './connection.ts'
import { toStoreError } from './failure.ts'
import { type ReadingConnection, stateOf } from './reading-connection.ts'
import { retryBusy } from './retry.ts'

export interface Reading {
  readonly connection: Connection
  /** -1 for a namespace that was never written: it contains nothing. */
  readonly space: number
  readonly timelines: Timelines
  readonly workers: Workers
  readonly log: Log
  readonly inboxes: CountedInboxes
  /** The time of the current read, which is synchronous. */
  now: number
}

export interface ReaderOptions {
  readonly connect: () => ReadingConnection
  readonly namespace: string
  readonly hash: Hash
  readonly file: string
  readonly busyMs: number
  readonly clock: () => number
  /** Null: the file is read as far as possible, even if acknowledged rows are missing at its end. */
  readonly ack: AckMark | null
}

const attemptsMax = 10
/** The number of timelines cached between reads. */
const keptMax = 1000

/** Data read from one state of the file. The version is SQLite's: it changes with every commit of another connection. */
interface Kept {
  readonly version: number
  /** The minimum position that the log of this state reaches. */
  readonly acknowledged: number
  readonly reading: Reading
}

export class Reader {
  readonly #options: ReaderOptions
  #connected: ReadingConnection | null = null
  #unsettled: UnsettledRuns | null = null
  #space: number | null = null
  #kept: Kept | null = null
  #isFrozen = false
  readonly #inboxes: CountedInboxes = new Map()

  constructor(options: ReaderOptions) {
    this.#options = options
  }

  /** From here on, every read returns the current state of the file, until `close`. */
  async freeze(): Promise<void> {
    await this.read(({ connection }) => {
      // The transaction of this read stays open.
      connection.holdSnapshot()
      this.#isFrozen = true
    })
  }

  async read<Result>(work: (reading: Reading) => Result): Promise<Result> {
    const { busyMs, file } = this.#options
    try {
      return await retryBusy(busyMs, () => this.#readOnce(work))
    } catch (error) {
      throw toStoreError(error, 'read', file)
    }
  }

  /** Repeats a read without a transaction if all of it is cached and nothing was written since. Null: read it. */
  reread<Result>(work: (reading: Reading) => Result): { readonly result: Result } | null {
    const kept = this.#kept
    if (!kept || kept.reading.timelines.count > keptMax || this.#connected?.state !== null) return null
    const { connection } = kept.reading
    try {
      if ((this.#options.ack?.position() ?? 0) > kept.acknowledged) return null
      if (connection.dataVersion() !== kept.version) return null
      return connection.silently(() => work(asOf(kept.reading, this.#options.clock())))
    } catch {
      // A regular read reports the error better.
      return null
    }
  }

  connection(): Connection {
    this.#connected ??= this.#options.connect()
    return this.#connected.connection
  }

  /** True: read through SQLite's locks and log, not directly. */
  get isOnFile(): boolean {
    this.connection()
    return this.#connected!.state === null
  }

  /** A file that is read directly gives no information about its writers. */
  durability(): Readonly<Record<string, string>> {
    const connection = this.connection()
    return this.#connected!.state === null ? { ...connection.durability() } : { access: 'read only' }
  }

  /** Changes whenever a process has written. */
  dataVersion(): number {
    const connection = this.connection()
    const state = this.#connected!.state === null ? null : stateOf(this.#options.file)
    return state === null ? connection.dataVersion() : crc32(state)
  }

  close(): void {
    this.#connected?.close()
    this.#connected = null
    this.#unsettled = null
    this.#kept = null
  }

  #readOnce<Result>(work: (reading: Reading) => Result): Result {
    for (let attempt = 1; ; attempt++) {
      this.#forgetOldState()
      const connection = this.connection()
      try {
        // Read before the snapshot, which then contains everything acknowledged so far.
        const acknowledged = this.#isFrozen ? 0 : (this.#options.ack?.position() ?? 0)
        const result = connection.snapshot(() => work(this.#reading(connection, acknowledged)))
        if (!this.#forgetOldState()) return result
      } catch (error) {
        if (!this.#forgetOldState()) throw error
      }
      if (attempt === attemptsMax)
        throw new RepriseError('STORE_BUSY', 'the file changed during every attempt to read it')
    }
  }

  /** A file that is read directly may have changed: cached data of its old state is dropped. */
  #forgetOldState(): boolean {
    const state = this.#connected?.state ?? null
    if (state === null || state === stateOf(this.#options.file)) return false
    if (this.#isFrozen) throw new RepriseError('STORE_BUSY', 'the file has changed: its earlier state cannot be read')
    this.close()
    return true
  }

  #reading(connection: Connection, acknowledged: number): Reading {
    const { namespace, hash, clock } = this.#options
    // The first statement of the transaction: from here on it sees one state of the file, and this is its version.
    const version = connection.dataVersion()
    const kept = this.#kept
    const isSame = kept?.version === version && acknowledged <= kept.acknowledged
    if (isSame && kept.reading.timelines.count <= keptMax) return asOf(kept.reading, clock())
    this.#kept = null
    checkVersion(connection)
    if (acknowledged > 0) checkReaches(connection, acknowledged)
    this.#space ??= findSpace(connection, namespace)
    const space = this.#space ?? -1
    this.#unsettled ??= new UnsettledRuns(connection, hash)
    this.#unsettled.begin()
    const reading = {
      connection,
      space,
      timelines: new Timelines(connection, space, this.#unsettled),
      workers: new Workers(connection, space),
      log: new Log(connection, hash, nothingStaged, new Map()),
      inboxes: this.#inboxes,
      now: clock(),
    }
    if (this.#space !== null) this.#kept = { version, acknowledged, reading }
    return reading
  }
}

function asOf(reading: Reading, now: number): Reading {
  reading.now = now
  return reading
}
