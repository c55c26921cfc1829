// Selects objects by labels (`app=web,tier in (a,b),!old`), by fields (`metadata.name=x`, `spec.node!=b`), or by a prefix of
// the name. The grammar is that of Kubernetes, so a selector means the same here as there.

import { RepriseError } from '../../../core/errors.ts'
import { checkObject } from '../../../core/options.ts'
import type { ResourceObject } from './object.ts'

export interface SelectorText {
  /** `app=web,tier in (a,b),!old`, or labels that must all be equal. */
  readonly labels?: string | Readonly<Record<string, string>>
  /** `spec.node=a,status.phase!=Running`: paths into the object. */
  readonly fields?: string | Readonly<Record<string, string>>
  /** Names that start with this. */
  readonly prefix?: string
}

export interface Selector {
  readonly prefix: string
  /** True if every object below the prefix matches. */
  readonly isAll: boolean
  matches(object: ResourceObject): boolean
}

type Test = (object: ResourceObject) => boolean

/** INVALID_ARGUMENT: the selector cannot be parsed. */
export function selectorOf(given: SelectorText): Selector {
  checkObject('a selector', given)
  const { labels, fields, prefix = '' } = given
  const tests = [...labelTests(labels), ...fieldTests(fields)]
  return {
    prefix,
    isAll: tests.length === 0,
    matches(object) {
      // The key of the object in the map of its kind.
      const { name: key } = object
      return key.startsWith(prefix) && tests.every((test) => test(object))
    },
  }
}

function labelTests(labels: SelectorText['labels']): Test[] {
  if (labels === undefined) return []
  if (typeof labels !== 'string') {
    return Object.entries(labels).map(
      ([name, value]) =>
        (object) =>
          labelOf(object, name) === value,
    )
  }
  return termsOf(labels).map((term) => {
    const [, name, not, list] = /^([^\s!=(),]+)\s+(not)?in\s*\(([^()]*)\)$/.exec(term) ?? []
    if (name !== undefined) {
      const values = new Set(list!.split(',').map((value) => value.trim()))
      return (object) => {
        const value = labelOf(object, name)
        return not ? value === undefined || !values.has(value) : value !== undefined && values.has(value)
      }
    }
    const [, absent, only] = /^(!?)\s*([^\s!=(),]+)$/.exec(term) ?? []
    if (only !== undefined) return (object) => (labelOf(object, only) === undefined) === (absent === '!')
    const equal = equalityOf(term)
    if (equal) return (object) => (labelOf(object, equal.name) === equal.value) !== equal.isNot
    throw unreadable('labels', term)
  })
}

function fieldTests(fields: SelectorText['fields']): Test[] {
  if (fields === undefined) return []
  if (typeof fields !== 'string') {
    return Object.entries(fields).map(
      ([name, value]) =>
        (object) =>
          fieldOf(object, name) === value,
    )
  }
  return termsOf(fields).map((term) => {
    const equal = equalityOf(term)
    if (!equal) throw unreadable('fields', term)
    return (object) => (fieldOf(object, equal.name) === equal.value) !== equal.isNot
  })
}

function equalityOf(term: string) {
  const [, name, sign, value] = /^([^\s!=(),]+)\s*(!=|==?)\s*([^\s!=(),]*)$/.exec(term) ?? []
  return name === undefined ? null : { name, value: value!, isNot: sign === '!=' }
}

/** Splits at commas outside parentheses. */
function termsOf(text: string): string[] {
  if (text.trim() === '') return []
  return text.split(/,(?![^()]*\))/).map((term) => term.trim())
}

function labelOf({ labels }: ResourceObject, name: string): string | undefined {
  return Object.hasOwn(labels, name) ? labels[name] : undefined
}

const metadata = new Set(['name', 'uid', 'generation', 'revision'])

/** The plain value at a path as text; '' for a missing value. `metadata.name` is `name`, as for clients of Kubernetes. */
export function fieldOf(object: ResourceObject, path: string): string {
  const parts = path.split('.')
  if (parts[0] === 'metadata' && parts.length === 2 && metadata.has(parts[1]!)) parts.shift()
  let at: unknown = object
  for (const part of parts) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, part)) return ''
    at = Reflect.get(at, part)
  }
  return typeof at === 'object' || at === undefined ? '' : String(at)
}

function unreadable(kind: string, term: string): RepriseError {
  const what = `the selector of ${kind} cannot be read at '${term}': use a=b, a!=b, a in (b,c), a notin (b,c), a or !a`
  return new RepriseError('INVALID_ARGUMENT', kind === 'fields' ? `${what.split(':')[0]}: use a=b or a!=b` : what, {
    term,
  })
}
