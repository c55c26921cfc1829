// The record of a worker in a store: one row per process, renewed by its heartbeat. Part of the store's contract (ports.ts).

import type { WorkerId } from '../coordinate.ts'
import type { Attribute } from './attribute.ts'

export interface WorkerRecord {
  readonly id: WorkerId
  readonly name: string
  /** Identity of the process: host, process namespace, pid and start time, so that a reused pid is not mistaken for it. */
  readonly host: string
  readonly process: string
  readonly leaseMs: number
  /** Queues and definitions it serves, and its counters, for people. */
  readonly info: Readonly<Record<string, Attribute>>
  /** Grows with recoverable progress (`progressAt` is the time of the last change): alive without progress means stuck. */
  readonly progress: number
}

export interface WorkerRow extends WorkerRecord {
  readonly startedAt: number
  readonly beatAt: number
  readonly progressAt: number
  readonly isAlive: boolean
  readonly isRetired: boolean
  /**
   * The worker had a session with the store and has lost it, regardless of its lease: it died, or is reconnecting. False if
   * the store has no such information, and for a worker whose session it never saw.
   */
  readonly isGone: boolean
}
