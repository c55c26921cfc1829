// A merge patch (RFC 7386): a value whose properties replace those of the target and whose nulls delete. The target is not
// modified.

import { copyJson, define, isJsonObject, type Json } from './json.ts'

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
