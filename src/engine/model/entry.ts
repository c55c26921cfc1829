// An entry as the engine returns it, and as callers append it. core/history/entry-run.ts owns the stored format.

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

/** An entry to append. */
export interface NewEntry {
  readonly type: string
  readonly data: unknown
  readonly version?: number
  /** Applied at most once per timeline: a second entry with the same key is skipped. */
  readonly key?: string | undefined
  /** The key of an earlier entry of the same append: this entry is skipped if that one is. */
  readonly partOf?: string | undefined
  /** When it happened, in ms since 1970. Default: now. */
  readonly time?: number
  /** `data` is an object that contains the type as a field; the stored data omits that field. */
  readonly holdsType?: boolean
}

const endMark = '$end '

/** The key of the last of several entries that were appended under one key: later entries in history do not belong to them. */
export function endKey(key: string): string {
  return endMark + key
}

export function isEndKey(key: string): boolean {
  return key.startsWith(endMark)
}
