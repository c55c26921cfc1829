// Two ways to say a change: a merge patch (RFC 7386), a value whose properties replace those of the target and whose nulls
// delete; and a JSON patch (RFC 6902), a list of operations that are all done or none. Neither changes what it is given.

import { RepriseError } from '../errors.ts'
import { copyJson, define, equalJson, isJsonObject, type Json } from './json.ts'

export type JsonPatch = readonly JsonPatchOperation[]

export type JsonPatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'move' | 'copy'; readonly from: string; readonly path: string }

/** @example mergePatch({ a: 1, b: 2 }, { b: null, c: 3 }) // { a: 1, c: 3 } */
export function mergePatch(target: unknown, patch: unknown): Json {
  if (!isJsonObject(patch)) return copyJson(patch, 'the patch')
  const merged: Record<string, Json> = isJsonObject(target)
    ? (copyJson(target, 'the target') as Record<string, Json>)
    : {}
  for (const [name, value] of Object.entries(patch)) {
    if (value === undefined) continue
    if (value === null) delete merged[name]
    else define(merged, name, mergePatch(Object.hasOwn(merged, name) ? merged[name] : undefined, value))
  }
  return merged
}

/**
 * INVALID_ARGUMENT: it is not a patch. CONFLICT: it does not apply to this value (a path that is not there, a test that fails).
 * @example jsonPatch({ a: [1] }, [{ op: 'add', path: '/a/-', value: 2 }]) // { a: [1, 2] }
 */
export function jsonPatch(target: unknown, patch: JsonPatch): Json {
  if (!Array.isArray(patch)) throw new RepriseError('INVALID_ARGUMENT', 'a JSON patch must be a list of operations')
  return patch.reduce<Json>(apply, copyJson(target, 'the target'))
}

function apply(document: Json, operation: JsonPatchOperation, index: number): Json {
  const { op, path } = (operation ?? {}) as JsonPatchOperation
  const where = `operation ${index} of the patch`
  const value = () => {
    if (!('value' in operation) || operation.value === undefined) throw malformed(`${where} (${op}) needs a value`)
    return copyJson(operation.value, `the value of ${where}`)
  }
  const to = segmentsOf(path, where)
  switch (op) {
    case 'add':
      return add(document, to, value(), where)
    case 'replace':
      read(document, to, where)
      return to.length === 0 ? value() : add(remove(document, to, where), to, value(), where)
    case 'remove':
      read(document, to, where)
      return remove(document, to, where)
    case 'test':
      if (equalJson(read(document, to, where), value())) return document
      throw new RepriseError('CONFLICT', `${where}: ${path || 'the whole'} has another value`, { path })
    case 'copy': {
      const { from } = operation as { readonly from: string }
      return add(document, to, read(document, segmentsOf(from, where), where), where)
    }
    case 'move': {
      const { from } = operation as { readonly from: string }
      if (path !== from && path.startsWith(`${from}/`)) throw malformed(`${where} moves ${from} into itself`)
      const moved = read(document, segmentsOf(from, where), where)
      return add(remove(document, segmentsOf(from, where), where), to, moved, where)
    }
    default:
      throw malformed(`${where} must be add, remove, replace, move, copy or test (got ${String(op)})`)
  }
}

function segmentsOf(pointer: unknown, where: string): readonly string[] {
  if (typeof pointer !== 'string' || (pointer !== '' && !pointer.startsWith('/')) || /~(?![01])/.test(pointer)) {
    throw malformed(`${where}: a path must be '' or start with / (got ${String(pointer)})`)
  }
  if (pointer === '') return []
  return pointer
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
}

function read(document: Json, path: readonly string[], where: string): Json {
  let at: Json = document
  for (const part of path) {
    if (Array.isArray(at)) at = at[indexIn(at, part, at.length - 1, where)]!
    else if (isJsonObject(at) && Object.hasOwn(at, part)) at = at[part] as Json
    else throw nowhere(path, where)
  }
  return at
}

function add(document: Json, path: readonly string[], value: Json, where: string): Json {
  return change(
    document,
    path,
    where,
    (parent, name) => {
      if (Array.isArray(parent)) {
        const at = name === '-' ? parent.length : indexIn(parent, name, parent.length, where)
        return [...parent.slice(0, at), value, ...parent.slice(at)]
      }
      const copy = { ...(parent as Record<string, Json>) }
      define(copy, name, value)
      return copy
    },
    value,
  )
}

function remove(document: Json, path: readonly string[], where: string): Json {
  return change(
    document,
    path,
    where,
    (parent, name) => {
      if (Array.isArray(parent)) {
        const at = indexIn(parent, name, parent.length - 1, where)
        return [...parent.slice(0, at), ...parent.slice(at + 1)]
      }
      const { ...copy } = parent as Record<string, Json>
      delete copy[name]
      return copy
    },
    null,
  )
}

/** A new document in which the parent of `path` is what `by` makes of it; of the document itself: `whole`. */
function change(
  document: Json,
  path: readonly string[],
  where: string,
  by: (parent: Json, name: string) => Json,
  whole: Json,
): Json {
  const [name, ...rest] = path
  if (name === undefined) return whole
  if (rest.length === 0) {
    if (!Array.isArray(document) && !isJsonObject(document)) throw nowhere(path, where)
    return by(document, name)
  }
  if (Array.isArray(document)) {
    const at = indexIn(document, name, document.length - 1, where)
    return document.map((each, i) => (i === at ? change(each, rest, where, by, whole) : each))
  }
  if (!isJsonObject(document) || !Object.hasOwn(document, name)) throw nowhere(path, where)
  const copy = { ...document } as Record<string, Json>
  define(copy, name, change(copy[name]!, rest, where, by, whole))
  return copy
}

function indexIn(list: readonly Json[], part: string, most: number, where: string): number {
  const index = /^(0|[1-9]\d*)$/.test(part) ? Number(part) : -1
  if (index >= 0 && index <= most) return index
  throw new RepriseError('CONFLICT', `${where}: a list of ${list.length} has no place ${part}`, { part })
}

function nowhere(path: readonly string[], where: string): RepriseError {
  return new RepriseError('CONFLICT', `${where}: there is no /${path.join('/')}`, { path: `/${path.join('/')}` })
}

function malformed(what: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', what)
}
