// A standby of a table: loads the newest checkpoint, follows the changelog, answers reads, and can take over. Deleted keys
// reach it as entries of the changelog; if history was trimmed past it, it starts again from the newest checkpoint, so a
// deletion is never missed.

import type { Coordinate } from '../../core/coordinate.ts'
import type { KeyedRange } from '../../core/keyed.ts'
import type { OpenOptions } from '../../engine/definition.ts'
import type { Replica } from '../../engine/follow.ts'
import type { RecoveryReport } from '../../engine/report.ts'
import type { Reprise } from '../../engine/reprise.ts'
import type { OpenTimeline } from '../../engine/timeline.ts'
import { TableHandle, type TableModel } from './handle.ts'
import type { Offset, TableState } from './state.ts'

export class TableStandby<V> {
  readonly #engine: Reprise
  readonly #model: TableModel<V>
  readonly #replica: Replica<TableState<V>, OpenTimeline<TableState<V>>>

  constructor(engine: Reprise, model: TableModel<V>, replica: Replica<TableState<V>, OpenTimeline<TableState<V>>>) {
    this.#engine = engine
    this.#model = model
    this.#replica = replica
  }

  /** How far it has followed. */
  get coordinate(): Coordinate {
    return this.#replica.coordinate
  }

  get recovery(): RecoveryReport {
    return this.#replica.recovery
  }

  get size(): number {
    return this.#replica.state.rows.size
  }

  get(key: string): V | undefined {
    const { rows, expiry } = this.#replica.state
    const value = rows.get(key)
    if (value === undefined || expiry.size === 0) return value
    const at = expiry.get(key)
    return at !== undefined && at <= this.#engine.kernel.clock.now() ? undefined : value
  }

  entries(range: KeyedRange = {}): IterableIterator<[string, V]> {
    return this.#replica.state.rows.entries(range)
  }

  offset(source: string): Offset | undefined {
    return this.#replica.state.offsets.get(source)
  }

  /** Sees everything that was committed before this call. */
  refresh(): Promise<void> {
    return this.#replica.refresh()
  }

  /** Becomes the owner with the state it has: only what it had not seen is read. The owner before is fenced. */
  async takeOver(options: OpenOptions = {}): Promise<TableHandle<V>> {
    const open = await this.#replica.takeOver({ takeover: true, ...options })
    const handle = new TableHandle(this.#engine.kernel, this.#model, open)
    await handle.recover()
    return handle
  }

  close(): void {
    this.#replica.close()
  }
}
