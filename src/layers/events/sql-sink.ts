// A projection into the user's own tables: its SQL rides in the commit that moves its position, so both are there or
// neither is. Only the owner of the projection's timeline writes; the fence keeps everybody else's SQL out.
//
// Entries: advanced { position, events }, partly { seen: { timeline: seq } } (events of a page applied one by one),
// aside { timeline, seq, type, error }.

import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import { type FeedPosition, feedStart, type Sql } from '../../core/ports.ts'
import type { Fold } from '../../engine/definition.ts'
import { callPureSql } from '../../engine/guard/zone.ts'
import type { Reprise } from '../../engine/reprise.ts'
import type { NewEntry, OpenTimeline } from '../../engine/timeline.ts'
import { endedStatus } from '../../engine/tools/generations.ts'
import {
  Ahead,
  cursorAt,
  type Handling,
  hasWritten,
  isAside,
  PoisonError,
  placeOf,
  type Quarantined,
  type Sink,
} from './sink.ts'
import type { EventAt, Occurrence } from './source.ts'
import type { Gate } from './team.ts'

export interface SqlAt extends EventAt {
  /** Changes with every rebuild: put it into the names of your tables to build the new one beside the old. */
  readonly generation: number
}

export type SqlHandlers = Readonly<
  Record<string, ((sql: Sql, event: never, at: SqlAt) => Promise<unknown> | unknown) | undefined>
>

interface Progress {
  readonly position: FeedPosition
  readonly events: number
  /** Of the page after `position`: the last sequence of each timeline that is done already. */
  readonly seen: Readonly<Record<string, number>>
  readonly quarantine: readonly Quarantined[]
}

export const progressFold: Fold<Progress> = {
  version: 'progress/1',
  initial: () => ({ position: feedStart, events: 0, seen: {}, quarantine: [] }),
  apply(state, { type, data }) {
    if (type === 'advanced') return { ...state, ...(data as { position: string; events: number }), seen: {} }
    if (type === 'partly') return { ...state, ...(data as { seen: Record<string, number> }) }
    return { ...state, quarantine: [...state.quarantine, data as Quarantined].slice(-1000) }
  },
  checkpoint: { every: 500 },
  retain: { checkpoints: 2, history: 'needed' },
}

export interface Setup {
  readonly run: (sql: Sql, generation: number) => Promise<unknown> | unknown
  /** Partitions of one generation share it: whoever makes this timeline runs the setup, in the same commit. Null: there is one partition. */
  readonly once: TimelineId | null
}

export class SqlSink implements Sink {
  readonly timeline: TimelineId
  readonly #engine: Reprise
  readonly #on: SqlHandlers
  readonly #generation: number
  readonly #setup: Setup | undefined
  readonly #gate: Gate
  #open: OpenTimeline<Progress> | null = null
  #handling: Handling | null = null
  #isOneByOne = false
  #ahead: Ahead

  constructor(
    engine: Reprise,
    timeline: string,
    options: {
      readonly on: SqlHandlers
      readonly generation: number
      readonly setup?: Setup | undefined
      readonly gate: Gate
    },
  ) {
    this.#engine = engine
    this.timeline = timelineId(timeline)
    this.#on = options.on
    this.#generation = options.generation
    this.#setup = options.setup
    this.#gate = options.gate
    this.#ahead = new Ahead(engine.kernel.clock.elapsed())
  }

  get position(): FeedPosition {
    return this.#ahead.over(this.#open?.state.position ?? feedStart)
  }

  get where(): string {
    return this.timeline
  }

  get handling(): Handling | null {
    return this.#handling
  }

  get quarantine(): readonly Quarantined[] {
    return this.#open?.state.quarantine ?? []
  }

  get isOwned(): boolean {
    return this.#open !== null && this.#open.broken === null
  }

  stored(): Promise<FeedPosition> {
    return cursorAt(this.#engine.kernel, ({ name }) => name === this.timeline)
  }

  async apply(events: readonly Occurrence[], next: FeedPosition): Promise<void> {
    if (events.length === 0 && this.#ahead.pass(next, this.#engine.kernel.clock.elapsed())) return
    const { seen, quarantine, events: before } = this.#open!.state
    const fresh = events.filter((each) => !((seen[each.at.timeline] ?? 0) >= each.at.seq) && !isAside(quarantine, each))
    if (this.#isOneByOne) {
      for (const occurrence of fresh)
        await this.#write([occurrence], { type: 'partly', data: { seen: this.#seenWith(occurrence) } }, {})
      this.#isOneByOne = false
      await this.#advance([], next, before + fresh.length)
      return
    }
    try {
      await this.#advance(fresh, next, before + fresh.length)
    } catch (error) {
      if (!isReprise(error, 'RIDER_FAILED') || !(error.cause instanceof PoisonError)) throw error
      // Which one it is shows only one by one: what rode along with it was taken back too.
      if (fresh.length === 1) throw error.cause
      this.#isOneByOne = true
      await this.apply(events, next)
    }
  }

  async setAside(poison: Quarantined): Promise<void> {
    await this.#open!.write([{ type: 'aside', data: poison }])
  }

  async idle(): Promise<void> {
    if (this.isOwned) {
      if (this.#gate.shouldGiveUp()) await this.#giveUp()
      return
    }
    if (!this.#gate.mayTake()) return
    try {
      const open = await this.#engine.openTimeline(this.timeline, progressFold)
      // Asked once it is ours: whoever ends a generation takes it, so from here on the fence would tell.
      if ((await this.#engine.head(this.timeline))?.status === endedStatus) {
        await open.close()
        return
      }
      try {
        if (open.seq === 0) {
          await this.#setUpOnce()
          await open.write([{ type: 'partly', data: { seen: {} } }], this.#firstCommit())
        }
      } catch (error) {
        await open.close()
        throw error
      }
      this.#open = open
      this.#ahead = new Ahead(this.#engine.kernel.clock.elapsed())
    } catch (error) {
      if (!isReprise(error, 'OWNED', 'FENCED')) throw error
    }
  }

  isCurrent(): Promise<boolean> {
    return hasWritten(this.#engine.kernel, this.timeline, this.#open!)
  }

  async reload(): Promise<void> {
    // What it writes is refused: it is another history by now.
    await this.#giveUp().catch(() => undefined)
  }

  async close(): Promise<void> {
    await this.#giveUp()
  }

  async #giveUp(): Promise<void> {
    const open = this.#open
    this.#open = null
    this.#ahead = new Ahead(this.#engine.kernel.clock.elapsed())
    if (open && !open.broken) await open.close()
  }

  #firstCommit() {
    const setup = this.#setup
    const cursors = { [this.timeline]: feedStart }
    return setup && !setup.once ? { cursors, ride: (sql: Sql) => this.#setUp(setup, sql) } : { cursors }
  }

  /** Nothing if another partition has done it. */
  async #setUpOnce(): Promise<void> {
    const setup = this.#setup
    if (!setup?.once) return
    await this.#engine.create(setup.once, progressFold, [{ type: 'partly', data: { seen: {} } }], {
      release: true,
      ride: (sql: Sql) => this.#setUp(setup, sql),
    })
  }

  async #setUp(setup: Setup, sql: Sql): Promise<void> {
    const { timeline } = this
    const told = this.#engine.kernel.worker.begin({ timeline, what: `setup of generation ${this.#generation}` })
    try {
      await setup.run(sql, this.#generation)
    } finally {
      told.end()
    }
  }

  #seenWith({ at }: Occurrence): Record<string, number> {
    return { ...this.#open!.state.seen, [at.timeline]: at.seq }
  }

  async #advance(events: readonly Occurrence[], position: FeedPosition, count: number): Promise<void> {
    const entry = { type: 'advanced', data: { position, events: count } }
    await this.#write(events, entry, { cursors: { [this.timeline]: position } })
    this.#ahead.wrote(this.#engine.kernel.clock.elapsed())
  }

  async #write(
    events: readonly Occurrence[],
    entry: NewEntry,
    along: { cursors?: Record<string, FeedPosition> },
  ): Promise<void> {
    const ride = async (sql: Sql) => {
      for (const occurrence of events) {
        this.#handling = { occurrence, since: this.#engine.kernel.clock.elapsed() }
        try {
          const at = { ...occurrence.at, generation: this.#generation }
          const call = (own: Sql) => this.#on[occurrence.type]?.(own, occurrence.event as never, at)
          await callPureSql(
            this.#engine.kernel.guardsFolds(),
            `${this.timeline}: handler`,
            sql,
            call,
            placeOf(occurrence),
          )
        } catch (cause) {
          throw new PoisonError(occurrence, cause)
        } finally {
          this.#handling = null
        }
      }
    }
    try {
      await this.#open!.write([entry], events.length > 0 ? { ...along, ride } : along)
    } catch (error) {
      if (events.length === 1 && isReprise(error, 'RIDER_FAILED') && error.cause instanceof PoisonError)
        throw error.cause
      throw error
    }
  }
}
