// What a kind of resource is called in an API that follows Kubernetes' conventions: its group, version, kind and plural. They
// follow from the name of the resource unless the user says otherwise.

import { RepriseError } from '../../../core/errors.ts'
import { checkOptions, namesOf } from '../../../core/options.ts'

export interface ApiOptions {
  /** A name like a domain; `resources.reprise` if left out. '' is the core group of a cluster: v1. */
  readonly group?: string
  /** `v1` if left out. */
  readonly version?: string
  /** `Site` of a resource that is called `sites`. */
  readonly kind?: string
  /** In addresses; the name of the resource if left out, in small letters. */
  readonly plural?: string
  /** The kind in small letters if left out. */
  readonly singular?: string
  /** What people may type in place of the plural. */
  readonly shortNames?: readonly string[]
  /** A namespace is the id that the resource is opened with. Left out: there is one collection, without a namespace. */
  readonly namespaced?: boolean
}

export type ApiNames = Required<ApiOptions>

export const usualGroup = 'resources.reprise'

const known = namesOf<ApiOptions>({
  ...{ group: true, version: true, kind: true, plural: true, singular: true, shortNames: true, namespaced: true },
})
const label = /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/
const domain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$/
const pascal = /^[A-Z][A-Za-z0-9]{0,62}$/

/** A namespace, which is also the id of a timeline. */
export const namespaceForm = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/

/** Names that are words of the addresses themselves. */
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
  const what = `the api of resource ${name}: group must be like 'shop.example.com', kind like 'Site', and version, plural, singular and shortNames must have 1 to 63 small letters, digits and dashes`
  throw new RepriseError('INVALID_ARGUMENT', what, { name, group, version, kind, plural })
}

/** As objects name it. @example apiVersionOf({ group: '', version: 'v1' }) // 'v1' */
export function apiVersionOf({ group, version }: Pick<ApiNames, 'group' | 'version'>): string {
  return group === '' ? version : `${group}/${version}`
}

/** As errors name it. @example qualifiedName({ plural: 'sites', group: 'a.b' }) // 'sites.a.b' */
export function qualifiedName({ plural, group }: Pick<ApiNames, 'plural' | 'group'>): string {
  return group === '' ? plural : `${plural}.${group}`
}

/** Whatever a resource is called, there is a plural for it. */
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
