// Aggregations combine the records of a key, or of a key and window, into one value. They are plain values, so they can be
// shared and tested alone. An aggregation must replace its accumulator and never change it in place, unless it has a `copy`
// function (in-place-changes.ts).

import { RepriseError } from '../../core/errors.ts'
import { synchronous } from '../../core/synchronous.ts'
import { replacing } from './in-place-changes.ts'

export interface Aggregation<T, Accumulator, Result> {
  initial(): Accumulator
  add(accumulator: Accumulator, value: T): Accumulator
  /** Merges the accumulators of two parts of one window. Session windows need it. */
  merge(a: Accumulator, b: Accumulator): Accumulator
  result(accumulator: Accumulator): Result
  /**
   * With `copy`, `add` may change the accumulator in place: the pipeline copies it first where a checkpoint needs the old one.
   * `add` must then throw before it changes anything, because a record that throws becomes a dead letter and must leave no
   * trace.
   */
  copy?(accumulator: Accumulator): Accumulator
  /**
   * The meaning of the accumulator, with a version: 'revenue/2'. It is part of the identity of an operator's state: a pipeline
   * does not resume with an accumulator of another kind. Default: 'custom', which matches any other 'custom'.
   */
  readonly kind?: string
}

/** Marks a built-in aggregation whose functions never throw: it needs no copy to be undone. */
const total: unique symbol = Symbol('reprise.pipeline.total')

export function neverThrows(aggregation: object): boolean {
  return total in aggregation
}

function atOnce<F extends (a: never, b: never) => unknown>(work: F, place: string): F {
  return synchronous(work, place, 'use call() before the aggregation to wait for something outside')
}

/** Wraps an aggregation so that an async function in it is refused. */
export function aggregateAtOnce<T, A, R>(given: Aggregation<T, A, R>, name: string): Aggregation<T, A, R> {
  for (const method of ['initial', 'add', 'merge', 'result'] as const) {
    if (typeof given?.[method] === 'function') continue
    const what = `${name} needs an aggregation such as count() or sum(): ${method} is missing`
    throw new RepriseError('INVALID_ARGUMENT', what, { name, method })
  }
  return {
    ...given,
    initial: atOnce(given.initial, `initial of ${name}`),
    add: addOf(given, name),
    merge: atOnce(given.merge, `merge of ${name}`),
    result: atOnce(given.result, `result of ${name}`),
  }
}

function addOf<T, A, R>(given: Aggregation<T, A, R>, name: string): Aggregation<T, A, R>['add'] {
  const place = `add of ${name}`
  const add = atOnce(given.add, place)
  return neverThrows(given) ? add : replacing(add, place, given.copy !== undefined)
}

/** @example orders.keyBy((o) => o.customer).window('daily', tumbling('1d')).aggregate(count()) */
export function count<T>(): Aggregation<T, number, number> {
  const add = (total: number) => total + 1
  return { kind: 'count', initial: () => 0, add, merge: (a, b) => a + b, result: (total) => total }
}

export function sum<T>(given: (value: T) => number): Aggregation<T, number, number> {
  const of = atOnce(given, 'the function of sum()')
  return {
    kind: 'sum',
    initial: () => 0,
    add: (total, value) => total + of(value),
    merge: (a, b) => a + b,
    result: (total) => total,
  }
}

export function min<T>(given: (value: T) => number): Aggregation<T, number, number> {
  const of = atOnce(given, 'the function of min()')
  return {
    kind: 'min',
    initial: () => Number.POSITIVE_INFINITY,
    add: (least, value) => Math.min(least, of(value)),
    merge: Math.min,
    result: (least) => least,
  }
}

export function max<T>(given: (value: T) => number): Aggregation<T, number, number> {
  const of = atOnce(given, 'the function of max()')
  return {
    kind: 'max',
    initial: () => Number.NEGATIVE_INFINITY,
    add: (greatest, value) => Math.max(greatest, of(value)),
    merge: Math.max,
    result: (greatest) => greatest,
  }
}

export function average<T>(given: (value: T) => number): Aggregation<T, readonly [number, number], number> {
  const of = atOnce(given, 'the function of average()')
  return {
    kind: 'average',
    initial: () => [0, 0],
    add: ([total, records], value) => [total + of(value), records + 1],
    merge: (a, b) => [a[0] + b[0], a[1] + b[1]],
    result: ([total, records]) => total / records,
  }
}

/** Every record of the window, in order of arrival. The state grows with each record. */
export function list<T>(): Aggregation<T, T[], readonly T[]> {
  const made: Aggregation<T, T[], readonly T[]> & { readonly [total]: true } = {
    [total]: true,
    kind: 'list',
    initial: () => [],
    add: (values, value) => {
      values.push(value)
      return values
    },
    merge: (a, b) => [...a, ...b],
    result: (values) => [...values],
    copy: (values) => [...values],
  }
  return made
}

/** Combines records with a function of two values of the same type. @example reduce((a, b) => (b.at > a.at ? b : a)) */
export function reduce<T>(given: (a: T, b: T) => T): Aggregation<T, { readonly value: T } | null, T> {
  const combine = atOnce(given, 'the function of reduce()')
  return {
    kind: 'reduce',
    initial: () => null,
    add: (before, value) => ({ value: before === null ? value : combine(before.value, value) }),
    merge: (a, b) => (a === null ? b : b === null ? a : { value: combine(a.value, b.value) }),
    // A window exists because of a record, so there is a value.
    result: (accumulator) => accumulator!.value,
  }
}
