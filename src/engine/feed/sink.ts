// Where a subscription keeps what it makes of the feed. Each kind of sink binds its state to the position in the feed
// in one commit, so that an item counts exactly once inside, whatever crashes in between.

import type { TimelineId } from '../../core/coordinate.ts'
import { type CursorRow, type FeedPosition, feedStart } from '../../core/store/ports.ts'
import type { Place } from '../base/guard/zone.ts'
import type { Point } from '../history/history.ts'
import type { Kernel } from '../storage/kernel.ts'
import { whereabouts } from './marks.ts'

/** An item of a subscription: an entry of the feed, in whatever form its reader gives it. */
export interface Occurred {
  readonly type: string
  readonly at: { readonly timeline: string; readonly seq: number; readonly time: number }
}

/** A dead letter: an item that was passed over, because its handler threw. */
export interface Quarantined {
  readonly timeline: string
  readonly seq: number
  readonly type: string
  readonly error: string
}

/** Where a handler is, for whoever has to tell that it may not do what it does. */
export function placeOf({ type, at }: Occurred): Place {
  return { timeline: at.timeline, seq: at.seq, type }
}

/** One item and its handler, which may have to wait for something outside. */
export interface Handling {
  readonly item: Occurred
  /** By the monotonic clock. */
  readonly since: number
}

export interface Sink<Item extends Occurred> {
  /** The timeline that holds its position, for people. */
  readonly where: string
  /** What it is at, if it applies items one by one and can say. */
  readonly handling?: Handling | null
  /** How many items it wants to be given at once, about; whole entry runs are never divided. */
  readonly stepItems?: number
  /** Everything up to here is in the state. */
  readonly position: FeedPosition
  readonly quarantine: readonly Quarantined[]
  /** Whether this process may write; a sink in memory can be read without. */
  readonly isOwned: boolean
  /**
   * How far it is as far as anybody can tell from outside: for one that another process has. May be behind where
   * nothing came.
   */
  stored(): Promise<FeedPosition>
  /** The items after `position`, up to `next`. Throws what a handler threw, as PoisonError; nothing counts then. */
  apply(items: readonly Item[], next: FeedPosition): Promise<void>
  /** This item is to be passed over from now on. */
  setAside(poison: Quarantined): Promise<void>
  /** Applies an item that was passed over: it counts now, and is no dead letter any more. PoisonError leaves it one. */
  redrive(item: Item): Promise<void>
  /** What it holds is of a copy of the store that is no longer up: drops it, and takes what the store has, now or in `idle`. */
  reload(): Promise<void>
  /** Whether the store has what this sink has written. A sink that keeps its state here needs none. */
  isCurrent?(): Promise<boolean>
  /** Called by whoever reads for it: `confirm` rejects if what was read is no longer in the store. */
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
export class PoisonError extends Error {
  override readonly name: string = 'PoisonError'
  readonly item: Occurred

  constructor(item: Occurred, cause: unknown) {
    const { timeline, seq } = item.at
    const reason = cause instanceof Error ? cause.message : String(cause)
    super(`${item.type} at ${timeline}@${seq}: ${reason}`, { cause })
    this.item = item
  }

  get letter(): Quarantined {
    const { at, type } = this.item
    return { timeline: at.timeline, seq: at.seq, type, error: this.message }
  }
}

export function isSame(letter: Quarantined, at: { readonly timeline: string; readonly seq: number }): boolean {
  return letter.seq === at.seq && letter.timeline === at.timeline
}

export function isAside(quarantine: readonly Quarantined[], { at }: Occurred): boolean {
  return quarantine.some((letter) => isSame(letter, at))
}

export function without(quarantine: readonly Quarantined[], at: Parameters<typeof isSame>[1]): readonly Quarantined[] {
  return quarantine.filter((letter) => !isSame(letter, at))
}

/** Where a named cursor stands. */
export async function cursorAt(kernel: Kernel, isWanted: (row: CursorRow) => boolean): Promise<FeedPosition> {
  return (await kernel.store.cursors()).find(isWanted)?.position ?? feedStart
}
