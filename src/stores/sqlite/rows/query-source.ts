// What a question about timelines is asked of: one connection, in one transaction.

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
