// One field of a value, by its path: a copy with that field changed or without it. The copy shares all other fields, so
// values that are not plain JSON (dates, maps, bytes) keep their types.

import { RepriseError } from './errors.ts'

/** @example withField({ a: { b: 1 }, c: 2 }, 'a.b', { to: 5 }) // { a: { b: 5 }, c: 2 } */
export function withField(value: unknown, path: string, change: { readonly to: unknown } | 'remove'): unknown {
  return changed(value, path.split('.'), 0, change)
}

function changed(
  value: unknown,
  names: readonly string[],
  at: number,
  change: { readonly to: unknown } | 'remove',
): unknown {
  const name = names[at]
  if (name === undefined) return change === 'remove' ? undefined : change.to
  const isLast = at === names.length - 1
  const refuse = (what: string) => {
    const path = names.slice(0, at).join('.') || 'the value'
    return new RepriseError('INVALID_ARGUMENT', `${names.join('.')} cannot be edited: ${path} ${what}`, { path, name })
  }
  if (Array.isArray(value)) {
    const index = /^\d+$/.test(name) ? Number(name) : -1
    if (index < 0 || index >= value.length) throw refuse(`is a list of ${value.length} items and has no ${name}`)
    if (isLast && change === 'remove') return value.toSpliced(index, 1)
    return value.with(index, changed(value[index], names, at + 1, change))
  }
  const prototype = typeof value === 'object' && value !== null ? Object.getPrototypeOf(value) : undefined
  if (prototype !== Object.prototype && prototype !== null) throw refuse('is neither an object nor a list')
  const fields = value as Readonly<Record<string, unknown>>
  const isThere = Object.hasOwn(fields, name)
  if (!isThere && (!isLast || change === 'remove')) throw refuse(`has no ${name}`)
  if (isLast && change === 'remove') return Object.fromEntries(Object.entries(fields).filter(([key]) => key !== name))
  // `fromEntries` treats a field named __proto__ like any other field.
  const next = changed(isThere ? fields[name] : undefined, names, at + 1, change)
  return Object.fromEntries([...Object.entries(fields).filter(([key]) => key !== name), [name, next]])
}
