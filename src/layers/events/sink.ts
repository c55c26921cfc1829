// Where a projection keeps what it makes of events. Each kind of sink binds its state to the position in the feed in one
// commit, so that an event counts exactly once inside, whatever crashes in between.

import type { TimelineId } from '../../core/coordinate.ts'
import { type CursorRow, type FeedPosition, feedStart } from '../../core/ports.ts'
import { whereabouts } from '../../engine/feed/marks.ts'
import type { Place } from '../../engine/guard/zone.ts'
import type { Kernel } from '../../engine/kernel.ts'
import type { Point } from '../../engine/recovery/history.ts'
import type { Occurrence } from './source.ts'

export interface Quarantined {
  readonly timeline: string
  readonly seq: number
  readonly type: string
  readonly error: string
}

/** Where a handler is, for whoever has to tell that it may not do what it does. */
export function placeOf({ type, at }: Occurrence): Place {
  return { timeline: at.timeline, seq: at.seq, type }
}

/** One event and its handler, which may have to wait for something outside. */
export interface Handling {
  readonly occurrence: Occurrence
  /** By the monotonic clock. */
  readonly since: number
}

export interface Sink {
  /** The timeline that holds its position, for people. */
  readonly where: string
  /** What it is at, if it applies events one by one and can say. */
  readonly handling?: Handling | null
  /** Everything up to here is in the state. */
  readonly position: FeedPosition
  readonly quarantine: readonly Quarantined[]
  /** Whether this process may write; a sink in memory can be read without. */
  readonly isOwned: boolean
  /** How far it is as far as anybody can tell from outside: for one that another process has. May be behind where nothing came. */
  stored(): Promise<FeedPosition>
  /** The events after `position`, up to `next`. Throws what a handler threw, as PoisonError; nothing counts then. */
  apply(events: readonly Occurrence[], next: FeedPosition): Promise<void>
  /** This event is to be passed over from now on. */
  setAside(poison: Quarantined): Promise<void>
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

/** A handler threw on one event. */
export class PoisonError extends Error {
  override readonly name: string = 'PoisonError'
  readonly occurrence: Occurrence

  constructor(occurrence: Occurrence, cause: unknown) {
    const { timeline, seq } = occurrence.at
    const reason = cause instanceof Error ? cause.message : String(cause)
    super(`${occurrence.type} at ${timeline}@${seq}: ${reason}`, { cause })
    this.occurrence = occurrence
  }
}

export function quarantinedOf(error: PoisonError): Quarantined {
  const { at, type } = error.occurrence
  return { timeline: at.timeline, seq: at.seq, type, error: error.message }
}

export function isAside(quarantine: readonly Quarantined[], { at }: Occurrence): boolean {
  return quarantine.some(({ timeline, seq }) => timeline === at.timeline && seq === at.seq)
}

/** Where a named cursor stands. */
export async function cursorAt(kernel: Kernel, isWanted: (row: CursorRow) => boolean): Promise<FeedPosition> {
  return (await kernel.store.cursors()).find(isWanted)?.position ?? feedStart
}

/** Without events of ours a position is written only this often: each writing is itself an entry in the feed. */
export const quietMs = 30_000

/** A position that is ahead of what is written, because nothing of ours lay in between. */
export class Ahead {
  #position: FeedPosition | null = null
  #writtenAt: number

  constructor(now: number) {
    this.#writtenAt = now
  }

  over(written: FeedPosition): FeedPosition {
    return this.#position !== null && this.#position > written ? this.#position : written
  }

  /** True: it is not worth writing yet. */
  pass(next: FeedPosition, now: number): boolean {
    this.#position = next
    return now - this.#writtenAt < quietMs
  }

  wrote(now: number): void {
    this.#writtenAt = now
    this.#position = null
  }
}
