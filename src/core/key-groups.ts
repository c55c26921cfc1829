// Key groups: the unit in which keyed state moves between tasks. A key always belongs to the same group; a task owns a
// contiguous range of groups. The hash is part of the stored format, so it must never change.

import { assert } from './assert.ts'
import { textHash } from './text-hash.ts'

/** The key of a record. A number and the text of that number are different keys. */
export type PipelineKey = string | number

export const keyGroupsDefault = 128
export const keyGroupsMax = 32_768

export interface GroupRange {
  /** Inclusive. */
  readonly first: number
  /** Exclusive. */
  readonly end: number
}

const float = new Float64Array(1)
const words = new Uint32Array(float.buffer)

/**
 * A 32-bit hash, the same on every machine and in every version.
 * @example hashKey('ann') // 2778018533
 */
export function hashKey(key: PipelineKey): number {
  let hash = typeof key === 'string' ? textHash(key) : numberHash(key)
  // FNV-1a leaves the differences in the low bits; the final steps of MurmurHash3 spread them.
  hash ^= hash >>> 16
  hash = Math.imul(hash, 0x85ebca6b)
  hash ^= hash >>> 13
  hash = Math.imul(hash, 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

function numberHash(key: number): number {
  // 0 and -0 are the same key, as in a Map.
  float[0] = key === 0 ? 0 : key
  return Math.imul(Math.imul(0x811c9dc5 ^ words[0]!, 0x01000193) ^ words[1]!, 0x01000193)
}

export function groupOf(key: PipelineKey, groups: number): number {
  return Math.floor((hashKey(key) * groups) / 0x1_0000_0000)
}

export function ownerOf(group: number, parallelism: number, groups: number): number {
  assert(group >= 0 && group < groups, 'a key group lies within the groups of its pipeline')
  return Math.floor((group * parallelism) / groups)
}

/** The groups that a task owns: the inverse of `ownerOf`. */
export function groupsOf(task: number, parallelism: number, groups: number): GroupRange {
  assert(task >= 0 && task < parallelism, 'a task lies within the parallelism of its pipeline')
  return {
    first: Math.ceil((task * groups) / parallelism),
    end: Math.ceil(((task + 1) * groups) / parallelism),
  }
}
