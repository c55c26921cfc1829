// A projection into a table of this library: rows and position change in one transaction of the table, which keeps the
// position among its own offsets. The table is opened through its definition, so this layer knows no other.

import { type Coordinate, fromHex, timelineId } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import { type FeedPosition, feedStart } from '../../core/ports.ts'
import type { Entity } from '../../engine/definition.ts'
import { callPure } from '../../engine/guard/zone.ts'
import type { Reprise } from '../../engine/reprise.ts'
import { Ahead, cursorAt, hasWritten, isAside, PoisonError, placeOf, type Quarantined, type Sink } from './sink.ts'
import type { EventAt, Occurrence } from './source.ts'
import type { Gate } from './team.ts'

/** What a projection asks of a table. */
export interface TableTarget<Tx extends OffsetTx> {
  readonly timeline: string
  readonly coordinate: Coordinate
  transaction(
    run: (tx: Tx) => void,
    along?: { readonly cursors?: Readonly<Record<string, FeedPosition>> },
  ): Promise<void>
  offset(source: string): string | number | undefined
  close(): Promise<void>
}

export interface OffsetTx {
  advance(source: string, offset: string): void
}

export type TableHandlers<Tx> = Readonly<Record<string, ((tx: Tx, event: never, at: EventAt) => void) | undefined>>

export class TableSink<Tx extends OffsetTx> implements Sink {
  readonly #engine: Reprise
  readonly #name: string
  readonly #into: Entity<TableTarget<Tx>>
  readonly #id: string | undefined
  readonly #on: TableHandlers<Tx>
  readonly #gate: Gate
  #table: TableTarget<Tx> | null = null
  #quarantine: readonly Quarantined[] = []
  #isBroken = false
  #ahead: Ahead

  constructor(
    engine: Reprise,
    name: string,
    into: Entity<TableTarget<Tx>>,
    id: string | undefined,
    on: TableHandlers<Tx>,
    gate: Gate,
  ) {
    this.#engine = engine
    this.#name = name
    this.#into = into
    this.#id = id
    this.#on = on
    this.#gate = gate
    this.#ahead = new Ahead(engine.kernel.clock.elapsed())
  }

  get table(): TableTarget<Tx> | null {
    return this.#table
  }

  get position(): FeedPosition {
    return this.#ahead.over(String(this.#table?.offset(this.#name) ?? feedStart))
  }

  get where(): string {
    return this.#table?.timeline ?? this.#name
  }

  get quarantine(): readonly Quarantined[] {
    return this.#quarantine
  }

  get isOwned(): boolean {
    return this.#table !== null && !this.#isBroken
  }

  stored(): Promise<FeedPosition> {
    const owner = ['', this.#into.name, ...(this.#id === undefined ? [] : [this.#id])].join('/')
    const cursor = `/${this.#name}`
    return cursorAt(this.#engine.kernel, (row) => row.name.endsWith(cursor) && row.owner.endsWith(owner))
  }

  async apply(events: readonly Occurrence[], next: FeedPosition): Promise<void> {
    if (events.length === 0 && this.#ahead.pass(next, this.#engine.kernel.clock.elapsed())) return
    const cursor = `${this.#table!.timeline}/${this.#name}`
    try {
      await this.#table!.transaction(
        (tx) => {
          for (const occurrence of events) this.#step(tx, occurrence)
          tx.advance(this.#name, next)
        },
        { cursors: { [cursor]: next } },
      )
      this.#ahead.wrote(this.#engine.kernel.clock.elapsed())
    } catch (error) {
      if (isReprise(error, 'FENCED', 'CLOSED')) this.#isBroken = true
      throw error
    }
  }

  /** Kept by this process only: the table holds the user's rows, not our notes. After a restart it is met again. */
  async setAside(poison: Quarantined): Promise<void> {
    this.#quarantine = [...this.#quarantine, poison]
  }

  async idle(): Promise<void> {
    if (this.isOwned) {
      if (this.#gate.shouldGiveUp()) await this.#giveUp()
      return
    }
    if (!this.#gate.mayTake()) return
    try {
      this.#table = await this.#engine.open(this.#into, this.#id)
      this.#isBroken = false
      this.#ahead = new Ahead(this.#engine.kernel.clock.elapsed())
    } catch (error) {
      if (!isReprise(error, 'OWNED', 'FENCED')) throw error
    }
  }

  isCurrent(): Promise<boolean> {
    const { timeline, seq, digest } = this.#table!.coordinate
    return hasWritten(this.#engine.kernel, timelineId(timeline), { seq, digest: fromHex(digest) })
  }

  async reload(): Promise<void> {
    const table = this.#table
    const offset = table?.offset(this.#name)
    // Others in this process may hold the same table. A write that is refused tells all of them; one that is taken changes nothing.
    if (table && offset !== undefined) {
      await table.transaction((tx) => tx.advance(this.#name, String(offset))).catch(() => undefined)
    }
    await this.#giveUp().catch(() => undefined)
    this.#isBroken = false
  }

  async close(): Promise<void> {
    await this.#giveUp()
  }

  async #giveUp(): Promise<void> {
    const table = this.#isBroken ? null : this.#table
    this.#table = null
    await table?.close()
  }

  #step(tx: Tx, occurrence: Occurrence): void {
    if (isAside(this.#quarantine, occurrence)) return
    try {
      const call = () => this.#on[occurrence.type]?.(tx, occurrence.event as never, occurrence.at)
      callPure(this.#engine.kernel.guardsFolds(), `${this.#name}: handler`, call, placeOf(occurrence))
    } catch (cause) {
      throw new PoisonError(occurrence, cause)
    }
  }
}
