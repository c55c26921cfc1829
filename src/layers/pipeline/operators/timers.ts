// Timers of a `process` operator, by key, in event time or by the clock. They are state: a timer that was set before a
// crash fires after it. Those of one time lie in one space of the table, which goes as a whole when they have fired.

import type { PipelineKey } from '../../../core/key-groups.ts'
import { TimeQueue } from '../../../core/time-queue.ts'
import { StateTable } from '../rules/state-table.ts'

export class Timers {
  readonly table = new StateTable<true>()
  readonly #times = new TimeQueue<true>()
  /** What the function that runs wants. */
  #wishes: { readonly key: PipelineKey; readonly time: number; readonly isSet: boolean }[] = []

  /** Set twice for the same key and time, it fires once. */
  set(key: PipelineKey, time: number): void {
    this.#wishes.push({ key, time, isSet: true })
  }

  delete(key: PipelineKey, time: number): void {
    this.#wishes.push({ key, time, isSet: false })
  }

  /** The function has returned: its timers are set. */
  commit(): void {
    if (this.#wishes.length === 0) return
    for (const { key, time, isSet } of this.#wishes) {
      const space = isSet ? this.table.space(time) : this.table.peekSpace(time)
      if (!isSet && space) this.table.delete(space, key)
      if (!isSet || space!.slots.has(key)) continue
      this.table.add(space!, key, true)
      this.#times.add(time, true)
    }
    this.#wishes = []
  }

  rollback(): void {
    this.#wishes = []
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
