// Where a state went wrong: given states in the order of history of which the last one is bad, the first is not, and no
// more can be said, finds a place at which a good one is followed by a bad one. It asks about few of them.
//
// If the state went bad once and stayed bad, that place is the only one. If it changed more than once, it is one of
// several, and a real one: what is found is always good before and bad after.

/**
 * Yields the index it wants to know about, takes whether that one is good, and returns the last good one before a bad one.
 * -1 if the first is bad already; the last index if the last one is good.
 * @example const search = bisect(8); let step = search.next(); while (!step.done) step = search.next(isGood(step.value))
 */
export function* bisect(count: number): Generator<number, number, boolean> {
  if (count === 0 || (yield count - 1)) return count - 1
  let good = -1
  let bad = count - 1
  if (bad > 0 && (yield 0)) good = 0
  else return -1
  while (bad - good > 1) {
    const middle = good + Math.floor((bad - good) / 2)
    if (yield middle) good = middle
    else bad = middle
  }
  return good
}
