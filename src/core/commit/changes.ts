// The changes of an accepted commit. A store applies them in the order of the fields.

import type { ManifestId, MessageId, TimelineId } from '../coordinate.ts'
import type { Attribute, EntryRun, FeedPosition, ManifestMark, NewManifest, OutgoingMessage } from '../store/ports.ts'
import type { HeadFacts } from './view.ts'

export interface Changes {
  readonly timeline: TimelineId
  /** Removes the timeline and everything that belongs to it; such a commit has no other part. Modes: see Commit.forget. */
  readonly forget: false | true | 'erase' | 'moved'
  /** The head with which the timeline is created, before the parts below. */
  readonly made: HeadFacts | null
  /** The previous history moves to the archive id; this id continues from `goesOnFrom`, without runs and checkpoints. */
  readonly archived: { readonly as: TimelineId; readonly head: HeadFacts; readonly goesOnFrom: HeadFacts } | null
  readonly run: EntryRun | null
  readonly published: readonly NewManifest[]
  readonly marked: readonly ManifestMark[]
  readonly dropped: readonly ManifestId[]
  readonly trimmedTo: number | null
  readonly consumed: readonly MessageId[]
  /** Requests that the commit removes. */
  readonly settled: readonly number[]
  /** Only the new messages. */
  readonly sent: readonly OutgoingMessage[]
  /** A null position removes the cursor. */
  readonly cursors: readonly { readonly name: string; readonly position: FeedPosition | null }[]
  /** The head after all changes. */
  readonly head: HeadFacts
  /** Undefined: unchanged. */
  readonly wakeup: number | null | undefined
  readonly queue: string | null | undefined
  readonly priority: number | undefined
  readonly status: string | undefined
  readonly attributes: Readonly<Record<string, Attribute | null>> | undefined
}
