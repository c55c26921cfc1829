// What one write transaction works with, and what it has gathered so far. What a commit changes (apply.ts and the
// files beside it) goes into timelines and append frames here; the writer (writer.ts) turns the sum into one log row.

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
  /** The position that this transaction's row will have. */
  position = 0
  /** Store's clock when the transaction began. */
  now = 0
  frames: FrameDraft[] = []
  /** Rows were changed other than through timelines and frames, in a way that others must learn of (log-end.ts). */
  hasOtherChanges = false
  /** Rows were changed that nobody keeps in memory, so that they need no row of the log: a heartbeat, a chunk. */
  hasAside = false
  /** Something may be due after it that was not before. */
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
