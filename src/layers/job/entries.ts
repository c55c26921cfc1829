// The entries of a job's history. One `done` entry holds all items that became durable together, with the source
// position that they reach: state and position share one coordinate.

import { boundedText, thrownText, userFrames } from '../../core/failure-text.ts'

/** The position of the source, and the number of items before it (to compare positions of one pass). */
export interface Cursor {
  readonly position: unknown
  readonly ordinal: number
}

/** An error as history stores it. */
export interface ItemFailure {
  readonly name: string
  readonly message: string
  readonly code?: string
  readonly stack?: string
}

export interface StartedData {
  readonly round: number
  readonly shards: number
  readonly shard: number
  readonly input?: unknown
  /** Keys are kept only until the cursor has passed them: they begin with its position. */
  readonly forgets?: boolean
  /** The identity of this life of the timeline (core/identity.ts); part of every key. Missing in older jobs. */
  readonly identity?: string
  /** The items are entries, and their keys contain a digest of the entry. Missing in older consumers. */
  readonly entryKeys?: boolean
  /** Traceparents (W3C) if traced: of the start of the round, and of this run in this process. */
  readonly trace?: string
  readonly span?: string
}

export interface DoneData {
  readonly keys: readonly string[]
  /** Parallel to the keys; '' for an item without a version. */
  readonly versions?: readonly string[]
  readonly results?: readonly unknown[]
  readonly cursor?: Cursor | null
}

export interface FailedData {
  readonly key: string
  readonly version?: string
  readonly attempts: number
  readonly error: ItemFailure
  /** Database time; the item is not retried before it. */
  readonly retryAt: number
}

export interface DeadData {
  readonly key: string
  readonly version?: string
  /** Undefined if it could not be stored; a redrive then needs the source to yield it again. */
  readonly item?: unknown
  readonly hasItem: boolean
  /** The item could not be read and is in the source's stored form. */
  readonly unread?: true
  readonly attempts: number
  readonly error: ItemFailure
  readonly cursor?: Cursor | null
}

export interface RedrivenData {
  readonly keys: readonly string[]
  /** Replacements for stored items, by key. */
  readonly edits?: Readonly<Record<string, unknown>>
}

export interface FinishedData {
  readonly round: number
  readonly done: number
  readonly skipped: number
  readonly failed: number
  readonly cursor: Cursor | null
}

export interface EntryData {
  readonly started: StartedData
  readonly done: DoneData
  readonly moved: { readonly cursor: Cursor | null }
  /** Items about to be tried right after a crash, so that an item that kills the process is identified. */
  readonly begun: { readonly keys: readonly string[] }
  readonly failed: FailedData
  readonly dead: DeadData
  readonly redriven: RedrivenData
  readonly discarded: { readonly keys: readonly string[] }
  /** Keys finished elsewhere: as text, or as hexadecimal fingerprints if the text is gone. */
  readonly imported: { readonly keys?: readonly string[]; readonly prints?: readonly string[]; readonly from: string }
  readonly paused: { readonly because: string; readonly until: number }
  readonly resumed: { readonly because: string }
  readonly stopped: { readonly because: string }
  readonly finished: FinishedData
}

export type EntryType = keyof EntryData

export function entry<Type extends EntryType>(type: Type, data: EntryData[Type]) {
  return { type, data }
}

const framesMax = 6

export function toFailure(error: unknown): ItemFailure {
  if (!(error instanceof Error)) return { name: 'Error', message: thrownText(error) }
  const { code } = error as { code?: unknown }
  const stack = error.stack && userFrames(error.stack, framesMax)
  return {
    name: boundedText(error.name),
    message: boundedText(error.message),
    ...(typeof code === 'string' && { code }),
    ...(stack && { stack }),
  }
}
