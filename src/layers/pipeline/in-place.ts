// Detects functions that change an accumulator or state value in place instead of replacing it: a checkpoint that is being
// written holds the old value, and a record whose function throws must leave no trace. Comparing every value would cost more
// than the work, so only the first calls are checked, and calls after one that threw: a function that changes its argument
// does so from the first record.

import { RepriseError } from '../../core/errors.ts'
import { isEqual } from '../../lib/differences.ts'

/** Stops the pipeline: every later record would meet a wrong state. */
export class ChangedInPlace extends RepriseError {
  constructor(place: string, cure: string, cause?: unknown) {
    super('INVALID_ARGUMENT', `${place} in place: ${cure}`, { place }, cause)
  }
}

const watchedCalls = 64
/** A value with more parts is not compared. */
const partsMax = 1000

/** Counts the calls to check. */
export class Watch {
  #left = watchedCalls

  /** Whether this call is checked. */
  next(): boolean {
    if (this.#left === 0) return false
    this.#left -= 1
    return true
  }

  /** Checks again after a failure: a function that changed its argument before it threw may do so again. */
  again(): void {
    this.#left = watchedCalls
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

/** A copy of a value from before a function call. */
export class Before {
  readonly #value: unknown
  readonly #copy: unknown

  constructor(value: object) {
    this.#value = value
    this.#copy = new Copier().copy(value)
  }

  isChanged(): boolean {
    return this.#copy !== tooLarge && !isEqual(this.#copy, this.#value)
  }
}

const tooLarge: unique symbol = Symbol('too large')

/** Copies plain values deeply. Class instances are kept as they are: their parts may be private. */
class Copier {
  #parts = 0

  copy(value: unknown): unknown {
    try {
      return this.#copyOf(value)
    } catch (error) {
      if (error === tooLarge) return tooLarge
      throw error
    }
  }

  #copyOf(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return this.#counted(value.length) && value.map((each) => this.#copyOf(each))
    if (value instanceof Date) return new Date(value)
    if (value instanceof Uint8Array) return this.#counted(value.length) && value.slice()
    if (value instanceof Map) {
      this.#counted(value.size)
      return new Map([...value].map(([key, each]) => [this.#copyOf(key), this.#copyOf(each)]))
    }
    if (value instanceof Set) return this.#counted(value.size) && new Set([...value].map((each) => this.#copyOf(each)))
    const prototype: unknown = Object.getPrototypeOf(value)
    if (prototype !== Object.prototype && prototype !== null) return value
    const entries = Object.entries(value)
    this.#counted(entries.length)
    return Object.fromEntries(entries.map(([key, each]) => [key, this.#copyOf(each)]))
  }

  #counted(parts: number): true {
    this.#parts += 1 + parts
    if (this.#parts > partsMax) throw tooLarge
    return true
  }
}
