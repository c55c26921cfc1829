// The identity of a timeline that came from another store, as an attribute of its head. An import under its original id
// keeps the original identity, so that the same intents keep their keys. An import under another id, or into a copy of
// a store, coexists with the original: it gets an identity of its own, which replaces the one recorded in its history.

import type { Attribute } from '../../core/store/ports.ts'

export const identityAttribute = '$identity'

export interface Carried {
  readonly identity: string
  /** True: the identity belongs to this copy alone. Entries from before the import belong to the original. */
  readonly isOwn: boolean
  readonly generation: number
  /** Added to the number of the newest archive here: archives from before the import may be missing. */
  readonly offset: number
}

type Attributes = Readonly<Record<string, Attribute>> | undefined

export function carriedBy(attributes: Attributes): Carried | null {
  const text = attributes?.[identityAttribute]
  const found = typeof text === 'string' ? /^(own|kept) ([0-9a-f]{32}) (\d+) (\d+)$/.exec(text) : null
  if (!found) return null
  const [, word, identity, generation, offset] = found
  return { identity: identity!, isOwn: word === 'own', generation: Number(generation), offset: Number(offset) }
}

/** The attribute of an arriving timeline. Null: the store would derive the same identity. */
export function carriedText(carried: Carried, here: string): string | null {
  const { identity, isOwn, generation, offset } = carried
  if (!isOwn && identity === here && generation === 0 && offset === 0) return null
  return `${isOwn ? 'own' : 'kept'} ${identity} ${generation} ${offset}`
}
