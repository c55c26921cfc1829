// Timers of a `process` operator, by key, in event time or clock time. Timers are state: a timer set before a crash fires after
// it. Timers of the same time are stored in one space of the table, which is dropped as a whole when they have fired.

import type { PipelineKey } from '../../../core/key-groups.ts'
import { TimeQueue } from '../../../core/time-queue.ts'
import { StateTable } from '../rules/state-table.ts'

export class Timers {
  readonly table = new StateTable<true>()
  readonly #times = new TimeQueue<true>()
  /** Timers that the running function sets or deletes. */
  #wishes: { readonly key: PipelineKey; readonly time: number; readonly isSet: boolean }[] = []

  /** A timer that is set twice for the same key and time fires once. */
  set(key: PipelineKey, time: number): void {
    this.#wishes.push({ key, time, isSet: true })
  }

  delete(key: PipelineKey, time: number): void {
    this.#wishes.push({ key, time, isSet: false })
  }

  /** Applies the timers after the function has returned. */
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

  /** Fires timers in order of time, including timers set meanwhile that are already due. */
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
