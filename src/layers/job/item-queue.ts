// itemQueue(): items that applications add in transactions of their own (within(rp, tx).items), for a consumer to handle. A queue
// is one timeline with one entry per item. Entries that every consumer has passed are trimmed.

import { RepriseError } from '../../core/errors.ts'
import { type TimelineDefinition, timeline } from '../../engine/api/timeline-definition.ts'
import type { Entry } from '../../engine/history/history.ts'
import { type Readable, reads } from '../../engine/model/definition.ts'
import { type EnlistsItems, enlistsAppend, enlistsItems } from '../../engine/model/enlisting.ts'

/** An item as its consumer receives it. */
export interface QueuedItem<T> extends Entry {
  readonly item: T
}

/** The entry that stores an item. */
export interface ItemEntry<T> {
  readonly type: 'item'
  readonly item: T
}

export interface ItemQueue<T>
  extends TimelineDefinition<null, ItemEntry<T>>,
    Readable<QueuedItem<T>>,
    EnlistsItems<T> {}

/** All items of a queue are in this one of its timelines, in the order of their commits. */
const only = 'items'

/**
 * @example
 * const mails = itemQueue<Mail>('mails')
 * const mailer = consumer('mailer', { from: [mails], each: ({ item }) => send(item) })
 */
export function itemQueue<T>(name: string): ItemQueue<T> {
  const queue = timeline<null, ItemEntry<T>>(name, {
    initial: () => null,
    apply: () => null,
    retain: { history: 'needed' },
  })
  return {
    ...queue,
    [reads](entry: Entry) {
      return entry.type === 'item' ? { ...entry, item: (entry.data as ItemEntry<T>).item } : null
    },
    [enlistsItems](host, items, key) {
      if (!Array.isArray(items)) throw new RepriseError('INVALID_ARGUMENT', 'items() needs a list of items')
      const entries = (items as readonly T[]).map((item) => ({ type: 'item' as const, item }))
      return queue[enlistsAppend](host, only, entries, key)
    },
  }
}
