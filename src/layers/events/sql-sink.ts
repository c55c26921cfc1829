// A projection into the user's own tables: its SQL is part of the commit that moves its position, so both apply or
// neither.

import type { TimelineId } from '../../core/coordinate.ts'
import { feedStart, type Sql } from '../../core/store/ports.ts'
import { callPureSql } from '../../engine/base/guard/zone.ts'
import type { ShareGate } from '../../engine/feed/fair-share.ts'
import { PositionSink, type Progress, progressFold } from '../../engine/feed/position-sink.ts'
import { type Handling, PoisonError, placeOf } from '../../engine/feed/sink.ts'
import type { Host } from '../../engine/host/host.ts'
import { endedStatus } from '../../engine/tools/generations.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import type { CommitExtras } from '../../engine/writing/writer.ts'
import type { EventAt, Occurrence } from './source.ts'

export interface SqlAt extends EventAt {
  /** Changes with every rebuild: use it in the names of your tables to build the new one beside the old. */
  readonly generation: number
}

export type SqlHandlers = Readonly<
  Record<string, ((sql: Sql, event: never, at: SqlAt) => Promise<unknown> | unknown) | undefined>
>

export interface Setup {
  readonly run: (sql: Sql, generation: number) => Promise<unknown> | unknown
  /**
   * A timeline that the partitions of one generation share: the process that creates it runs the setup, in the same
   * commit. Null: there is one partition.
   */
  readonly once: TimelineId | null
}

export class SqlSink extends PositionSink<Occurrence> {
  readonly #engine: Host
  readonly #on: SqlHandlers
  readonly #generation: number
  readonly #setup: Setup | undefined
  #handling: Handling | null = null

  constructor(
    engine: Host,
    timeline: string,
    options: {
      readonly on: SqlHandlers
      readonly generation: number
      readonly setup?: Setup | undefined
      readonly gate: ShareGate
    },
  ) {
    super(engine, timeline, options.gate)
    this.#engine = engine
    this.#on = options.on
    this.#generation = options.generation
    this.#setup = options.setup
  }

  get handling(): Handling | null {
    return this.#handling
  }

  protected effectsOf(events: readonly Occurrence[]): CommitExtras {
    return {
      userSql: async (sql: Sql) => {
        for (const occurrence of events) await this.#handle(sql, occurrence)
      },
    }
  }

  async #handle(sql: Sql, occurrence: Occurrence): Promise<void> {
    this.#handling = { item: occurrence, since: this.kernel.clock.elapsed() }
    try {
      const at = { ...occurrence.at, generation: this.#generation }
      const call = (own: Sql) => this.#on[occurrence.type]?.(own, occurrence.event as never, at)
      const what = `${this.timeline}: handler`
      await callPureSql(this.kernel.guardsFolds(), what, sql, call, placeOf(occurrence))
    } catch (cause) {
      throw new PoisonError(occurrence, cause)
    } finally {
      this.#handling = null
    }
  }

  protected override async prepare(open: OpenTimeline<Progress>): Promise<boolean> {
    // Checked after the take: a process that ends a generation takes it too, so a later end is fenced.
    if ((await this.#engine.head(this.timeline))?.status === endedStatus) return false
    if (open.seq === 0) {
      await this.#setUpOnce()
      await open.write([{ type: 'partly', data: { seen: {} } }], this.#firstCommit())
    }
    return true
  }

  #firstCommit() {
    const setup = this.#setup
    const cursors = { [this.timeline]: feedStart }
    return setup && !setup.once ? { cursors, userSql: (sql: Sql) => this.#setUp(setup, sql) } : { cursors }
  }

  /** Does nothing if another partition has run the setup. */
  async #setUpOnce(): Promise<void> {
    const setup = this.#setup
    if (!setup?.once) return
    await this.#engine.create(setup.once, progressFold, [{ type: 'partly', data: { seen: {} } }], {
      release: true,
      userSql: (sql: Sql) => this.#setUp(setup, sql),
    })
  }

  async #setUp(setup: Setup, sql: Sql): Promise<void> {
    const { timeline } = this
    const trace = this.kernel.worker.begin({ timeline, what: `setup of generation ${this.#generation}` })
    try {
      await setup.run(sql, this.#generation)
    } finally {
      trace.end()
    }
  }
}
