// JSON patches (RFC 6902): a list of operations, applied completely or not at all. The library rfc6902 applies them to a copy.
// Each operation is checked first, because the library follows inherited properties (`/toString/x`), ignores `__proto__`,
// `constructor` and `prototype`, accepts indexes that an array does not have, and compares arrays in quadratic time. Patches
// come from clients, so their cost is bounded as well.

import { applyPatch, type Operation } from 'rfc6902'
import { RepriseError } from '../../core/errors.ts'
import { partsOf } from './rules/field-owners.ts'
import { copyJson, equalJson, isJsonObject, type Json, roughBytes } from './rules/json.ts'

export type JsonPatch = readonly JsonPatchOperation[]

export type JsonPatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'move' | 'copy'; readonly from: string; readonly path: string }

const operationsMax = 10_000
const segmentsMax = 100
/** Bound for the bytes that all `copy` operations of a patch add; each one could double the value. */
const copiedBytesMax = 4 * 1024 * 1024
/** Property names that the library ignores. */
const unnamed = new Set(['__proto__', 'constructor', 'prototype'])

/** The library cannot replace a whole document, so the document is a property of this box. */
interface Box {
  document?: Json
  copiedBytes: number
}

/**
 * INVALID_ARGUMENT: not a patch, or too large. CONFLICT: the patch does not apply to this value (a missing path, a failed
 * test).
 * @example jsonPatch({ a: [1] }, [{ op: 'add', path: '/a/-', value: 2 }]) // { a: [1, 2] }
 * /
 */
export function jsonPatch(target: unknown, patch: JsonPatch): Json {
  if (!Array.isArray(patch)) throw malformed('a JSON patch must be a list of operations')
  if (patch.length > operationsMax) throw malformed(`a JSON patch must have at most ${operationsMax} operations`)
  const box: Box = { document: copyJson(target, 'the target'), copiedBytes: 0 }
  refuseUnnamed(box.document, 'the target')
  for (const [i, operation] of patch.entries()) {
    const where = `operation ${i} of the patch`
    const left = checked(box, operation, where)
    if (left) run(box, left, where)
  }
  return copyJson(box.document ?? null, 'the patched value')
}

/** Checks an operation and returns the part that the library applies; null: nothing. */
function checked(box: Box, operation: JsonPatchOperation, where: string): Operation | null {
  const { op, path } = (operation ?? {}) as JsonPatchOperation
  const to = segmentsOf(path, where)
  switch (op) {
    case 'add':
      checkPlace(box, to, where)
      return { op, path: boxed(path), value: givenValue(operation, where) }
    case 'replace':
      read(box, to, where)
      return { op, path: boxed(path), value: givenValue(operation, where) }
    case 'remove':
      read(box, to, where)
      return { op, path: boxed(path) }
    case 'test':
      if (equalJson(read(box, to, where), givenValue(operation, where))) return null
      throw new RepriseError('CONFLICT', `${where}: ${path || 'the whole'} has a different value`, { path })
    case 'copy': {
      const { from } = operation as { readonly from: string }
      const copied = read(box, segmentsOf(from, where), where)
      checkPlace(box, to, where)
      box.copiedBytes += roughBytes(copied)
      if (box.copiedBytes > copiedBytesMax) throw malformed(`the patch copies more than ${copiedBytesMax} bytes`)
      return { op, from: boxed(from), path: boxed(path) }
    }
    case 'move': {
      const { from } = operation as { readonly from: string }
      const moved = read(box, segmentsOf(from, where), where)
      if (path === from) return null
      if (path.startsWith(`${from}/`)) throw malformed(`${where} moves ${from} into itself`)
      // The target path refers to the value after the removal.
      run(box, { op: 'remove', path: boxed(from) }, where)
      checkPlace(box, to, where)
      return { op: 'add', path: boxed(path), value: moved }
    }
    default:
      throw malformed(`${where} must be add, remove, replace, move, copy or test (got ${String(op)})`)
  }
}

function run(box: Box, operation: Operation, where: string): void {
  const [refused] = applyPatch(box, [operation])
  if (refused) throw new RepriseError('CONFLICT', `${where}: ${refused.message}`, { path: operation.path })
}

function boxed(path: string): string {
  return `/document${path}`
}

function givenValue(operation: object, where: string): Json {
  const { op, value } = operation as { readonly op: string; readonly value?: unknown }
  if (!Object.hasOwn(operation, 'value') || value === undefined) throw malformed(`${where} (${op}) needs a value`)
  const copy = copyJson(value, `the value of ${where}`)
  refuseUnnamed(copy, `the value of ${where}`)
  return copy
}

function segmentsOf(pointer: unknown, where: string): readonly string[] {
  if (typeof pointer !== 'string' || (pointer !== '' && !pointer.startsWith('/')) || /~(?![01])/.test(pointer)) {
    throw malformed(`${where}: a path must be '' or start with / (got ${String(pointer).slice(0, 80)})`)
  }
  const segments = partsOf(pointer)
  if (segments.length > segmentsMax) throw malformed(`${where}: a path must have at most ${segmentsMax} parts`)
  const refused = segments.find((part) => unnamed.has(part))
  if (refused !== undefined) throw malformed(`${where}: a path cannot name ${refused}: use a merge patch`)
  return segments
}

/** The value at a path; follows only own properties and existing indexes. */
function read(box: Box, path: readonly string[], where: string): Json {
  if (box.document === undefined) throw nowhere(path, where)
  let at: Json = box.document
  for (const part of path) {
    if (Array.isArray(at)) at = at[placeIn(at, part, at.length - 1, where)]!
    else if (isJsonObject(at) && Object.hasOwn(at, part)) at = at[part] as Json
    else throw nowhere(path, where)
  }
  return at
}

/** Checks that a value can be added at the path. */
function checkPlace(box: Box, path: readonly string[], where: string): void {
  if (path.length === 0) return
  const parent = read(box, path.slice(0, -1), where)
  const name = path[path.length - 1]!
  if (Array.isArray(parent)) {
    if (name !== '-') placeIn(parent, name, parent.length, where)
  } else if (!isJsonObject(parent)) throw nowhere(path, where)
}

function placeIn(list: readonly Json[], part: string, most: number, where: string): number {
  const place = /^(0|[1-9]\d*)$/.test(part) ? Number(part) : -1
  if (place >= 0 && place <= most) return place
  throw new RepriseError('CONFLICT', `${where}: a list of ${list.length} has no index ${part}`, { part })
}

/** The library would drop such a property when it copies. */
function refuseUnnamed(value: unknown, what: string): void {
  if (typeof value !== 'object' || value === null) return
  if (Object.hasOwn(value, '__proto__')) throw malformed(`${what} has a property __proto__: use a merge patch`)
  for (const each of Object.values(value)) refuseUnnamed(each, what)
}

function nowhere(path: readonly string[], where: string): RepriseError {
  return new RepriseError('CONFLICT', `${where}: there is no /${path.join('/')}`, { path: `/${path.join('/')}` })
}

function malformed(what: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', what)
}
