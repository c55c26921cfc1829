// FNV-1a over UTF-16 units, as an unsigned integer of 32 bits: the same on every machine and in every version. Stored layouts
// depend on it, so it must never change.

/** @example textHash('ann') % 8 // the partition of a key */
export function textHash(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash >>> 0
}
