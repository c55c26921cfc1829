// The reading side: a connection of its own, so that reads never see a transaction that is still under way. Each read
// sees one state of the file.

import type { Hash } from '../../core/ports.ts'
import type { Connection } from './connection.ts'
import { toStoreError } from './failure.ts'
import { Log } from './log.ts'
import { checkVersion } from './log-end.ts'
import { LooseRuns } from './loose.ts'
import { retryBusy } from './retry.ts'
import { findSpace } from './schema.ts'
import { Timelines } from './timelines.ts'
import { Workers } from './workers.ts'

export interface Reading {
  readonly connection: Connection
  /** -1 for a namespace that was never written to: nothing is found in it. */
  readonly space: number
  readonly timelines: Timelines
  readonly workers: Workers
  readonly log: Log
  readonly now: number
}

export interface ReaderOptions {
  readonly connect: () => Connection
  readonly namespace: string
  readonly hash: Hash
  readonly file: string
  readonly busyMs: number
  readonly clock: () => number
}

export class Reader {
  readonly #options: ReaderOptions
  #connection: Connection | null = null
  #loose: LooseRuns | null = null
  #space: number | null = null

  constructor(options: ReaderOptions) {
    this.#options = options
  }

  async read<Result>(work: (reading: Reading) => Result): Promise<Result> {
    const { busyMs, file } = this.#options
    try {
      return await retryBusy(busyMs, () => {
        const connection = this.connection()
        return connection.snapshot(() => work(this.#reading(connection)))
      })
    } catch (error) {
      throw toStoreError(error, 'read', file)
    }
  }

  connection(): Connection {
    this.#connection ??= this.#options.connect()
    return this.#connection
  }

  close(): void {
    this.#connection?.close()
    this.#connection = null
    this.#loose = null
  }

  #reading(connection: Connection): Reading {
    const { namespace, hash, clock } = this.#options
    checkVersion(connection)
    this.#space ??= findSpace(connection, namespace)
    const space = this.#space ?? -1
    this.#loose ??= new LooseRuns(connection, hash)
    this.#loose.begin()
    return {
      connection,
      space,
      timelines: new Timelines(connection, space, this.#loose),
      workers: new Workers(connection, space),
      log: new Log(connection, hash),
      now: clock(),
    }
  }
}
