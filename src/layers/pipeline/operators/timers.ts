// Timers of a `process` operator, by key, in event time or by the clock. They are state: a timer that was set before a
// crash fires after it. Those of one time lie in one space of the table, which goes as a whole when they have fired.

import type { PipelineKey } from '../../../core/pipeline/key-groups.ts'
import { StateTable } from '../../../core/pipeline/state-table.ts'
import { TimeQueue } from '../../../core/pipeline/time-queue.ts'

export class Timers {
  readonly table = new StateTable<true>()
  readonly #times = new TimeQueue<true>()

  /** Set twice for the same key and time, it fires once. */
  set(key: PipelineKey, time: number): void {
    const space = this.table.space(time)
    if (space.slots.has(key)) return
    this.table.add(space, key, true)
    this.#times.add(time, true)
  }

  delete(key: PipelineKey, time: number): void {
    const space = this.table.peekSpace(time)
    if (space) this.table.delete(space, key)
  }

  restored(): void {
    for (const { id } of this.table.spaces()) this.#times.add(id, true)
  }

  /** In the order of time. A timer that is set meanwhile for a time that has come fires as well. */
  fire(until: number, call: (key: PipelineKey, time: number) => void): void {
    for (let due = this.#times.take(until); due; due = this.#times.take(until)) {
      const space = this.table.peekSpace(due.time)
      if (!space) continue
      const keys = [...space.slots.keys()]
      this.table.drop(space)
      for (const key of keys) call(key, due.time)
    }
  }
}
