// Finds where a state went wrong: among states in the order of history, of which the first is good and the last is bad,
// it finds a good one that is directly followed by a bad one, and tests only a few of them.
//
// If the state became bad once and stayed bad, there is only one such place. If it changed more than once, the result is one of
// several: the state is always good before it and bad after it.

/**
 * Yields the index to test, receives whether that state is good, and returns the index of the last good one before a bad one.
 * -1 if the first is already bad; the last index if the last one is good.
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
