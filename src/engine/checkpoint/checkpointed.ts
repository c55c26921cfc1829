// The part of an open timeline that its checkpointer needs.

import type { Coordinate, TimelineId } from '../../core/coordinate.ts'
import type { RepriseError } from '../../core/errors.ts'
import type { EffectLedger } from '../../core/history/effects.ts'
import type { Commit, ManifestMark, NewManifest } from '../../core/store/ports.ts'
import type { CapturedParts } from '../history/state.ts'
import type { NewEntry } from '../model/entry.ts'

export interface CheckpointedTimeline<State> {
  readonly id: TimelineId
  readonly seq: number
  readonly epoch: number
  readonly coordinate: Coordinate
  readonly digest: Uint8Array
  readonly state: State
  readonly ledger: EffectLedger
  readonly isOwner: boolean
  readonly isShared: boolean
  readonly broken: RepriseError | null
  /** Grows with each change of the state. */
  readonly touches: number
  captureParts(): CapturedParts
  publish(record: NewManifest): Promise<void>
  mark(mark: ManifestMark, attributes?: Commit['attributes']): Promise<void>
  note(attributes: NonNullable<Commit['attributes']>): Promise<void>
  write(entries: readonly NewEntry[]): Promise<unknown>
}
