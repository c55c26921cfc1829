// The journal: outcomes in the order of history, as an immutable value. Journals may share one array, and each counts
// only its own length; an append copies the array first if another journal has already extended it.

import type { Item } from './entries.ts'

export interface Journal {
  readonly items: Item[]
  readonly length: number
}

export function journalOf(items: readonly Item[]): Journal {
  return { items: items as Item[], length: items.length }
}

export function itemsOf(journal: Journal): readonly Item[] {
  return journal.items.length === journal.length ? journal.items : journal.items.slice(0, journal.length)
}

export function appended(journal: Journal, item: Item): Journal {
  const items = journal.items.length === journal.length ? journal.items : journal.items.slice(0, journal.length)
  items.push(item)
  return { items, length: journal.length + 1 }
}

/** The journal before the outcome of that command; the whole journal if there is none. */
export function journalUpTo(journal: Journal, id: string, seq = Number.POSITIVE_INFINITY): Journal {
  const items = itemsOf(journal)
  const at = items.findIndex((item) => 'id' in item && item.id === id)
  return at === -1 ? journal : journalOf(items.slice(0, at).filter((item) => item.seq <= seq))
}
