// The context and the collected changes of one write transaction. The changes of a commit (apply.ts and the files beside it)
// are collected here as timelines and append frames; the writer (writer.ts) turns them into one log row.

import type { Hash } from '../../../core/store/ports.ts'
import type { Connection } from '../file/connection.ts'
import { Log } from '../log/log.ts'
import type { FrameDraft } from '../log/log-row.ts'
import { UnsettledRuns } from '../log/unsettled.ts'
import { Timelines } from '../rows/timelines.ts'
import { Workers } from '../rows/workers.ts'

export class Writing {
  readonly connection: Connection
  readonly space: number
  readonly hash: Hash
  readonly unsettled: UnsettledRuns
  readonly timelines: Timelines
  readonly workers: Workers
  readonly log: Log
  /** The position of this transaction's row. */
  position = 0
  /** The store's clock at the start of the transaction. */
  now = 0
  frames: FrameDraft[] = []
  /** Rows were changed other than through timelines and frames, and other processes must notice it (log-end.ts). */
  hasOtherChanges = false
  /** Rows were changed that no process caches, so they need no row of the log: a heartbeat, a chunk. */
  hasAside = false
  /** True: something may be due that was not due before. */
  mayBeDue = true

  constructor(connection: Connection, space: number, hash: Hash) {
    this.connection = connection
    this.space = space
    this.hash = hash
    this.unsettled = new UnsettledRuns(connection, hash)
    this.timelines = new Timelines(connection, space, this.unsettled)
    this.workers = new Workers(connection, space)
    this.log = new Log(connection, hash, this)
  }

  get hasChanges(): boolean {
    return this.hasOtherChanges || this.frames.length > 0 || this.timelines.isDirty
  }
}
