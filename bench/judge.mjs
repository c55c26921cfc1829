// Targets that a bench must reach. { ratioMin, ratioMax, valueMin, valueMax } in any mix, and the same for measured
// details: { details: { stallMs: { max: 25 } } }. All must hold.

const bounds = { ratioMin: 'ratio', ratioMax: 'ratio', valueMin: 'value', valueMax: 'value' }

/** The target of a bench, or null. A misspelt bound is an error, because it could never be missed. */
export function readTarget({ target }) {
  if (target === undefined) return null
  for (const [name, bound] of Object.entries(target)) {
    const isKnown =
      name === 'details'
        ? Object.values(bound).every((limits) => Object.keys(limits).every((key) => key === 'min' || key === 'max'))
        : Object.hasOwn(bounds, name) && Number.isFinite(bound)
    if (!isKnown) throw new Error(`unknown target ${name}`)
  }
  return target
}

/** True, false, or null without a target. */
export function judge(target, result) {
  if (target === null) return null
  const holds = ([name, bound]) => {
    if (name === 'details') {
      return Object.entries(bound).every(([key, limits]) => isWithin(result.details?.[key], limits))
    }
    const limits = name.endsWith('Min') ? { min: bound } : { max: bound }
    return isWithin(result[bounds[name]], limits)
  }
  return Object.entries(target).every(holds)
}

/** @example describeTarget({ ratioMin: 0.7 }) // 'ratio ≥ 0.7' */
export function describeTarget(target) {
  if (target === null || target === undefined) return ''
  const words = Object.entries(target).flatMap(([name, bound]) =>
    name === 'details'
      ? Object.entries(bound).flatMap(([key, limits]) => describeLimits(key, limits))
      : describeLimits(bounds[name], name.endsWith('Min') ? { min: bound } : { max: bound }),
  )
  return words.join(', ')
}

/** A figure that was not measured misses its target. */
function isWithin(measured, { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY }) {
  return Number.isFinite(measured) && measured >= min && measured <= max
}

function describeLimits(name, { min, max }) {
  return [...(min === undefined ? [] : [`${name} ≥ ${min}`]), ...(max === undefined ? [] : [`${name} ≤ ${max}`])]
}
