// What tools know of remembered results. Each is whole in its newest checkpoint.

import type { Fold } from '../../engine/definition.ts'
import type { Model } from '../../engine/model.ts'
import { foldVersion } from './entry.ts'

const instead = { instead: 'a result is computed again when it is forgotten: reprise cache forget' }

export const memoFold: Fold<unknown> = {
  version: foldVersion,
  initial: () => null,
  apply: (state) => state,
  retain: { checkpoints: 1, history: 'needed' },
  authority: 'state',
}

export const memoKind: Model = {
  kind: 'memo',
  name: null,
  scope: 'memo/',
  fold: memoFold,
  policy: 'fixed',
  actions: { rollback: instead, fork: instead },
}

export function memoModel(name: string): Model {
  return { ...memoKind, name, scope: `memo/${name}` }
}
