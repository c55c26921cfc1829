// Filters of a search: a field equals a value, or has a relation to it ($eq, $ne, $gt, $gte, $lt, $lte, $in, $nin).

import { isEqual } from '../../lib/differences.ts'

const relations: Readonly<Record<string, (is: unknown, given: unknown) => boolean>> = {
  $eq: isEqual,
  $ne: (is, given) => !isEqual(is, given),
  $gt: (is, given) => Number(is) > Number(given),
  $gte: (is, given) => Number(is) >= Number(given),
  $lt: (is, given) => Number(is) < Number(given),
  $lte: (is, given) => Number(is) <= Number(given),
  $in: (is, given) => Array.isArray(given) && given.some((one) => isEqual(is, one)),
  $nin: (is, given) => !Array.isArray(given) || !given.some((one) => isEqual(is, one)),
}

export function matchesFilter(
  value: Readonly<Record<string, unknown>>,
  filter: Readonly<Record<string, unknown>>,
): boolean {
  return Object.entries(filter).every(([field, wanted]) => {
    const is = Object.hasOwn(value, field) ? value[field] : undefined
    if (!isRelation(wanted)) return isEqual(is, wanted)
    return Object.entries(wanted).every(([name, given]) => relations[name]!(is, given))
  })
}

function isRelation(wanted: unknown): wanted is Record<string, unknown> {
  if (typeof wanted !== 'object' || wanted === null || Array.isArray(wanted)) return false
  const names = Object.keys(wanted)
  return names.length > 0 && names.every((name) => Object.hasOwn(relations, name))
}
