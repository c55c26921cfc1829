// Callbacks that must return their result synchronously. A promise would be stored, compared or dropped as if it were
// the result, so the callback is refused, and the error names it.

import { RepriseError } from './errors.ts'

/** The result of a callback that returns nothing. `() => void` accepts an async function; the union with undefined does not. */
export type Nothing = void | undefined

/**
 * The type of a synchronous result: `R` itself, or a message type to which no promise is assignable.
 * @example map<R>(change: (value: T) => Synchronous<R>): Stream<R>
 */
export type Synchronous<R> = R &
  (R extends PromiseLike<unknown> | AsyncIterable<unknown> ? 'this function must not be async' : unknown)

/**
 * Throws ASYNC_CALLBACK if the value is a promise, another thenable, or the result of an async generator. `place` names the
 * callback, `instead` names the verb that waits.
 * @example refuseThenable(result, 'filter()', 'use call() to wait for something outside')
 */
export function refuseThenable(value: unknown, place: string, instead: string, verb = 'returned'): void {
  if (!isAsynchronous(value)) return
  // The rejection of the refused promise would otherwise end the process as unhandled. Only a promise is touched: the
  // `then` of another thenable may start its work.
  if (value instanceof Promise) value.catch(() => undefined)
  const what = isThenable(value) ? 'a promise' : 'an async iterable'
  throw new RepriseError('ASYNC_CALLBACK', `${place} ${verb} ${what}, and must be synchronous: ${instead}`, {
    place,
    instead,
  })
}

/**
 * The same for several values that one callback returned. All of them are inspected, so that no rejection stays unhandled.
 * @example refuseThenables([...items], 'flatMap#1', 'use call() behind it')
 */
export function refuseThenables(values: readonly unknown[], place: string, instead: string): void {
  const first = values.find(isAsynchronous)
  if (first === undefined) return
  for (const value of values) if (value instanceof Promise) value.catch(() => undefined)
  refuseThenable(first, place, instead)
}

/**
 * The same function, whose result must not be a promise. Throws INVALID_ARGUMENT if it is not a function. It takes up to three
 * arguments, which is faster than a variable number.
 * @example const isWanted = synchronous(given, 'filter#1', 'use call()')
 */
export function synchronous<F extends (a: never, b: never, c: never) => unknown>(
  work: F,
  place: string,
  instead: string,
): F {
  checkFunction(work, place)
  const checked = (a: never, b: never, c: never) => {
    const result = work(a, b, c)
    refuseThenable(result, place, instead)
    return result
  }
  return checked as F
}

/**
 * A name in place of a function would be noticed only at the first record, and turn every record into a dead letter.
 * @example checkFunction(keyOf, 'keyBy#1')
 */
export function checkFunction(given: unknown, place: string): void {
  if (typeof given === 'function') return
  const shown = typeof given === 'string' ? `'${given.slice(0, 80)}'` : typeof given
  throw new RepriseError('INVALID_ARGUMENT', `${place} needs a function (got ${shown})`, { place })
}

/**
 * The same for named functions: those of `required` must be there, those of `optional` may be absent.
 * @example checkFunctions('timeline counter', options, ['initial', 'apply'], ['valid'])
 */
export function checkFunctions(
  where: string,
  given: unknown,
  required: readonly string[],
  optional: readonly string[] = [],
): void {
  const functions = (given ?? {}) as Readonly<Record<string, unknown>>
  for (const name of required) checkFunction(functions[name], `${where}: ${name}`)
  for (const name of optional) if (functions[name] !== undefined) checkFunction(functions[name], `${where}: ${name}`)
}

/**
 * The same for functions by name. Default: none of them.
 * @example checkFunctionMap('aggregate account: evolve', options.evolve)
 */
export function checkFunctionMap(where: string, given: unknown): void {
  if (typeof given !== 'object' || given === null) {
    throw new RepriseError('INVALID_ARGUMENT', `${where} must hold functions by their names`, { place: where })
  }
  checkFunctions(where, given, Object.keys(given))
}

function isAsynchronous(value: unknown): boolean {
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function'
  return (
    isObject && (isThenable(value) || typeof (value as AsyncIterable<unknown>)[Symbol.asyncIterator] === 'function')
  )
}

function isThenable(value: unknown): boolean {
  return typeof (value as { then?: unknown }).then === 'function'
}
