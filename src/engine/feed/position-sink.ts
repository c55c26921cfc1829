// A sink whose position is a timeline of its own. The effects of its items (SQL, messages) belong to the commit that moves the
// position, so both exist or neither does. Only the owner of the timeline writes; fencing refuses all other writers.
//
// Entries: advanced { position, events }, partly { seen: { timeline: seq } } (items of a page applied one by one),
// aside { timeline, seq, type, error }, redriven and discarded
// { timeline, seq }.

import { assert } from '../../core/assert.ts'
import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { type FeedPosition, feedStart } from '../../core/store/ports.ts'
import type { Fold } from '../model/definition.ts'
import type { Kernel } from '../storage/kernel.ts'
import type { NewEntry, OpenTimeline } from '../writing/timeline.ts'
import type { CommitExtras } from '../writing/writer.ts'
import { ungated } from './fair-share.ts'
import { OwnedSink } from './owned-sink.ts'
import { cursorAt, hasWritten, isAside, type Occurred, PoisonError, type Quarantined, without } from './sink.ts'

export interface Progress {
  readonly position: FeedPosition
  readonly events: number
  /** For the page after `position`: the last sequence of each timeline that is already applied. */
  readonly seen: Readonly<Record<string, number>>
  readonly quarantine: readonly Quarantined[]
}

const lettersMax = 1000

export const progressFold: Fold<Progress> = {
  version: 'progress/1',
  initial: () => ({ position: feedStart, events: 0, seen: {}, quarantine: [] }),
  apply(state, { type, data }) {
    const { position, events, seen, timeline, seq } = (data ?? {}) as Partial<Progress & Quarantined>
    switch (type) {
      case 'advanced':
        if (typeof position !== 'string' || typeof events !== 'number') throw misshapen(type)
        return { ...state, position, events, seen: {} }
      case 'partly':
        if (typeof seen !== 'object' || seen === null) throw misshapen(type)
        return { ...state, seen }
      case 'aside':
      case 'redriven':
      case 'discarded': {
        if (typeof timeline !== 'string' || typeof seq !== 'number') throw misshapen(type)
        const others = without(state.quarantine, { timeline, seq })
        if (type !== 'aside') return { ...state, quarantine: others }
        return { ...state, quarantine: [...state.quarantine, data as Quarantined].slice(-lettersMax) }
      }
      default:
        return state
    }
  },
  checkpoint: { every: 500 },
  retain: { checkpoints: 2, history: 'needed' },
}

function misshapen(type: string): RepriseError {
  return new RepriseError('MALFORMED', `the data of an entry of type ${type} is not that of a position`, { type })
}

/** The part of the engine that a sink uses. */
export interface TimelineOpener {
  readonly kernel: Kernel
  openTimeline<State>(id: TimelineId, fold: Fold<State>): Promise<OpenTimeline<State>>
}

export abstract class PositionSink<Item extends Occurred> extends OwnedSink<Item, OpenTimeline<Progress>> {
  readonly timeline: TimelineId
  readonly #opener: TimelineOpener
  /** True: the SQL of a page was rolled back, so its items are applied one by one to find the poisonous one. */
  #isOneByOne = false

  constructor(opener: TimelineOpener, timeline: string, gate = ungated) {
    super(opener.kernel, gate)
    this.#opener = opener
    this.timeline = timelineId(timeline)
  }

  /** The effects of these items, for the commit that moves the position. Throws PoisonError. */
  protected abstract effectsOf(items: readonly Item[]): CommitExtras | Promise<CommitExtras>

  /** Runs once this process owns the timeline. False: the timeline must no longer be used. */
  protected async prepare(_open: OpenTimeline<Progress>): Promise<boolean> {
    return true
  }

  get where(): string {
    return this.timeline
  }

  get quarantine(): readonly Quarantined[] {
    return this.held?.state.quarantine ?? []
  }

  stored(): Promise<FeedPosition> {
    return cursorAt(this.kernel, ({ name }) => name === this.timeline)
  }

  async setAside(poison: Quarantined): Promise<void> {
    await this.held!.write([{ type: 'aside', data: poison }])
  }

  async redrive(item: Item): Promise<void> {
    const { timeline, seq } = item.at
    await this.#write([item], { type: 'redriven', data: { timeline, seq } })
  }

  async discard({ timeline, seq }: Quarantined): Promise<void> {
    await this.held!.write([{ type: 'discarded', data: { timeline, seq } }])
  }

  isCurrent(): Promise<boolean> {
    return hasWritten(this.kernel, this.timeline, this.held!)
  }

  protected get written(): FeedPosition {
    return this.held?.state.position ?? feedStart
  }

  protected async take(): Promise<OpenTimeline<Progress> | null> {
    const open = await this.#opener.openTimeline(this.timeline, progressFold)
    let isReady = false
    try {
      isReady = await this.prepare(open)
    } finally {
      if (!isReady) await open.close()
    }
    return isReady ? open : null
  }

  protected isLost(held: OpenTimeline<Progress>): boolean {
    return held.broken !== null
  }

  protected leave(held: OpenTimeline<Progress>): Promise<void> {
    return held.close()
  }

  protected async advance(held: OpenTimeline<Progress>, items: readonly Item[], next: FeedPosition): Promise<void> {
    const { seen, quarantine, events } = held.state
    const fresh = items.filter((item) => !((seen[item.at.timeline] ?? 0) >= item.at.seq) && !isAside(quarantine, item))
    const count = events + fresh.length
    if (!this.#isOneByOne) {
      try {
        return await this.#move(fresh, next, count)
      } catch (error) {
        if (!isSqlPoison(error) || fresh.length === 1) throw error
        this.#isOneByOne = true
      }
    }
    for (const item of fresh) {
      const seenNow = { ...held.state.seen, [item.at.timeline]: item.at.seq }
      await this.#write([item], { type: 'partly', data: { seen: seenNow } })
    }
    this.#isOneByOne = false
    await this.#move([], next, count)
  }

  async #move(items: readonly Item[], position: FeedPosition, events: number): Promise<void> {
    const { state } = this.held!
    assert(position >= state.position && events >= state.events, 'a reader moves forward only')
    const entry = { type: 'advanced', data: { position, events } }
    await this.#write(items, entry, { cursors: { [this.timeline]: position } })
  }

  async #write(items: readonly Item[], entry: NewEntry, extras: CommitExtras = {}): Promise<void> {
    const held = this.held!
    try {
      await held.write([entry], items.length > 0 ? { ...extras, ...(await this.effectsOf(items)) } : extras)
    } catch (error) {
      if (items.length === 1 && isSqlPoison(error)) throw error.cause
      throw error
    }
  }
}

/** A handler threw inside the transaction, and all of it was rolled back. */
function isSqlPoison(error: unknown): error is Error {
  return isReprise(error, 'RIDER_FAILED') && error.cause instanceof PoisonError
}
