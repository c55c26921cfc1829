// A fold turns history into state. This file holds its two pure halves: upgrading old entries to the version that the
// code understands (upcasters), and applying entries in order. A type that is not listed is at version 1.
//
// Links are declared as values, not computed: so `missingPaths` can check before a deploy, without running any of them,
// whether all stored entries can still be read.

import { isReprise, RepriseError } from '../errors.ts'
import { refuseThenable } from '../synchronous.ts'

/** Converts data of this version to the next version. */
export type Upcast = (data: unknown) => unknown

/** From this version on, the entry has another type. Allowed at any version, also the last: the old type is then retired. */
export interface Renamed {
  readonly type: string
  readonly version: number
  readonly data?: Upcast
}

/**
 * For each type of entry: the version that the code writes now, and a link from each older version.
 * @example { added: { version: 3, from: { 1: (d) => ({ by: d }), 2: (d) => ({ ...d, unit: 'piece' }) } },
 *            plus: { version: 1, from: { 1: { type: 'added', version: 2 } } } }
 */
export interface Upcasters {
  readonly [type: string]: {
    readonly version: number
    readonly from?: Readonly<Record<number, Upcast | Renamed>>
  }
}

export interface Versioned {
  readonly type: string
  readonly version: number
  readonly data: unknown
}

export interface MissingPath {
  /** The stored kind of entry… */
  readonly type: string
  readonly version: number
  /** …and the point at which its upgrade path ends. */
  readonly endsAt: { readonly type: string; readonly version: number }
  readonly code: 'UPCAST_MISSING' | 'INCOMPATIBLE_VERSION'
  readonly why: string
}

/** The entry as the current code would write it; the same object if it is already up to date. */
export function upcast<E extends Versioned>(entry: E, upcasters: Upcasters): E {
  let link = linkFrom(entry.type, entry.version, upcasters)
  if (link === 'current') return entry
  let { type, version, data } = entry as Versioned
  for (; link !== 'current'; link = linkFrom(type, version, upcasters)) {
    if (typeof link === 'string') throw pathError(link, entry, { type, version })
    const step = typeof link === 'function' ? link : link.data
    try {
      if (step !== undefined) data = step(data)
      refuseThenable(data, `the upcaster of ${type} from version ${version}`, 'compute the new data from the old alone')
    } catch (cause) {
      if (isReprise(cause, 'MIGRATION_MISSING', 'ASYNC_CALLBACK')) throw cause
      throw new RepriseError(
        'FOLD_FAILED',
        `the upcaster of ${type} from version ${version} threw`,
        { ...placeOf(entry), type, version },
        cause,
      )
    }
    if (typeof link === 'function') version += 1
    else ({ type, version } = link)
  }
  return { ...entry, type, version, data }
}

/**
 * The code has no path from the version that is stored, or an upcaster is async: that holds for every entry of its kind. Readers
 * of many entries stop then; any other error belongs to the one entry.
 */
export function isPathError(error: unknown): boolean {
  return isReprise(error, 'UPCAST_MISSING', 'INCOMPATIBLE_VERSION', 'MIGRATION_MISSING', 'ASYNC_CALLBACK')
}

/** The current type of an entry, after all of its upcasters. */
export function currentType(entry: Pick<Versioned, 'type' | 'version'>, upcasters: Upcasters): string {
  let { type, version } = entry
  for (let link = linkFrom(type, version, upcasters); typeof link !== 'string'; ) {
    if (typeof link === 'function') version += 1
    else ({ type, version } = link)
    link = linkFrom(type, version, upcasters)
  }
  return type
}

/** Which of the kinds of entry in a store could not be read by this code. Runs no upcaster. */
export function missingPaths(
  stored: Iterable<{ readonly type: string; readonly version: number }>,
  upcasters: Upcasters,
): MissingPath[] {
  const missing: MissingPath[] = []
  for (const kind of stored) {
    let { type, version } = kind
    let link = linkFrom(type, version, upcasters)
    while (typeof link !== 'string') {
      if (typeof link === 'function') version += 1
      else ({ type, version } = link)
      link = linkFrom(type, version, upcasters)
    }
    if (link === 'current') continue
    const error = pathError(link, kind, { type, version })
    missing.push({ type: kind.type, version: kind.version, endsAt: { type, version }, code: link, why: error.message })
  }
  return missing
}

/** Refuses declarations that cannot work; called once, when a definition is made. */
export function checkUpcasters(upcasters: Upcasters): void {
  for (const [type, { version, from = {} }] of Object.entries(upcasters)) {
    if (!isVersion(version))
      throw badDeclaration(type, `its version must be a whole number of at least 1 (got ${version})`)
    for (const [key, link] of Object.entries(from)) {
      const at = Number(key)
      if (!isVersion(at) || at > version)
        throw badDeclaration(type, `it has a link from ${key}, past version ${version}`)
      if (typeof link === 'function' && at === version) {
        throw badDeclaration(type, `it has an upcaster from its own current version ${version}`)
      }
      if (typeof link !== 'function' && !(typeof link?.type === 'string' && isVersion(link.version))) {
        throw badDeclaration(type, `its link from ${key} is neither a function nor { type, version }`)
      }
    }
  }
  for (const [type, { from = {} }] of Object.entries(upcasters)) {
    for (const key of Object.keys(from)) {
      if (isEndless({ type, version: Number(key) }, upcasters))
        throw badDeclaration(type, `its renames from ${key} form a cycle`)
    }
  }
}

type Link = Upcast | Renamed | 'current' | 'UPCAST_MISSING' | 'INCOMPATIBLE_VERSION'

function linkFrom(type: string, version: number, upcasters: Upcasters): Link {
  const declared = Object.hasOwn(upcasters, type) ? upcasters[type] : undefined
  const link =
    declared?.from !== undefined && Object.hasOwn(declared.from, version) ? declared.from[version] : undefined
  if (link !== undefined) return link
  const current = declared?.version ?? 1
  return version === current ? 'current' : version > current ? 'INCOMPATIBLE_VERSION' : 'UPCAST_MISSING'
}

/** Versions only grow within a type, so a cycle must visit the same (type, version) twice. */
function isEndless(start: { readonly type: string; readonly version: number }, upcasters: Upcasters): boolean {
  const seen = new Set<string>()
  let { type, version } = start
  for (
    let link = linkFrom(type, version, upcasters);
    typeof link !== 'string';
    link = linkFrom(type, version, upcasters)
  ) {
    const place = `${version} ${type}`
    if (seen.has(place)) return true
    seen.add(place)
    if (typeof link === 'function') version += 1
    else ({ type, version } = link)
  }
  return false
}

function pathError(
  code: 'UPCAST_MISSING' | 'INCOMPATIBLE_VERSION',
  entry: { readonly type: string; readonly version: number },
  at: { readonly type: string; readonly version: number },
): RepriseError {
  const written =
    at.type === entry.type && at.version === entry.version ? '' : ` (written as ${entry.type} ${entry.version})`
  const what =
    code === 'UPCAST_MISSING'
      ? `no upcaster for ${at.type} from version ${at.version}${written}`
      : `${at.type} version ${at.version}${written} is newer than this code supports`
  const where = 'timeline' in entry && 'seq' in entry ? `${entry.timeline}@${entry.seq}: ` : ''
  return new RepriseError(code, where + what, {
    ...placeOf(entry),
    type: at.type,
    version: at.version,
    written: { type: entry.type, version: entry.version },
  })
}

function placeOf(entry: object): Record<string, unknown> {
  const place: Record<string, unknown> = {}
  if ('seq' in entry) place.seq = entry.seq
  if ('type' in entry) place.type = entry.type
  return place
}

function isVersion(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1
}

function badDeclaration(type: string, why: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', `upcasters of ${type}: ${why}`, { type })
}
