// The interface that handles, watches, informers and controllers use for a kind that is open in this process, whether its
// objects are in a timeline of the store (open-resource.ts) or with another API server (origin-resource.ts).

import type { Coordinate, TimelineId } from '../../core/coordinate.ts'
import type { CheckpointRequest, PublishedCheckpoint } from '../../engine/checkpoint/checkpointer.ts'
import type { Host } from '../../engine/host/host.ts'
import type { ChangePage, ReadPoint } from './history.ts'
import type { Revisions } from './revisions.ts'
import type { ChangeWindow } from './rules/change-window.ts'
import type { Draft, ResourceObject } from './rules/object.ts'
import type { Change, ResourceState } from './rules/state.ts'

/** The owner of a controller, as a writer: refused once a newer owner is registered. */
export interface Fence {
  readonly by: string
  readonly epoch: number
}

export interface WriteRequest {
  readonly name: string
  /** Returns the next object; null: nothing changes. Called again on newer state; throws to refuse. */
  decide(before: ResourceObject | undefined, now: number): Draft | 'gone' | null
  readonly fence?: Fence | undefined
}

export interface SharedResource {
  readonly engine: Host
  readonly timeline: TimelineId
  /** The kind, as owner references name it. */
  readonly kind: string
  readonly open: { readonly coordinate: Coordinate }
  /** The state as this process last read it. */
  readonly state: ResourceState
  readonly revision: number
  /** Converts between internal and external revisions. */
  readonly revisions: Revisions
  readonly window: ChangeWindow
  /** Incremented when history turned out to be a different one. */
  readonly branch: number
  readonly isClosed: boolean
  /** False: history must be read again before any change counts as new. */
  readonly isSettled: boolean
  /** An error that waiting does not resolve. Null: no such error. */
  readonly trouble: unknown
  /** Resolves when the change is durable, with the changed object, or null if nothing changed. */
  change(request: WriteRequest): Promise<Change | null>
  /** Returns the fence that the owner writes with from now on. */
  raiseFence(fence: Fence): Promise<Fence>
  /** Reads the commits of other processes. */
  refresh(): Promise<void>
  /** The current object. */
  read(name: string): Promise<ResourceObject | undefined>
  /** Changes that the window no longer has. REVISION_GONE: they are no longer stored either. */
  changesAfter(after: ReadPoint, limit: number): Promise<ChangePage>
  checkpoint(request: CheckpointRequest): Promise<PublishedCheckpoint>
  /** Until the returned function is called, changes of other writers are noticed as they happen. */
  follow(): () => void
  /** Calls `call` at the next change or on close, until the returned function is called. */
  onNews(call: () => void): () => void
  close(): Promise<void>
}
