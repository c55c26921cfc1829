// Names and values of options, validated at the call: an unknown name would otherwise be ignored silently, and a job without
// its rate limit would be noticed only by the service that it floods.

import { isObject, shapeOf } from './data-shape.ts'
import { RepriseError } from './errors.ts'

/** @example checkOptions('job papers', options, new Set(['rate']), { rate: 'rate' }) */
export function checkOptions(
  where: string,
  given: object | undefined | null,
  known: ReadonlySet<string>,
  renamed: Readonly<Record<string, string>> = {},
): void {
  if (given === undefined) return
  if ((typeof given !== 'object' && typeof given !== 'function') || given === null || Array.isArray(given)) {
    const got = shapeOf(given)
    const what = `${where}: options must be an object with ${inWords(known)} (got ${got})`
    throw new RepriseError('INVALID_ARGUMENT', what, { given: got })
  }
  for (const name in given) {
    if (known.has(name)) continue
    const now = Object.hasOwn(renamed, name) ? renamed[name] : undefined
    const near = now === undefined ? nearestName(name, known) : null
    const advice = now !== undefined ? `it is called ${now}` : near ? `did you mean ${near}?` : adviceOf(known)
    const use = now ?? near
    throw new RepriseError('INVALID_ARGUMENT', `${where}: unknown option ${name}; ${advice}`, {
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
  checkOptions(where, (given ?? undefined) as object | undefined, known, renamed)
  if (given !== undefined && given !== null) return
  throw new RepriseError('INVALID_ARGUMENT', `${where}: options are required: an object with ${inWords(known)}`)
}

/** An allowed value of an option: a word, or a test with its description. */
export type Allowed = string | readonly [inWords: string, isRight: (value: unknown) => boolean]

export const aFunction: Allowed = ['a function', (value) => typeof value === 'function']
export const aNumber: Allowed = ['a number', Number.isFinite]
export const aBoolean: Allowed = ['true or false', (value) => typeof value === 'boolean']
export const aText: Allowed = ['text', (value) => typeof value === 'string']
export const aName: Allowed = ['non-empty text', (value) => typeof value === 'string' && value !== '']
export const aCount: Allowed = [
  'a whole number of at least 0',
  (value) => Number.isSafeInteger(value) && Number(value) >= 0,
]
export const texts: Allowed = ['a list of texts', (value) => isListOf(value, (each) => typeof each === 'string')]
export const anObject: Allowed = ['an object', (value) => isObject(value)]
export const aSignal: Allowed = ['an AbortSignal', (value) => isObject(value) && 'aborted' in (value as object)]

function isListOf(value: unknown, isRight: (each: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isRight)
}

/** The same allowed values for several names, separated by spaces. @example forEach('dryRun forks', aBoolean) */
export function forEach(names: string, ...allowed: readonly Allowed[]): Record<string, readonly Allowed[]> {
  return Object.fromEntries(names.split(' ').map((name) => [name, allowed]))
}

/**
 * Validates values of options at the call: otherwise a misspelt word would act like one of the others. Absent options are not
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

/** Throws unless the value is non-empty text. @example checkText('the path of backup()', path) */
export function checkText(what: string, value: unknown): asserts value is string {
  if (typeof value !== 'string') throw misshapen(what, 'text', value)
  if (value === '') throw new RepriseError('INVALID_ARGUMENT', `${what} must not be empty`)
}

/** Throws unless the value is a list. @example checkList('the members of a group', members) */
export function checkList(what: string, value: unknown): asserts value is readonly unknown[] {
  if (!Array.isArray(value)) throw misshapen(what, 'a list', value)
}

/** Throws unless the value is an object, and not a list. @example checkObject('the object of create()', object) */
export function checkObject(what: string, value: unknown): asserts value is object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw misshapen(what, 'an object', value)
}

function misshapen(what: string, shape: string, value: unknown): RepriseError {
  const got = shapeOf(value)
  return new RepriseError('INVALID_ARGUMENT', `${what} must be ${shape} (got ${got})`, { given: got })
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
  return known.size === 0 ? 'it has no options' : `use ${inWords(known)}`
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
