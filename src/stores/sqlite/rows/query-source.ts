// The source of queries about timelines: one connection, in one transaction.

import type { Connection } from '../file/connection.ts'
import type { Timelines } from './timelines.ts'
import type { Workers } from './workers.ts'

export interface QuerySource {
  readonly connection: Connection
  readonly space: number
  readonly timelines: Timelines
  readonly workers: Workers
  readonly now: number
}
