// The identity of a timeline that came from elsewhere, as an attribute of its head. An import under the id it had keeps the
// identity it had there, so that the same intents keep their keys. An import under another id, or into a copy of a store, lives
// beside the original: it gets an identity of its own, which replaces the one that its history recorded.

import type { Attribute } from '../../core/store/ports.ts'

export const identityAttribute = '$identity'

export interface Carried {
  readonly identity: string
  /** True: the identity belongs to this copy alone. Entries from before the import belong to the original. */
  readonly isOwn: boolean
  readonly generation: number
  /** Added to the number of the archive that the last rollback here left: archives from before may not be here. */
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

/** The attribute of a timeline that arrives; null: its identity here is the one that it has anyway. */
export function carriedText(carried: Carried, here: string): string | null {
  const { identity, isOwn, generation, offset } = carried
  if (!isOwn && identity === here && generation === 0 && offset === 0) return null
  return `${isOwn ? 'own' : 'kept'} ${identity} ${generation} ${offset}`
}
