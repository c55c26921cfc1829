// What a prune removes: checkpoints beyond those kept, their writes, and the values and leaves that nothing else needs.

import { RepriseError } from '../../core/errors.ts'
import type { PrunedData, StoredValue, ThreadState } from './fold.ts'
import { LangChainObject, Leaf, type Portable, Snapshot } from './portable.ts'

export interface PruneOptions {
  /** Of each namespace, the newest of these; 1 if left out. */
  readonly keepLast?: number
}

export function planPrune(state: ThreadState, options: PruneOptions, portable: Portable): PrunedData {
  const { keepLast = 1 } = options
  if (!Number.isSafeInteger(keepLast) || keepLast < 1) {
    throw new RepriseError('INVALID_ARGUMENT', 'keepLast is a whole number from 1 on', { keepLast })
  }
  const kept = newest(state, keepLast)
  const isKeptWrite = (key: string) => kept.has(key.slice(0, key.lastIndexOf('\0', key.lastIndexOf('\0') - 1)))
  const values = neededValues(state, kept)
  const leaves = neededLeaves(state, kept, values, isKeptWrite, portable)
  return [
    [...state.checkpoints.keys()].filter((key) => !kept.has(key)),
    [...state.writes.keys()].filter((key) => !isKeptWrite(key)),
    [...state.values.keys()].filter((id) => !values.has(id)),
    [...state.leaves.keys()].filter((digest) => !leaves.has(digest)),
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

function neededLeaves(
  state: ThreadState,
  kept: ReadonlySet<string>,
  values: ReadonlySet<string>,
  isKeptWrite: (key: string) => boolean,
  portable: Portable,
): Set<string> {
  const needed = new Set<string>()
  const look = (bytes: Uint8Array) => {
    const found = new Set<string>()
    collectLeaves(portable.decode(bytes), found, new Set())
    for (const digest of found) {
      if (needed.has(digest)) continue
      needed.add(digest)
      const leaf = state.leaves.get(digest)
      // A message may hold leaves of its own.
      if (Array.isArray(leaf)) look(leaf[0])
    }
  }
  for (const id of values) {
    const stored = state.values.get(id)
    if (stored && 'items' in stored) stored.items.forEach(look)
    else if (stored && stored.serde === undefined) look(stored.bytes)
  }
  for (const key of kept) {
    const { metadata, extra } = state.checkpoints.get(key)!
    Object.values(metadata).forEach(look)
    if (extra) look(extra)
  }
  for (const [key, write] of state.writes) if (write.serde === undefined && isKeptWrite(key)) look(write.bytes)
  return needed
}

function collectLeaves(value: unknown, into: Set<string>, seen: Set<object>): void {
  if (typeof value !== 'object' || value === null || seen.has(value)) return
  seen.add(value)
  if (value instanceof Leaf) into.add(value.digest)
  else if (value instanceof Snapshot) collectLeaves(value.value, into, seen)
  else if (value instanceof LangChainObject) collectLeaves(value.kwargs, into, seen)
  else if (value instanceof Map) for (const pair of value) for (const item of pair) collectLeaves(item, into, seen)
  else if (value instanceof Set) for (const item of value) collectLeaves(item, into, seen)
  else if (!ArrayBuffer.isView(value)) for (const item of Object.values(value)) collectLeaves(item, into, seen)
}
