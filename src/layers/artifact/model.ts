// The model of artifacts, for tools. Each artifact is complete in its newest checkpoint:
// artifact/<scope>/<space>/<key>.

import type { Fold } from '../../engine/model/definition.ts'
import type { Model } from '../../engine/model/model.ts'
import type { CacheKind } from '../../engine/tools/cache/retention.ts'

export const foldVersion = 'artifact/1'

const instead = { instead: 'a forgotten artifact is built again: reprise cache forget' }

const artifactFold: Fold<unknown> = {
  version: foldVersion,
  initial: () => null,
  apply: (state) => state,
  retain: { checkpoints: 1, history: 'needed' },
  authority: 'state',
}

export const artifactKind: Model = {
  kind: 'artifact',
  name: null,
  scope: 'artifact/',
  fold: artifactFold,
  policy: 'fixed',
  announced: ['artifact'],
  actions: { rollback: instead, fork: instead },
}

/** The name is the space: the tool or project that the artifact belongs to. */
export const artifactCache: CacheKind = {
  within: () => 'artifact/',
  place(id) {
    const [, scope, name, key] = id.split('/')
    return scope === undefined || name === undefined || key === undefined ? null : { name, scope }
  },
}
