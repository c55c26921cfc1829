// Assigns keys to partitions as Java's producers do (murmur2), so that topics are partitioned alike by all writers.

/** @example partitionOf(Buffer.from('ann'), 6) */
export function partitionOf(key: Uint8Array, partitions: number): number {
  return (murmur2(key) & 0x7fffffff) % partitions
}

function murmur2(bytes: Uint8Array): number {
  const m = 0x5bd1e995
  let hash = 0x9747b28c ^ bytes.length
  const blocks = bytes.length >> 2
  for (let block = 0; block < blocks; block++) {
    const at = block * 4
    let k = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
    k = Math.imul(k, m)
    k = Math.imul(k ^ (k >>> 24), m)
    hash = Math.imul(hash, m) ^ k
  }
  const rest = bytes.length & 3
  const at = bytes.length - rest
  if (rest === 3) hash ^= bytes[at + 2]! << 16
  if (rest >= 2) hash ^= bytes[at + 1]! << 8
  if (rest >= 1) hash = Math.imul(hash ^ bytes[at]!, m)
  hash = Math.imul(hash ^ (hash >>> 13), m)
  return hash ^ (hash >>> 15)
}
