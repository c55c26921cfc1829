// An entry as the engine hands it out, and as it is given in. How it is stored: core/history/entry-run.ts.

import type { TimelineId } from '../../core/coordinate.ts'

/** An entry with its data decoded. */
export interface Entry {
  readonly timeline: TimelineId
  readonly seq: number
  readonly epoch: number
  readonly type: string
  readonly version: number
  readonly time: number
  readonly key: string | undefined
  readonly data: unknown
}

/** An entry as the caller gives it. */
export interface NewEntry {
  readonly type: string
  readonly data: unknown
  readonly version?: number
  /** Applied at most once in this timeline: a second entry with the same key is skipped. */
  readonly key?: string | undefined
  /** The key of the entry before it that it came with: it is skipped if that one is. */
  readonly partOf?: string | undefined
  /** When it happened, if not now; ms since 1970. */
  readonly time?: number
  /** The data is an object that has the type among its fields: it is left out of what is stored. */
  readonly holdsType?: boolean
}
