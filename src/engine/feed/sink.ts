// The state of a subscription. Each kind of sink binds its state to the position in the feed in one commit, so that an item
// counts exactly once, regardless of crashes in between.

import type { TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { type CursorRow, type FeedPosition, feedStart } from '../../core/store/ports.ts'
import type { Place } from '../base/guard/zone.ts'
import type { Point } from '../history/history.ts'
import type { Kernel } from '../storage/kernel.ts'
import { whereabouts } from './feed-marks.ts'

/** An item of a subscription: an entry of the feed, in the form of its reader. */
export interface Occurred {
  readonly type: string
  readonly at: { readonly timeline: string; readonly seq: number; readonly epoch: number; readonly time: number }
}

/** A dead letter: an item that was skipped, because its handler threw. */
export interface Quarantined {
  readonly timeline: string
  readonly seq: number
  /** After a rollback another item may have its sequence, in a later epoch. Missing: recorded by an older version. */
  readonly epoch?: number
  readonly type: string
  readonly error: string
}

/** The place of a handler, for error messages about calls that it must not make. */
export function placeOf({ type, at }: Occurred): Place {
  return { timeline: at.timeline, seq: at.seq, type }
}

/** One item and its handler, which may wait for something outside. */
export interface Handling {
  readonly item: Occurred
  /** Start time, by the monotonic clock. */
  readonly since: number
}

export interface SubscriptionSink<Item extends Occurred> {
  /** The timeline that holds its position, for people. */
  readonly where: string
  /** The current item, if it applies items one by one. */
  readonly handling?: Handling | null
  /** The preferred number of items at once; entry runs are never divided. */
  readonly stepItems?: number
  /** Everything up to this position is in the state. */
  readonly position: FeedPosition
  readonly quarantine: readonly Quarantined[]
  /** Whether this process may write; a sink in memory can be read without ownership. */
  readonly isOwned: boolean
  /**
   * The stored position, for a sink that another process owns. It may be behind where there were no items.
   */
  stored(): Promise<FeedPosition>
  /** Applies the items after `position`, up to `next`. A handler's error is thrown as PoisonError; nothing counts then. */
  apply(items: readonly Item[], next: FeedPosition): Promise<void>
  /** Skips this item from now on. */
  setAside(poison: Quarantined): Promise<void>
  /** Applies a skipped item: it then counts, and is no longer a dead letter. A PoisonError stays one. */
  redrive(item: Item): Promise<void>
  /** Removes a dead letter without applying its item. */
  discard(letter: Quarantined): Promise<void>
  /** Its state is from a lost copy of the store: drops it, and loads the store's state, now or in `idle`. */
  reload(): Promise<void>
  /** Whether the store has the writes of this sink. Unnecessary for a sink that keeps its state in this process. */
  isCurrent?(): Promise<boolean>
  /** The sink's reader calls this: `confirm` rejects if the entries read are no longer in the store. */
  confirmBy?(confirm: () => Promise<void>): void
  /** Called when there is nothing more to read. */
  idle(): Promise<void>
  close(): Promise<void>
}

/** False: the timeline that holds the position is at another point of another history. */
export async function hasWritten(kernel: Kernel, timeline: TimelineId, point: Point): Promise<boolean> {
  return point.seq === 0 || (await whereabouts(kernel, timeline, point)) !== 'gone'
}

/** A handler threw on one item. */
export class PoisonError extends RepriseError {
  readonly item: Occurred
  readonly #text: string

  constructor(item: Occurred, cause: unknown) {
    const { timeline, seq } = item.at
    const reason = cause instanceof Error ? cause.message : String(cause)
    const text = `${item.type} at ${timeline}@${seq}: ${reason}`
    super('HANDLER_FAILED', text, { timeline, seq, type: item.type }, cause)
    this.item = item
    this.#text = text
  }

  get letter(): Quarantined {
    const { at, type } = this.item
    return { timeline: at.timeline, seq: at.seq, epoch: at.epoch, type, error: this.#text }
  }
}

export function isSame(letter: Quarantined, at: { readonly timeline: string; readonly seq: number }): boolean {
  return letter.seq === at.seq && letter.timeline === at.timeline
}

export function isAside(quarantine: readonly Quarantined[], { at }: Occurred): boolean {
  return quarantine.some((letter) => isSame(letter, at) && isOf(letter, at))
}

/** False: a rollback has undone the item of the letter, and another one has its sequence. */
export function isOf({ epoch }: Quarantined, at: { readonly epoch: number }): boolean {
  return epoch === undefined || epoch === at.epoch
}

export function without(quarantine: readonly Quarantined[], at: Parameters<typeof isSame>[1]): readonly Quarantined[] {
  return quarantine.filter((letter) => !isSame(letter, at))
}

/** The position of a named cursor. */
export async function cursorAt(kernel: Kernel, isWanted: (row: CursorRow) => boolean): Promise<FeedPosition> {
  return (await kernel.store.cursors()).find(isWanted)?.position ?? feedStart
}
