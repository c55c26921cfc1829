// Joins each record with the row of a Reprise table that it names. The join follows the table and does not copy it: its rows
// are in no checkpoint of the pipeline. A record is joined with the row as committed when the record is processed. After a
// crash it may be joined with a later version of the row, never an earlier one, since a run begins by reading everything
// committed.

import { isReprise } from '../../../core/errors.ts'
import { hostOf } from '../../../engine/host/host.ts'
import type { Engine } from '../../../engine/model/definition.ts'
import { type Batch, without } from '../batch.ts'
import { type MakeOperator, type OperatorResource, recordOf, stateless } from '../operator.ts'

/** The part of a `table` that a join uses. */
export interface JoinedTable<V> {
  readonly name: string
  standby(rp: Engine, id?: string): Promise<TableFollower<V>>
}

export interface TableFollower<V> {
  get(key: string): V | undefined
  /** Resolves when all earlier commits have been read. */
  refresh(): Promise<void>
  close(): void
}

/** The polling interval for a table that does not exist yet. */
const lookMs = 200

/** The current rows. A table that was never opened has no rows until it is opened. */
export class FollowedTable<V> implements OperatorResource {
  readonly #engine: Engine
  readonly #table: JoinedTable<V>
  readonly #id: string | undefined
  #follower: TableFollower<V> | null = null
  #stopLooking: () => void = () => undefined
  #isClosed = false

  private constructor(engine: Engine, table: JoinedTable<V>, id: string | undefined) {
    this.#engine = engine
    this.#table = table
    this.#id = id
  }

  static async open<V>(engine: Engine, table: JoinedTable<V>, id: string | undefined): Promise<FollowedTable<V>> {
    const followed = new FollowedTable(engine, table, id)
    await followed.#look()
    return followed
  }

  get(key: string): V | undefined {
    return this.#follower?.get(key)
  }

  close(): void {
    this.#isClosed = true
    this.#stopLooking()
    this.#follower?.close()
  }

  async #look(): Promise<void> {
    try {
      const follower = await this.#table.standby(this.#engine, this.#id)
      await follower.refresh()
      if (this.#isClosed) follower.close()
      else this.#follower = follower
    } catch (error) {
      if (!isReprise(error, 'NOT_FOUND')) throw error
      if (this.#isClosed) return
      const { clock, events } = hostOf(this.#engine)
      const again = () => {
        this.#look().catch((failed: unknown) => {
          events.emit('problem', { where: `table ${this.#table.name}`, error: failed })
          this.#stopLooking = clock.after(lookMs, again)
        })
      }
      this.#stopLooking = clock.after(lookMs, again)
    }
  }
}

export function tableJoined<T, V, R>(
  keyOf: (value: T) => string,
  join: (value: T, row: V | undefined) => R,
): MakeOperator {
  return ([next], context) => {
    const rows = context.resource as FollowedTable<V>
    return stateless({
      batch(batch: Batch) {
        const values: R[] = []
        const poisoned: number[] = []
        for (let i = 0; i < batch.values.length; i++) {
          const value = batch.values[i] as T
          try {
            values.push(join(value, rows.get(keyOf(value))))
          } catch (error) {
            context.poison(recordOf(batch, i), error)
            poisoned.push(i)
          }
        }
        if (values.length > 0) next!.batch({ ...(poisoned.length > 0 ? without(batch, poisoned) : batch), values })
      },
      watermark: (time) => next!.watermark(time),
      idle: () => next!.idle(),
    })
  }
}
