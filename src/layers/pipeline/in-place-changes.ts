// Detects functions that change an accumulator or state value in place instead of replacing it: a checkpoint that is being
// written holds the old value, and a record whose function throws must leave no trace. Comparing every value would cost more
// than the work, so only the first calls are checked, and calls after one that threw: a function that changes its argument
// does so from the first record on.

import { RepriseError } from '../../core/errors.ts'
import { Before, Watch } from '../../lib/in-place-changes.ts'

/** Stops the pipeline, because every later record would see a wrong state. */
export class ChangedInPlace extends RepriseError {
  constructor(place: string, cure: string, cause?: unknown) {
    super('INVALID_ARGUMENT', `${place} in place: ${cure}`, { place }, cause)
  }
}

/** @example const add = replacing(given.add, 'add of totals', false) */
export function replacing<A, T>(
  work: (accumulator: A, value: T) => A,
  place: string,
  /** With `copy`, the function may change its accumulator, unless it throws. */
  mayChange: boolean,
): (accumulator: A, value: T) => A {
  const watch = new Watch()
  const watched = (accumulator: A & object, value: T): A => {
    const before = new Before(accumulator)
    let after: A
    try {
      after = work(accumulator, value)
    } catch (error) {
      const cure = mayChange ? 'throw before anything is changed' : 'return a new one, or declare copy'
      if (before.isChanged()) throw new ChangedInPlace(`${place} threw after it changed its accumulator`, cure, error)
      throw error
    }
    if (!mayChange && before.isChanged()) {
      throw new ChangedInPlace(`${place} changed its accumulator`, 'return a new one, or declare copy')
    }
    return after
  }
  return (accumulator, value) => {
    try {
      const isWatched = typeof accumulator === 'object' && accumulator !== null && watch.next()
      return isWatched ? watched(accumulator, value) : work(accumulator, value)
    } catch (error) {
      watch.again()
      throw error
    }
  }
}
