// Names and values of options, validated at the call: an unknown name would otherwise be ignored silently, and a job without
// its rate limit would be noticed only by the service that it floods.

import { RepriseError } from './errors.ts'

/** @example checkOptions('job papers', options, new Set(['rate']), { rate: 'rate' }) */
export function checkOptions(
  where: string,
  given: object | undefined | null,
  known: ReadonlySet<string>,
  renamed: Readonly<Record<string, string>> = {},
): void {
  if (given === undefined || given === null) return
  if (typeof given !== 'object' && typeof given !== 'function') {
    const what = `${where}: options are an object, with ${inWords(known)}`
    throw new RepriseError('INVALID_ARGUMENT', what, { given: typeof given })
  }
  for (const name in given) {
    if (known.has(name)) continue
    const now = Object.hasOwn(renamed, name) ? renamed[name] : undefined
    const near = now === undefined ? nearestName(name, known) : null
    const advice = now !== undefined ? `it is called ${now}` : near ? `did you mean ${near}?` : adviceOf(known)
    const use = now ?? near
    throw new RepriseError('INVALID_ARGUMENT', `${where}: there is no option ${name}; ${advice}`, {
      option: name,
      ...(use && { use }),
    })
  }
}

/**
 * The same for options that must be given: a name alone defines nothing.
 * @example checkGivenOptions('job papers', options, new Set(['source', 'each']))
 */
export function checkGivenOptions(
  where: string,
  given: unknown,
  known: ReadonlySet<string>,
  renamed: Readonly<Record<string, string>> = {},
): void {
  checkOptions(where, (given ?? null) as object | null, known, renamed)
  if (given !== undefined && given !== null) return
  throw new RepriseError('INVALID_ARGUMENT', `${where}: options are missing: an object with ${inWords(known)}`)
}

/** An allowed value of an option: a word, or a test with its description. */
export type Allowed = string | readonly [inWords: string, isRight: (value: unknown) => boolean]

export const aFunction: Allowed = ['a function', (value) => typeof value === 'function']
export const aNumber: Allowed = ['a number', Number.isFinite]

/**
 * Validates values of options at the call: a misspelt word would otherwise count as one of the others. Absent options are not
 * checked.
 * @example checkValues('schedule nightly', options, { overlap: ['skip', 'allow'] })
 */
export function checkValues(
  where: string,
  given: object | undefined | null,
  allowed: Readonly<Record<string, readonly Allowed[]>>,
): void {
  if (given === undefined || given === null) return
  for (const name in allowed) {
    const value = (given as Record<string, unknown>)[name]
    if (value === undefined) continue
    const isRight = allowed[name]!.some((each) => (typeof each === 'string' ? each === value : each[1](value)))
    if (isRight) continue
    const words = allowed[name]!.map((each) => (typeof each === 'string' ? `'${each}'` : each[0]))
    const choice = words.length === 1 ? words[0] : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
    const got = typeof value === 'string' ? `'${value.slice(0, 40)}'` : value === null ? 'null' : typeof value
    throw new RepriseError('INVALID_ARGUMENT', `${where}: ${name} must be ${choice} (got ${got})`, {
      option: name,
      allowed: words,
    })
  }
}

/** Throws unless the value is a whole number in this range. @example checkCount('job papers: shards', 4, 1, 256) */
export function checkCount(what: string, value: unknown, least = 1, most = Number.MAX_SAFE_INTEGER): void {
  if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) return
  const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`
  const text = `${what} must be a whole number ${range} (got ${String(value)})`
  throw new RepriseError('INVALID_ARGUMENT', text, { given: String(value) })
}

/**
 * All names of an options type, separated by spaces: the compiler reports missing and unknown ones.
 * @example namesOf<{ id?: string; label?: string }>()('id label')
 */
export function namesOf<T>() {
  return <Text extends string>(names: AllNames<T, Text>): ReadonlySet<string> => new Set(names.split(' '))
}

type Words<Text extends string> = Text extends `${infer First} ${infer Rest}` ? First | Words<Rest> : Text

/** The text itself if it names every option of the type and no other; else a text that names the difference. */
type AllNames<T, Text extends string> = [Exclude<keyof T & string, Words<Text>>] extends [never]
  ? [Exclude<Words<Text>, keyof T>] extends [never]
    ? Text
    : `no such option: ${Exclude<Words<Text>, keyof T>}`
  : `missing: ${Exclude<keyof T & string, Words<Text>>}`

function adviceOf(known: ReadonlySet<string>): string {
  return known.size === 0 ? 'it takes none' : `use ${inWords(known)}`
}

function inWords(known: ReadonlySet<string>): string {
  return `one of ${[...known].sort().join(', ')}`
}

/** The known name closest to a misspelt one; null if none is close. @example nearestName('evry', ['every']) // 'every' */
export function nearestName(given: string, known: Iterable<string>): string | null {
  let best: string | null = null
  let bestDistance = Math.max(1, Math.floor(given.length / 3)) + 1
  for (const name of known) {
    const distance = distanceOf(given.toLowerCase(), name.toLowerCase())
    if (distance < bestDistance) [best, bestDistance] = [name, distance]
  }
  return best
}

/** The number of letters to insert, delete or replace; two swapped neighbours count once. */
function distanceOf(a: string, b: string): number {
  let older: number[] = []
  let before = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let least = Math.min(before[j]! + 1, row[j - 1]! + 1, before[j - 1]! + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) least = Math.min(least, older[j - 2]! + 1)
      row.push(least)
    }
    older = before
    before = row
  }
  return before[b.length]!
}
