// What one commit has changed so far, kept so that a refusal in the middle leaves no trace.

import type { Refusal, Run } from '../../core/ports.ts'
import type { SharedMap } from './shared.ts'
import type { RunRow, Space } from './world.ts'

/** Thrown inside a transition, turned into an outcome at its edge. */
export class Refused {
  readonly code: Refusal
  readonly reason: string

  constructor(code: Refusal, reason: string) {
    this.code = code
    this.reason = reason
  }
}

export class Change {
  readonly space: Space
  readonly #undo: (() => void)[] = []

  constructor(space: Space) {
    this.space = space
  }

  put<Key, Value>(map: SharedMap<Key, Value>, key: Key, value: Value): void {
    this.#remember(map, key)
    map.set(key, value)
  }

  remove<Key, Value>(map: SharedMap<Key, Value>, key: Key): void {
    this.#remember(map, key)
    map.delete(key)
  }

  appendToFeed(serial: number, run: Run): RunRow {
    const { space } = this
    const { feed, nextFeedNumber } = space
    const row: RunRow = { ...run, number: nextFeedNumber }
    space.feed = feed.append({ serial, run: row })
    space.nextFeedNumber = nextFeedNumber + 1
    this.#undo.push(() => {
      space.feed = feed
      space.nextFeedNumber = nextFeedNumber
    })
    return row
  }

  nextSerial(): number {
    const { space } = this
    const serial = space.nextSerial
    space.nextSerial = serial + 1
    this.#undo.push(() => {
      space.nextSerial = serial
    })
    return serial
  }

  undo(): void {
    for (const step of this.#undo.splice(0).reverse()) step()
  }

  #remember<Key, Value>(map: SharedMap<Key, Value>, key: Key): void {
    const before = map.get(key)
    this.#undo.push(() => {
      if (before === undefined) map.delete(key)
      else map.set(key, before)
    })
  }
}
