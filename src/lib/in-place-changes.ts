// Detects functions that change a value in place. Comparing before and after every call would cost more than most functions,
// so a `Watch` limits the comparison to the calls where it matters.

import { isEqual } from './differences.ts'

const watchedCalls = 64
/** A value with more parts is not compared. */
const partsMax = 1000

/** Counts the calls to check. */
export class Watch {
  #left: number

  /** Default: the first calls are checked. */
  constructor(isArmed = true) {
    this.#left = isArmed ? watchedCalls : 0
  }

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

/** A copy of a value, made before a function call. */
export class Before {
  readonly #value: unknown
  readonly #copy: unknown
  readonly #isExact: boolean

  constructor(value: object) {
    const copier = new Copier()
    this.#value = value
    this.#copy = copier.copy(value)
    this.#isExact = copier.isExact
  }

  isChanged(): boolean {
    return this.#copy !== tooLarge && !isEqual(this.#copy, this.#value)
  }

  /** False also for a value that cannot be compared: it is too large, or has instances of classes in it. */
  isUnchanged(): boolean {
    return this.#isExact && isEqual(this.#copy, this.#value)
  }
}

const tooLarge: unique symbol = Symbol('too large')

/** Copies plain values deeply. Class instances are kept as they are: their fields may be private. */
class Copier {
  #parts = 0
  /** The copy shares nothing with the value. */
  isExact = true

  copy(value: unknown): unknown {
    try {
      return this.#copyOf(value)
    } catch (error) {
      if (error !== tooLarge) throw error
      this.isExact = false
      return tooLarge
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
    if (prototype !== Object.prototype && prototype !== null) {
      this.isExact = false
      return value
    }
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
