// The names of a kind of resource in an API that follows the conventions of Kubernetes: group, version, kind and plural. They
// are derived from the name of the resource unless the user sets them.

import { RepriseError } from '../../../core/errors.ts'
import { checkOptions, namesOf } from '../../../core/options.ts'

export interface ApiOptions {
  /** A name like a domain; '' is the core group of a cluster (v1). Default: `resources.reprise`. */
  readonly group?: string
  /** Default: `v1`. */
  readonly version?: string
  /** Default: derived from the plural, for example `Site` for `sites`. */
  readonly kind?: string
  /** Used in addresses. Default: the name of the resource in lower case. */
  readonly plural?: string
  /** Default: the kind in lower case. */
  readonly singular?: string
  /** Aliases of the plural that people may type. */
  readonly shortNames?: readonly string[]
  /**
   * Whether the kind has namespaces; a namespace is the id the resource is opened with. Default: one collection without a
   * namespace.
   */
  readonly namespaced?: boolean
}

export type ApiNames = Required<ApiOptions>

export const usualGroup = 'resources.reprise'

const known = namesOf<ApiOptions>()('group version kind plural singular shortNames namespaced')
const label = /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/
const domain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$/
const pascal = /^[A-Z][A-Za-z0-9]{0,62}$/

/** A namespace; it is also the id of a timeline. */
export const namespaceForm = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/

/** Reserved: these names are parts of the addresses themselves. */
const taken = new Set(['namespaces', 'status'])

/** @example apiNames('sites').kind // 'Site' */
export function apiNames(name: string, given: ApiOptions = {}): ApiNames {
  checkOptions(`the api of resource ${name}`, given, known)
  const plural = given.plural ?? labelOf(name)
  const kind = given.kind ?? kindOf(plural)
  const names: ApiNames = {
    group: given.group ?? usualGroup,
    version: given.version ?? 'v1',
    kind,
    plural,
    singular: given.singular ?? kind.toLowerCase(),
    shortNames: given.shortNames ?? [],
    namespaced: given.namespaced ?? false,
  }
  const { group, version, singular, shortNames } = names
  const isGroup = group === '' || (domain.test(group) && group.length <= 253)
  const labels = [version, plural, singular, ...shortNames]
  if (isGroup && pascal.test(kind) && labels.every((each) => label.test(each)) && !taken.has(plural)) return names
  const what = `the api of resource ${name}: group must be a name such as 'shop.example.com', kind a name such as 'Site', and version, plural, singular and shortNames must have 1 to 63 lower-case letters, digits and dashes`
  throw new RepriseError('INVALID_ARGUMENT', what, { name, group, version, kind, plural })
}

/** The API version, as objects name it. @example apiVersionOf({ group: '', version: 'v1' }) // 'v1' */
export function apiVersionOf({ group, version }: Pick<ApiNames, 'group' | 'version'>): string {
  return group === '' ? version : `${group}/${version}`
}

/** The name used in errors. @example qualifiedName({ plural: 'sites', group: 'a.b' }) // 'sites.a.b' */
export function qualifiedName({ plural, group }: Pick<ApiNames, 'plural' | 'group'>): string {
  return group === '' ? plural : `${plural}.${group}`
}

/** Derives a valid plural from any resource name. */
function labelOf(name: string): string {
  const text = name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1-$2')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
  const start = !/^[a-z]/.test(text) || taken.has(text) ? `x-${text}` : text
  return start.slice(0, 60).replaceAll(/-+$/g, '')
}

function kindOf(plural: string): string {
  const words = plural.split('-').filter((word) => word !== '')
  const last = words.pop() ?? ''
  return [...words, singularOf(last)].map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)).join('')
}

function singularOf(word: string): string {
  if (/[^aeiou]ies$/.test(word)) return `${word.slice(0, -3)}y`
  if (/(?:ss|sh|ch|x|z)es$/.test(word)) return word.slice(0, -2)
  return /[^su]s$/.test(word) ? word.slice(0, -1) : word
}
