// Model of cached results, for tools. The newest checkpoint holds the whole result.

import type { Fold } from '../../engine/model/definition.ts'
import type { Entry } from '../../engine/model/entry.ts'
import { type JournalRow, journalRow } from '../../engine/model/journal-row.ts'
import type { Model } from '../../engine/model/model.ts'
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
  entryRow,
  actions: { rollback: instead, fork: instead },
}

function entryRow({ type, data, seq }: Entry): JournalRow | null {
  const row = (title: string, note: string) => journalRow(`~${seq}`, 'step', 'is', { title, note })
  if (type === 'computed') {
    const { bytes, tookMs } = data as { readonly bytes: number; readonly tookMs: number }
    return row('computed', `${bytes.toLocaleString('en')} bytes, took ${Math.round(tookMs)} ms`)
  }
  return type === 'seen' ? row('files read', String((data as { readonly files: number }).files)) : null
}

export function memoModel(name: string): Model {
  return { ...memoKind, name, scope: `memo/${name}` }
}
