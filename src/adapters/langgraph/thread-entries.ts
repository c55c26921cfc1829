// The entries of a thread (fold.ts):
//
//   checkpoint  [ns, id, parent, v, ts, versions, seen, metadata, channels, values, leaves, extra]
//               versions, seen, metadata and channels are differences from the parent: [key, value, …] set and keys removed;
//               a channel's value is the number of one of the entry's values; names are numbered (names.ts)
//   writes      [ns, id, task, [[index, channel, packed] …], leaves]
//   pruned      [checkpoint keys, write keys, value ids, leaf places]
//   packed      bytes, or [bytes, refs] if they refer to leaves (leaves.ts)

import type { NewLeaves, Packed } from './leaves.ts'

export type Version = string | number

export type Difference<V> = readonly [set: readonly (string | V)[], gone: readonly string[]]
/** [0, packed, serde?]: complete; [1, base, keep, items, depth, refs]: a list. */
export type NewValue =
  | readonly [0, Packed, string?]
  | readonly [1, string | null, number, readonly Uint8Array[], number, readonly number[]]

export type CheckpointData = readonly [
  ns: string,
  id: string | Uint8Array,
  parent: string | Uint8Array | null,
  v: number,
  ts: string | number,
  versions: Difference<Version>,
  seen: Difference<Readonly<Record<string, Version>>>,
  metadata: Difference<Packed>,
  channels: Difference<number>,
  values: readonly NewValue[],
  leaves: NewLeaves,
  extra: Packed | null,
]
export type WritesData = readonly [
  ns: string,
  id: string | Uint8Array,
  task: string | Uint8Array,
  writes: readonly (readonly [index: number, channel: string | number, packed: Packed, serde?: string])[],
  leaves: NewLeaves,
]
export type PrunedData = readonly [
  checkpoints: readonly string[],
  writes: readonly string[],
  values: readonly string[],
  leaves: readonly number[],
]
