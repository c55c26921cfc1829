// Binary search in a sorted sequence.

/**
 * The first index for which the test holds, provided that it holds for all later ones; `end` if there is none.
 * @example firstIndex(0, keys.length, (at) => keys[at]! >= key)
 */
export function firstIndex(start: number, end: number, isAtOrAfter: (at: number) => boolean): number {
  let low = start
  let high = end
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isAtOrAfter(middle)) high = middle
    else low = middle + 1
  }
  return low
}
