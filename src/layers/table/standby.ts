// A standby of a table: loads the newest checkpoint, follows the changelog, serves reads, and can take over. Deletions reach
// it as entries of the changelog; if history was trimmed beyond its position, it starts again from the newest checkpoint, so
// no deletion is missed.

import type { Coordinate } from '../../core/coordinate.ts'
import type { KeyedRange } from '../../core/keyed-state/keyed.ts'
import { checkOptions } from '../../core/options.ts'
import type { RecoveryReport } from '../../engine/base/recovery-report.ts'
import type { Replica } from '../../engine/feed/replica.ts'
import type { Host } from '../../engine/host/host.ts'
import { type OpenOptions, openOptions } from '../../engine/model/definition.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import type { TableHandle } from './handle.ts'
import type { Offset, TableState } from './state.ts'

/** Returns the one handle of an open table in this process. */
export type HandleOf<V> = (open: OpenTimeline<TableState<V>>) => Promise<TableHandle<V>>

export class TableStandby<V> {
  readonly #engine: Host
  readonly #replica: Replica<TableState<V>, OpenTimeline<TableState<V>>>
  readonly #handleOf: HandleOf<V>
  readonly #confirm: () => Promise<void>

  /** @internal `confirm` throws if this table may no longer be written: a partition of a rescaled store. */
  constructor(
    engine: Host,
    replica: Replica<TableState<V>, OpenTimeline<TableState<V>>>,
    handleOf: HandleOf<V>,
    confirm: () => Promise<void> = async () => undefined,
  ) {
    this.#engine = engine
    this.#replica = replica
    this.#handleOf = handleOf
    this.#confirm = confirm
  }

  get timeline(): string {
    return this.#replica.timeline
  }

  /** The position it has followed to. */
  get coordinate(): Coordinate {
    return this.#replica.coordinate
  }

  get recovery(): RecoveryReport {
    return this.#replica.recovery
  }

  /** Expired rows are included until their owner has swept them. */
  get size(): number {
    return this.#replica.state.rows.size
  }

  get(key: string): V | undefined {
    const value = this.#replica.state.rows.get(key)
    return value === undefined || this.#hasEnded(key) ? undefined : value
  }

  *entries(range: KeyedRange = {}): IterableIterator<[string, V]> {
    const { limit, ...whole } = range
    let left = limit ?? Number.POSITIVE_INFINITY
    for (const entry of this.#replica.state.rows.entries(whole)) {
      if (left <= 0) return
      if (this.#hasEnded(entry[0])) continue
      left -= 1
      yield entry
    }
  }

  offset(source: string): Offset | undefined {
    return this.#replica.state.offsets.get(source)
  }

  /** Reads every commit made before this call. */
  async refresh(): Promise<void> {
    try {
      await this.#replica.refresh()
    } catch (error) {
      // If the store was rescaled, that is the reason.
      await this.#confirm()
      throw error
    }
  }

  /** Takes over ownership with its current state: only entries it has not read are read. The previous owner is fenced. */
  async takeOver(options: OpenOptions = {}): Promise<TableHandle<V>> {
    checkOptions('takeOver()', options, openOptions)
    const open = await this.#replica.takeOver({ takeover: true, ...options }).catch(async (error) => {
      await this.#confirm()
      throw error
    })
    try {
      await this.#confirm()
    } catch (error) {
      await open.close()
      throw error
    }
    return await this.#handleOf(open)
  }

  close(): void {
    this.#replica.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
  }

  #hasEnded(key: string): boolean {
    const { expiry } = this.#replica.state
    if (expiry.size === 0) return false
    const at = expiry.get(key)
    return at !== undefined && at <= this.#engine.clock.now()
  }
}
