// Rows that a fork of a table may start with instead, by key, in one entry that records the editor.

import { RepriseError } from '../../core/errors.ts'
import type { EditedFork, ForkEdit, ForkEdits } from '../../engine/model/fork-edit.ts'
import type { TableState } from './state.ts'

export const rowEdits: ForkEdits = { names: 'row', of: editRows }

function editRows(at: unknown, { set, unset, by }: ForkEdit, timeline: string): EditedFork {
  const { rows } = at as TableState<unknown>
  const missing = unset.find((key) => !rows.has(key))
  if (missing !== undefined) {
    const what = `${timeline} has no row ${missing} at that sequence`
    throw new RepriseError('NOT_FOUND', what, { timeline, key: missing })
  }
  return {
    entries: [{ type: 'w', data: { s: Object.entries(set).flat(), d: unset, by } }],
  }
}
