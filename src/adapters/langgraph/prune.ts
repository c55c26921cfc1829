// Plans a prune: removes the checkpoints beyond those kept, their writes, and the values and leaves that nothing else needs.

import { Keyed } from '../../core/keyed-state/keyed.ts'
import { checkCount } from '../../core/options.ts'
import type { StoredValue, ThreadState } from './fold.ts'
import { placeFrom, placesOf } from './leaves.ts'
import type { PrunedData } from './thread-entries.ts'

export interface PruneOptions {
  /** Number of newest checkpoints to keep in each namespace. Default: 1. */
  readonly keepLast?: number
}

export function planPrune(state: ThreadState, options: PruneOptions): PrunedData {
  const { keepLast = 1 } = options
  checkCount('keepLast', keepLast)
  // A prune reads the whole state: all pages are requested at once.
  for (const part of Object.values(state) as Keyed<unknown>[]) Keyed.need(part)
  const kept = newest(state, keepLast)
  const isKeptWrite = (key: string) => kept.has(key.slice(0, key.lastIndexOf('\0', key.lastIndexOf('\0') - 1)))
  const values = neededValues(state, kept)
  const leaves = neededLeaves(state, kept, values, isKeptWrite)
  return [
    [...state.checkpoints.keys()].filter((key) => !kept.has(key)),
    [...state.writes.keys()].filter((key) => !isKeptWrite(key)),
    [...state.values.keys()].filter((id) => !values.has(id)),
    [...state.leaves.keys()].map(placeFrom).filter((place) => !leaves.has(place)),
  ]
}

function newest(state: ThreadState, keepLast: number): Set<string> {
  const kept = new Set<string>()
  const counts = new Map<string, number>()
  for (const key of state.checkpoints.keys({ reverse: true })) {
    const ns = key.slice(0, key.indexOf('\0'))
    const count = counts.get(ns) ?? 0
    counts.set(ns, count + 1)
    if (count < keepLast) kept.add(key)
  }
  return kept
}

function neededValues(state: ThreadState, kept: ReadonlySet<string>): Set<string> {
  const needed = new Set<string>()
  for (const key of kept) {
    for (const id of Object.values(state.checkpoints.get(key)!.channels)) {
      for (let at: string | null = id; at !== null && !needed.has(at); ) {
        needed.add(at)
        const stored: StoredValue | undefined = state.values.get(at)
        at = stored && 'items' in stored ? stored.base : null
      }
    }
  }
  return needed
}

/** The places of all needed leaves. */
function neededLeaves(
  state: ThreadState,
  kept: ReadonlySet<string>,
  values: ReadonlySet<string>,
  isKeptWrite: (key: string) => boolean,
): Set<number> {
  const needed = new Set<number>()
  const need = (places: readonly number[]) => {
    for (const place of places) needed.add(place)
  }
  for (const id of values) {
    const stored = state.values.get(id)
    if (stored) need('items' in stored ? stored.leaves : placesOf(stored.packed))
  }
  for (const key of kept) {
    const { metadata, extra } = state.checkpoints.get(key)!
    for (const field of Object.values(metadata)) need(placesOf(field))
    if (extra) need(placesOf(extra))
  }
  for (const [key, write] of state.writes) if (isKeptWrite(key)) need(placesOf(write.packed))
  return needed
}
