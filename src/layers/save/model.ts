// Model of saves, for tools. The number of kept saves is always declared, so it is always stored.

import type { Fold } from '../../engine/model/definition.ts'
import type { Entry } from '../../engine/model/entry.ts'
import { type JournalRow, journalRow } from '../../engine/model/journal-row.ts'
import type { Model } from '../../engine/model/model.ts'
import { forkSaves } from './fork.ts'
import type { SaveModel } from './reader.ts'

export const saveKind: Model = {
  ...{ kind: 'save', name: null, scope: 'save/', fold: null, policy: 'declared', announced: ['save'], entryRow },
  edits: { names: 'field' },
}

function entryRow({ type, data, seq }: Entry): JournalRow | null {
  if (type !== 'saved') return null
  const { bytes, by, replaces } = data as { readonly bytes: number; readonly by?: string; readonly replaces?: number }
  const edited = by === undefined ? '' : `, edited by ${by}, in place of entry ${replaces} of its parent`
  return journalRow(`~${seq}`, 'step', 'is', { title: 'saved', note: `${bytes.toLocaleString('en')} bytes${edited}` })
}

export function saveModel(model: SaveModel, fold: Fold<unknown>): Model {
  const { name, prefix: scope } = model
  return {
    ...{ ...saveKind, name, scope, fold },
    actions: { fork: (target, request) => forkSaves(target, request, model) },
  }
}
