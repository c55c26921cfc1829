// The journal rows of a table, for people: the keys that each transaction set and deleted.

import type { Entry } from '../../engine/model/entry.ts'
import { brief, type JournalRow, journalRow } from '../../engine/model/journal-row.ts'
import type { Ops } from './state.ts'

const keysShown = 4

export function entryRow({ type, data, seq }: Entry): JournalRow | null {
  const row = (title: string, note: string) => journalRow(`~${seq}`, 'step', 'is', { title, note })
  switch (type) {
    case 'w':
      return row(titleOf(data as Ops), [noteOf(data as Ops), ...byWords(data as Ops)].filter(Boolean).join(', '))
    case 'p': {
      const { t, n, ...ops } = data as Ops & { readonly t: string; readonly n: number }
      return row(`part ${n + 1} of a large transaction`, `${titleOf(ops)} ${noteOf(ops)} (${t})`)
    }
    case 'c': {
      const { t, n } = data as { readonly t: string; readonly n: number }
      return row('large transaction committed', `${n} parts (${t})`)
    }
    case 'u':
      return row('large transaction undone', `its parts are void (${(data as { readonly t: string }).t})`)
    default:
      return null
  }
}

function titleOf({ s = [], d = [], o = [] }: Ops): string {
  const parts = [
    ...(s.length > 0 ? [`set ${keysIn(everyOther(s))}`] : []),
    ...(d.length > 0 ? [`delete ${keysIn(d)}`] : []),
    ...(o.length > 0 ? [`read ${keysIn(everyOther(o))} on`] : []),
  ]
  return parts.join(', ') || 'nothing changed'
}

function byWords({ by }: Ops): string[] {
  return by === undefined ? [] : [`edited by ${by}, instead of its parent's value`]
}

/** For a single row its value, for several their number. */
function noteOf({ s = [], d = [], x = [] }: Ops): string {
  const words =
    s.length === 2 ? `= ${brief(s[1])}` : s.length + d.length > 2 ? `${s.length / 2} set, ${d.length} deleted` : ''
  return x.length > 0 ? `${words}${words && ', '}${x.length / 2} with an end` : words
}

function everyOther(pairs: readonly unknown[]): string[] {
  return pairs.filter((_, i) => i % 2 === 0).map(String)
}

function keysIn(keys: readonly string[]): string {
  const shown = keys.slice(0, keysShown).map(brief).join(', ')
  return keys.length > keysShown ? `${shown}, …` : shown
}
