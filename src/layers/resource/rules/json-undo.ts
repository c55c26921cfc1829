// Turns a JSON value back into its predecessor. An entry holds the changed object and its undo, so that a reader of history
// has both without any state: a watcher checks whether the object matched before, a list restores its earlier value.
//
//   { v }              a completely different value
//   { s?, d?, n? }     of an object: properties to set, to delete, and nested undos

import { define, equalJson, isJsonObject } from './json.ts'

export type Undo =
  | { readonly v: unknown }
  | {
      readonly s?: Readonly<Record<string, unknown>>
      readonly d?: readonly string[]
      readonly n?: Readonly<Record<string, Undo>>
    }

/** Null: the values are equal. */
export function undoOf(after: unknown, before: unknown): Undo | null {
  if (equalJson(after, before)) return null
  if (!isJsonObject(after) || !isJsonObject(before)) return { v: before }
  const set: Record<string, unknown> = {}
  const nested: Record<string, Undo> = {}
  for (const [name, value] of Object.entries(before)) {
    if (!Object.hasOwn(after, name)) define(set, name, value)
    else {
      const undo = undoOf(after[name], value)
      if (undo === null) continue
      if ('v' in undo) define(set, name, undo.v)
      else define(nested, name, undo)
    }
  }
  const gone = Object.keys(after).filter((name) => !Object.hasOwn(before, name))
  return {
    ...(Object.keys(set).length > 0 && { s: set }),
    ...(gone.length > 0 && { d: gone }),
    ...(Object.keys(nested).length > 0 && { n: nested }),
  }
}

export function undone(after: unknown, undo: Undo | null): unknown {
  if (undo === null) return after
  if ('v' in undo) return undo.v
  const before: Record<string, unknown> = {}
  const gone = new Set(undo.d)
  for (const [name, value] of Object.entries(after as object)) {
    if (gone.has(name)) continue
    const nested = undo.n && Object.hasOwn(undo.n, name) ? undo.n[name]! : null
    define(before, name, undone(value, nested))
  }
  for (const [name, value] of Object.entries(undo.s ?? {})) define(before, name, value)
  return before
}
