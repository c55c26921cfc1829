// What tools know of saves. How many are kept is always declared, so it is always stored.

import type { Fold } from '../../engine/definition.ts'
import type { Model } from '../../engine/model.ts'

export const saveKind: Model = { kind: 'save', name: null, scope: 'save/', fold: null, policy: 'declared' }

export function saveModel(name: string, scope: string, fold: Fold<unknown>): Model {
  return { ...saveKind, name, scope, fold }
}
