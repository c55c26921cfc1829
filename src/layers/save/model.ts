// What tools know of saves. How many are kept is always declared, so it is always stored.

import type { Fold } from '../../engine/definition.ts'
import type { Entry } from '../../engine/entry.ts'
import type { Model } from '../../engine/model.ts'
import { type Told, told } from '../../engine/told.ts'

export const saveKind: Model = { kind: 'save', name: null, scope: 'save/', fold: null, policy: 'declared', tells }

function tells({ type, data, seq }: Entry): Told | null {
  if (type !== 'saved') return null
  const { bytes } = data as { readonly bytes: number }
  return told(`~${seq}`, 'step', 'is', { title: 'saved', note: `${bytes.toLocaleString('en')} bytes` })
}

export function saveModel(name: string, scope: string, fold: Fold<unknown>): Model {
  return { ...saveKind, name, scope, fold }
}
