// Stores each name of a channel, node or metadata field once per entry: a step uses the same few names again and again. The
// names of an entry are numbered: first those that LangGraph itself uses, then the entry's own.
//
//   names = [text …]                          the entry's own, in the order of their first use
//   versions, metadata, channels              [[name, value, …], [name …]]
//   seen                                      [[name, [name, version, …], …], [name …]]

import { assert } from '../../core/assert.ts'
import type { Packed } from './leaves.ts'
import { define } from './portable.ts'
import type { CheckpointData, Difference, Version } from './thread-entries.ts'

/** Append only: the numbers are stored. */
const commonNames = [
  ...['__start__', '__end__', '__input__', '__root__', '__error__', '__interrupt__', '__resume__', '__pregel_tasks'],
  ...['source', 'step', 'parents', 'writes', 'messages', 'agent', 'tools', 'branch:to:agent', 'branch:to:tools'],
]
const commonNumbers: ReadonlyMap<string, number> = new Map(commonNames.map((name, i) => [name, i]))

type NumberedDifference<V> = readonly [set: readonly (number | V)[], gone: readonly number[]]
type NumberedSeen = readonly [set: readonly (number | readonly Version[])[], gone: readonly number[]]

/** The entry of a checkpoint, with its names as numbers. */
export type NamedCheckpoint = readonly [
  ...head: readonly [string, string | Uint8Array, string | Uint8Array | null, number, string | number],
  versions: NumberedDifference<Version>,
  seen: NumberedSeen,
  metadata: NumberedDifference<Packed>,
  channels: NumberedDifference<number>,
  values: CheckpointData[9],
  leaves: CheckpointData[10],
  extra: CheckpointData[11],
  names: readonly string[],
]

export function numberNames(data: CheckpointData): NamedCheckpoint {
  const [ns, id, parent, v, ts, versions, seen, metadata, channels, values, leaves, extra] = data
  const names = new Map<string, number>()
  const number = (name: string) => {
    const known = commonNumbers.get(name) ?? names.get(name)
    if (known !== undefined) return known
    const made = commonNames.length + names.size
    names.set(name, made)
    return made
  }
  const difference = <V>([set, gone]: Difference<V>): NumberedDifference<V> => [
    set.map((item, i) => (i % 2 === 0 ? number(item as string) : (item as V))),
    gone.map(number),
  ]
  const [seenSet, seenGone] = seen
  const numberedSeen = seenSet.map((item, i) =>
    i % 2 === 0
      ? number(item as string)
      : Object.entries(item as Readonly<Record<string, Version>>).flatMap(([name, version]) => [number(name), version]),
  )
  return [
    ...([ns, id, parent, v, ts] as const),
    difference(versions),
    [numberedSeen, seenGone.map(number)],
    difference(metadata),
    difference(channels),
    values,
    leaves,
    extra,
    [...names.keys()],
  ]
}

/** Entries from before names had numbers are returned unchanged. */
export function spellNames(data: CheckpointData | NamedCheckpoint): CheckpointData {
  if (!isNumbered(data)) return data
  const [ns, id, parent, v, ts, versions, seen, metadata, channels, values, leaves, extra, own] = data
  const name = (number: unknown) => {
    const found = commonNames[number as number] ?? own[(number as number) - commonNames.length]
    assert(found !== undefined, 'a name of a checkpoint has a number that is known')
    return found
  }
  const difference = <V>([set, gone]: NumberedDifference<V>): Difference<V> => [
    set.map((item, i) => (i % 2 === 0 ? name(item) : (item as V))),
    gone.map(name),
  ]
  const spelledSeen = seen[0].map((item, i) => {
    if (i % 2 === 0) return name(item)
    const versionsOf: Record<string, Version> = {}
    const pairs = item as readonly Version[]
    for (let at = 0; at < pairs.length; at += 2) define(versionsOf, name(pairs[at]), pairs[at + 1])
    return versionsOf
  })
  return [
    ...([ns, id, parent, v, ts] as const),
    difference(versions),
    [spelledSeen, seen[1].map(name)],
    difference(metadata),
    difference(channels),
    values,
    leaves,
    extra,
  ]
}

function isNumbered(data: CheckpointData | NamedCheckpoint): data is NamedCheckpoint {
  return data.length === 13
}

/** The channel of a write: its number, if LangGraph itself uses the channel, else its name. */
export function packChannel(channel: string): string | number {
  return commonNumbers.get(channel) ?? channel
}

export function unpackChannel(channel: string | number): string {
  return typeof channel === 'string' ? channel : (commonNames[channel] ?? '')
}
