// What handles, watches, informers and controllers need of a kind that is open in this process, wherever its objects are: in a
// timeline of the store (open-resource.ts), or with another API server (origin-resource.ts).

import type { Coordinate, TimelineId } from '../../core/coordinate.ts'
import type { CheckpointRequest, PublishedCheckpoint } from '../../engine/checkpoint/checkpointer.ts'
import type { Host } from '../../engine/host/host.ts'
import type { ChangePage, ReadPoint } from './history.ts'
import type { Revisions } from './revisions.ts'
import type { Draft, ResourceObject } from './rules/object.ts'
import type { Change, ResourceState } from './rules/state.ts'
import type { ChangeWindow } from './rules/window.ts'

/** The owner of a controller, as a writer: refused once a newer one has made itself known. */
export interface Fence {
  readonly by: string
  readonly epoch: number
}

export interface Asked {
  readonly name: string
  /** What becomes of the object. Null: nothing changes. Called again on newer state; throws to refuse. */
  decide(before: ResourceObject | undefined, now: number): Draft | 'gone' | null
  readonly fence?: Fence | undefined
}

export interface SharedResource {
  readonly engine: Host
  readonly timeline: TimelineId
  /** As owner references name it. */
  readonly kind: string
  readonly open: { readonly coordinate: Coordinate }
  /** As far as this process has read. */
  readonly state: ResourceState
  readonly revision: number
  /** How revisions look outside. */
  readonly revisions: Revisions
  readonly window: ChangeWindow
  /** Grows when history turned out to be another one. */
  readonly branch: number
  readonly isClosed: boolean
  /** False: history has to be looked at again before anything is taken for new. */
  readonly isSettled: boolean
  /** Waiting does not mend it. Null: nothing of the kind. */
  readonly trouble: unknown
  /** Durable when it resolves; with the object as it became, or null if nothing changed. */
  change(asked: Asked): Promise<Change | null>
  /** What its owner writes with from now on. */
  raiseFence(fence: Fence): Promise<Fence>
  /** Sees what others have written by now. */
  refresh(): Promise<void>
  /** As it is now. */
  read(name: string): Promise<ResourceObject | undefined>
  /** What the window no longer has. REVISION_GONE: nobody has it. */
  changesAfter(after: ReadPoint, limit: number): Promise<ChangePage>
  checkpoint(request: CheckpointRequest): Promise<PublishedCheckpoint>
  /** Until the returned function is called, changes of others are noticed as they come. */
  follow(): () => void
  /** Called at the next change, or when it is closed, until the returned function is called. */
  onNews(call: () => void): () => void
  close(): Promise<void>
}
