// Declared messages: a signal, query or update as a typed value, for the code that receives it and for its senders. A
// plain name works as well, without type checks.

import { RepriseError } from '../../core/errors.ts'
import type { SignalDefinition } from '../../engine/model/enlisting.ts'

export type { Carried, SignalDefinition } from '../../engine/model/enlisting.ts'

declare const carries: unique symbol

/** A query with these arguments and this result. */
export interface QueryDefinition<Args extends readonly unknown[], Result> {
  readonly kind: 'query'
  readonly name: string
  readonly [carries]?: (args: Args, result: Result) => [Args, Result]
}

/** An update with this argument and this result. */
export interface UpdateDefinition<Args, Result> {
  readonly kind: 'update'
  readonly name: string
  readonly [carries]?: (args: Args, result: Result) => [Args, Result]
}

/** @example const paid = signal<{ amount: number }>('paid') // ctx.signal(paid), run.signal(paid, { amount: 1 }) */
export function signal<T = void>(name: string): SignalDefinition<T> {
  return { kind: 'signal', name: checked('signal', name) }
}

/** @example const total = query<[currency: string], number>('total') // ctx.onQuery(total, …), run.query(total, 'EUR') */
export function query<Args extends readonly unknown[] = [], Result = unknown>(
  name: string,
): QueryDefinition<Args, Result> {
  return { kind: 'query', name: checked('query', name) }
}

/** @example const add = update<number, number>('add') // ctx.onUpdate(add, …), run.update(add, 1) */
export function update<Args = void, Result = unknown>(name: string): UpdateDefinition<Args, Result> {
  return { kind: 'update', name: checked('update', name) }
}

export function messageName(message: string | { readonly name: string }): string {
  return checked('message', (typeof message === 'string' ? message : message?.name) as string)
}

function checked(what: string, name: string): string {
  if (typeof name === 'string' && name.length > 0) return name
  throw new RepriseError('INVALID_ARGUMENT', `a ${what} must have a name`, { given: String(name) })
}
