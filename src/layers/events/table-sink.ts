// A projection into a table of this library: rows and position change in one transaction of the table, which stores the
// position among its own offsets. The table is opened through its definition, so this layer does not depend on the
// table layer.

import { type Coordinate, fromHex, timelineId } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import { type FeedPosition, feedStart } from '../../core/store/ports.ts'
import { callPure } from '../../engine/base/guard/zone.ts'
import type { ShareGate } from '../../engine/feed/fair-share.ts'
import { OwnedSink } from '../../engine/feed/owned-sink.ts'
import {
  cursorAt,
  hasWritten,
  isAside,
  PoisonError,
  placeOf,
  type Quarantined,
  without,
} from '../../engine/feed/sink.ts'
import type { Host } from '../../engine/host/host.ts'
import type { Entity } from '../../engine/model/definition.ts'
import type { EventAt, Occurrence } from './source.ts'

/** The parts of a table that a projection uses. */
export interface ProjectedTable<Tx extends OffsetTx> {
  readonly timeline: string
  readonly coordinate: Coordinate
  transaction(
    run: (tx: Tx) => void,
    extras?: { readonly cursors?: Readonly<Record<string, FeedPosition>> },
  ): Promise<void>
  offset(source: string): string | number | undefined
  close(): Promise<void>
}

export interface OffsetTx {
  advance(source: string, offset: string): void
}

export type TableHandlers<Tx> = Readonly<Record<string, ((tx: Tx, event: never, at: EventAt) => void) | undefined>>

export class TableSink<Tx extends OffsetTx> extends OwnedSink<Occurrence, ProjectedTable<Tx>> {
  readonly #engine: Host
  readonly #name: string
  readonly #into: Entity<ProjectedTable<Tx>>
  readonly #id: string | undefined
  readonly #on: TableHandlers<Tx>
  #quarantine: readonly Quarantined[] = []
  #isBroken = false

  constructor(
    engine: Host,
    name: string,
    into: Entity<ProjectedTable<Tx>>,
    id: string | undefined,
    on: TableHandlers<Tx>,
    gate: ShareGate,
  ) {
    super(engine.kernel, gate)
    this.#engine = engine
    this.#name = name
    this.#into = into
    this.#id = id
    this.#on = on
  }

  get table(): ProjectedTable<Tx> | null {
    return this.held
  }

  get where(): string {
    return this.held?.timeline ?? this.#name
  }

  get quarantine(): readonly Quarantined[] {
    return this.#quarantine
  }

  stored(): Promise<FeedPosition> {
    const owner = ['', this.#into.name, ...(this.#id === undefined ? [] : [this.#id])].join('/')
    const cursor = `/${this.#name}`
    return cursorAt(this.kernel, (row) => row.name.endsWith(cursor) && row.owner.endsWith(owner))
  }

  /** Kept in this process only: the table holds the user's rows, not our notes. After a restart the event fails again. */
  async setAside(poison: Quarantined): Promise<void> {
    this.#quarantine = [...this.#quarantine, poison]
  }

  async redrive(occurrence: Occurrence): Promise<void> {
    await this.#write(this.held!, (tx) => this.#handle(tx, occurrence))
    this.#quarantine = without(this.#quarantine, occurrence.at)
  }

  async discard(letter: Quarantined): Promise<void> {
    this.#quarantine = without(this.#quarantine, letter)
  }

  isCurrent(): Promise<boolean> {
    const { timeline, seq, digest } = this.held!.coordinate
    return hasWritten(this.kernel, timelineId(timeline), { seq, digest: fromHex(digest) })
  }

  override async reload(): Promise<void> {
    const { held } = this
    const offset = held?.offset(this.#name)
    // Other code in this process may hold the same table. This write reports a refusal to all of them; if it succeeds,
    // it changes nothing.
    if (held && offset !== undefined) {
      await held.transaction((tx) => tx.advance(this.#name, String(offset))).catch(() => undefined)
    }
    await super.reload()
  }

  protected get written(): FeedPosition {
    return String(this.held?.offset(this.#name) ?? feedStart)
  }

  protected async take(): Promise<ProjectedTable<Tx>> {
    const table = await this.#engine.open(this.#into, this.#id)
    this.#isBroken = false
    return table
  }

  protected isLost(): boolean {
    return this.#isBroken
  }

  protected leave(table: ProjectedTable<Tx>): Promise<void> {
    return table.close()
  }

  protected async advance(table: ProjectedTable<Tx>, events: readonly Occurrence[], next: FeedPosition): Promise<void> {
    const cursors = { [`${table.timeline}/${this.#name}`]: next }
    const run = (tx: Tx) => {
      for (const event of events) if (!isAside(this.#quarantine, event)) this.#handle(tx, event)
      tx.advance(this.#name, next)
    }
    await this.#write(table, run, { cursors })
  }

  async #write(table: ProjectedTable<Tx>, run: (tx: Tx) => void, extras = {}): Promise<void> {
    try {
      await table.transaction(run, extras)
    } catch (error) {
      if (isReprise(error, 'FENCED', 'CLOSED')) this.#isBroken = true
      throw error
    }
  }

  #handle(tx: Tx, occurrence: Occurrence): void {
    try {
      const call = () => this.#on[occurrence.type]?.(tx, occurrence.event as never, occurrence.at)
      callPure(this.kernel.guardsFolds(), `${this.#name}: handler`, call, placeOf(occurrence))
    } catch (cause) {
      throw new PoisonError(occurrence, cause)
    }
  }
}
