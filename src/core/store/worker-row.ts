// A worker as a store keeps it: one row for each process, renewed by its heartbeat. Part of the store's contract (ports.ts).

import type { WorkerId } from '../coordinate.ts'
import type { Attribute } from './attribute.ts'

export interface WorkerRecord {
  readonly id: WorkerId
  readonly name: string
  /** Identity of the process: host, process namespace, pid and its start, so that a reused pid is not taken for it. */
  readonly host: string
  readonly process: string
  readonly leaseMs: number
  /** Queues and definitions it serves, and its counters: shown to people. */
  readonly info: Readonly<Record<string, Attribute>>
  /** Grows with recoverable progress (`progressAt` is when it last changed): alive without progress is stuck. */
  readonly progress: number
}

export interface WorkerRow extends WorkerRecord {
  readonly startedAt: number
  readonly beatAt: number
  readonly progressAt: number
  readonly isAlive: boolean
  readonly isRetired: boolean
  /**
   * The worker had a session with the store and has none now, whatever its lease says: it died, or is just coming back.
   * A store that cannot tell says false, and of a worker whose session it could never see.
   */
  readonly isGone: boolean
}
