// Field ownership: a party that applies fields to an object owns the fields it names, and no others. The object stores, per
// owner, a list of fields: pointers (RFC 6901) to values other than non-empty objects. A list is one field: merging its
// items would require a schema with their keys.
//
//   a field that another owner has with another value      a conflict, unless forced; then ownership moves
//   ...with the same value                                 both own it
//   a field that this owner had and does not name now      is removed, unless another party owns it
//   a field without an owner                               stays, and belongs to the party that names it
//   a field that is changed in another way than by apply   has no owner from then on

import { RepriseError } from '../../../core/errors.ts'
import { copyJson, define, equalJson, isJsonObject, type Json } from './json.ts'

export type FieldOwners = Readonly<Record<string, readonly string[]>>

export interface FieldConflict {
  readonly owner: string
  readonly field: string
}

const fieldsMax = 10_000
const ownersMax = 100
const ownerLengthMax = 253

type Fields = ReadonlyMap<string, Json>

/** CONFLICT: another owner has set another value; the owners and fields are in its data. Neither argument is changed. */
export function applyFields(
  target: unknown,
  owners: FieldOwners,
  wanted: unknown,
  by: string,
  isForced: boolean,
): { readonly value: Json; readonly owners: FieldOwners } {
  checkOwner(by)
  const fields = fieldsOf(copyJson(wanted, 'what is applied'))
  if (fields.size > fieldsMax) throw new RepriseError('INVALID_ARGUMENT', `at most ${fieldsMax} fields can be applied`)
  const value = copyJson(target, 'the object') as Record<string, Json>
  const others = Object.entries(owners).filter(([owner]) => owner !== by)
  const conflicts = conflictsOf(value, others, fields)
  if (conflicts.length > 0 && !isForced) throw conflict(by, conflicts)
  const taken = new Set(conflicts.map(({ owner, field }) => `${owner} ${field}`))
  const kept = others.map(([owner, held]) => [owner, held.filter((field) => !taken.has(`${owner} ${field}`))] as const)
  const stays = placesOf([...kept.flatMap(([, held]) => held), ...fields.keys()])
  for (const field of Object.hasOwn(owners, by) ? owners[by]! : []) {
    if (!stays.has(field)) remove(value, field, stays)
  }
  for (const [field, wish] of fields) put(value, partsOf(field), wish)
  const next = [...kept, [by, [...fields.keys()].sort()] as const].filter(([, held]) => held.length > 0)
  if (next.length > ownersMax)
    throw new RepriseError('INVALID_ARGUMENT', `the fields of an object must have at most ${ownersMax} owners`)
  return { value, owners: ownersFrom(next) }
}

/** Ownership after a change made without apply: a field with a new value has no owner. */
export function stillOwned(owners: FieldOwners, before: unknown, after: unknown): FieldOwners {
  const held = Object.entries(owners).map(([owner, fields]) => {
    const same = fields.filter((field) => isSame(at(before, partsOf(field)), at(after, partsOf(field))))
    return [owner, same] as const
  })
  return ownersFrom(held.filter(([, fields]) => fields.length > 0))
}

/** Pointers to all values other than non-empty objects. The whole value is not a field. */
export function fieldsOf(value: Json, prefix = ''): Fields {
  if (!isJsonObject(value)) return new Map([[prefix, value]])
  const fields = new Map<string, Json>()
  for (const [name, each] of Object.entries(value) as [string, Json][]) {
    for (const [field, leaf] of fieldsOf(each, `${prefix}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`)) {
      fields.set(field, leaf)
    }
  }
  if (fields.size === 0 && prefix !== '') fields.set(prefix, {})
  return fields
}

function conflictsOf(
  value: Json,
  others: readonly (readonly [string, readonly string[]])[],
  fields: Fields,
): FieldConflict[] {
  const wanted = placesOf(fields.keys())
  const isMap = (field: string) => isJsonObject(at(value, partsOf(field)))
  return others.flatMap(([owner, held]) =>
    held
      .filter((field) => {
        if (fields.has(field)) return !isSame(at(value, partsOf(field)), fields.get(field))
        // A wanted field inside a map leaves the map unchanged.
        if (wanted.has(field)) return !isMap(field)
        const above = aboveOf(field).find((each) => fields.has(each))
        return above !== undefined && !isJsonObject(fields.get(above))
      })
      .map((field) => ({ owner, field })),
  )
}

/** The fields and all their ancestors. */
function placesOf(fields: Iterable<string>): Set<string> {
  const places = new Set<string>()
  for (const field of fields) {
    places.add(field)
    for (const above of aboveOf(field)) places.add(above)
  }
  return places
}

function aboveOf(field: string): string[] {
  const above: string[] = []
  for (let i = field.lastIndexOf('/'); i > 0; i = field.lastIndexOf('/', i - 1)) above.push(field.slice(0, i))
  return above
}

/** The parts of a JSON pointer. @example partsOf('/a~1b') // ['a/b'] */
export function partsOf(field: string): string[] {
  return field
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
}

function at(value: unknown, parts: readonly string[]): unknown {
  let found = value
  for (const part of parts) found = isJsonObject(found) && Object.hasOwn(found, part) ? found[part] : undefined
  return found
}

/** Two maps count as the same field, regardless of their content. */
function isSame(a: unknown, b: unknown): boolean {
  return (isJsonObject(a) && isJsonObject(b)) || equalJson(a, b)
}

/** Maps left empty are removed as well, except the outermost and those with an owner. */
function remove(value: Json, field: string, stays: ReadonlySet<string>): void {
  for (const place of [field, ...aboveOf(field).filter((above) => above.lastIndexOf('/') > 0)]) {
    if (stays.has(place)) return
    const parts = partsOf(place)
    const held = at(value, parts)
    if (isJsonObject(held) && Object.keys(held).length > 0) return
    const parent = at(value, parts.slice(0, -1))
    if (isJsonObject(parent)) delete parent[parts[parts.length - 1]!]
  }
}

function put(value: Record<string, Json>, [name, ...rest]: readonly string[], wish: Json): void {
  const within = Object.hasOwn(value, name!) ? value[name!] : undefined
  if (rest.length === 0) {
    if (!(isJsonObject(wish) && isJsonObject(within))) define(value, name!, wish)
    return
  }
  const map = isJsonObject(within) ? (within as Record<string, Json>) : {}
  define(value, name!, map as Json)
  put(map, rest, wish)
}

function ownersFrom(held: readonly (readonly [string, readonly string[]])[]): FieldOwners {
  const owners: Record<string, readonly string[]> = {}
  for (const [owner, fields] of held) define(owners, owner, fields)
  return owners
}

function checkOwner(by: unknown): void {
  if (typeof by === 'string' && by.length >= 1 && by.length <= ownerLengthMax) return
  const what = `apply: by must name the applying owner in 1 to ${ownerLengthMax} characters`
  throw new RepriseError('INVALID_ARGUMENT', what, { by: String(by).slice(0, 80) })
}

function conflict(by: string, conflicts: readonly FieldConflict[]): RepriseError {
  const [first, ...more] = conflicts
  const rest = more.length > 0 ? `, and ${more.length} more` : ''
  const what = `${by} cannot apply ${first!.field}: ${first!.owner} owns it${rest}; force it to take it over`
  return new RepriseError('CONFLICT', what, { conflicts: conflicts.slice(0, 100) })
}
