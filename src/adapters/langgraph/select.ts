// Selects checkpoints of a thread: the newest, one by its id, or those that match a query, newest first. It reads only
// records: no value of a skipped checkpoint is decoded.

import { type CheckpointRecord, checkpointKey, type ThreadState } from './fold.ts'
import { bytesOf } from './leaves.ts'

export interface Query {
  readonly ns: string | undefined
  readonly id: string | undefined
  readonly before: string | undefined
  /** Metadata that must be equal, encoded. */
  readonly filter: readonly (readonly [string, Uint8Array])[]
}

export interface Found {
  readonly ns: string
  readonly id: string
  readonly record: CheckpointRecord
}

export function newest(state: ThreadState, ns: string): Found | null {
  for (const [key, record] of state.checkpoints.entries({ prefix: checkpointKey(ns, ''), reverse: true, limit: 1 })) {
    return { ...splitKey(key), record }
  }
  return null
}

export function exact(state: ThreadState, ns: string, id: string): Found | null {
  const record = state.checkpoints.get(checkpointKey(ns, id))
  return record ? { ns, id, record } : null
}

/** Up to `limit` matches; the next page starts below the last returned one. */
export function select(state: ThreadState, query: Query, limit: number, below: Found | null): Found[] {
  const { ns, id, before, filter } = query
  const found: Found[] = []
  const prefix = ns === undefined ? {} : { prefix: checkpointKey(ns, '') }
  const ends = [
    ...(below ? [checkpointKey(below.ns, below.id)] : []),
    ...(ns !== undefined && before !== undefined ? [checkpointKey(ns, before)] : []),
  ].sort()
  const to = ends.length > 0 ? { to: ends[0]! } : {}
  if (ns !== undefined && id !== undefined) {
    const one = below ? null : exact(state, ns, id)
    return one && matches(one, query) ? [one] : []
  }
  for (const [key, record] of state.checkpoints.entries({ ...prefix, ...to, reverse: true })) {
    if (found.length >= limit) break
    const at = { ...splitKey(key), record }
    if (matches(at, { ns, id, before, filter })) found.push(at)
  }
  return found
}

function matches({ id, record }: Found, query: Query): boolean {
  if (query.id !== undefined && id !== query.id) return false
  if (query.before !== undefined && id >= query.before) return false
  return query.filter.every(([name, bytes]) => {
    const stored = Object.hasOwn(record.metadata, name) ? record.metadata[name] : undefined
    return stored !== undefined && Buffer.compare(bytesOf(stored), bytes) === 0
  })
}

function splitKey(key: string): { readonly ns: string; readonly id: string } {
  const at = key.indexOf('\0')
  return { ns: key.slice(0, at), id: key.slice(at + 1) }
}
