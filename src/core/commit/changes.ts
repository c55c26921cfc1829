// What an accepted commit changes. A store applies the parts in the order in which they stand here.

import type { ManifestId, MessageId, TimelineId } from '../coordinate.ts'
import type { Attribute, EntryRun, FeedPosition, ManifestMark, NewManifest, OutgoingMessage } from '../store/ports.ts'
import type { HeadFacts } from './view.ts'

export interface Changes {
  readonly timeline: TimelineId
  /** It and everything of it goes; nothing else is in such a commit. How: see Commit.forget. */
  readonly forget: false | true | 'erase' | 'moved'
  /** The head it is made with, before the parts below. */
  readonly made: HeadFacts | null
  /** What was there so far goes on under another id; this id goes on without runs and checkpoints from `head`. */
  readonly archived: { readonly as: TimelineId; readonly head: HeadFacts; readonly goesOnFrom: HeadFacts } | null
  readonly run: EntryRun | null
  readonly published: readonly NewManifest[]
  readonly marked: readonly ManifestMark[]
  readonly dropped: readonly ManifestId[]
  readonly trimmedTo: number | null
  readonly consumed: readonly MessageId[]
  /** Those that are new. */
  readonly sent: readonly OutgoingMessage[]
  /** Null: it goes. */
  readonly cursors: readonly { readonly name: string; readonly position: FeedPosition | null }[]
  /** As it is after all of it. */
  readonly head: HeadFacts
  /** Undefined: as before. */
  readonly wakeup: number | null | undefined
  readonly queue: string | null | undefined
  readonly priority: number | undefined
  readonly status: string | undefined
  readonly attributes: Readonly<Record<string, Attribute | null>> | undefined
}
