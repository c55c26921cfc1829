// Edits of a forked session: the user's data, whole or by field, and the plan. A message cannot be edited: fork after
// the turn before it, and send another message.

import { RepriseError } from '../../core/errors.ts'
import { withField } from '../../core/field-edit.ts'
import type { NewEntry } from '../../engine/model/entry.ts'
import type { EditedFork, ForkEdit, ForkEdits } from '../../engine/model/fork-edit.ts'
import type { SessionState } from './state.ts'

/** Without the agent's code, the version of its data is unknown, and edits are not available. */
export function sessionEdits(dataVersion: string | null): ForkEdits {
  return {
    names: 'field',
    ...(dataVersion !== null && {
      of: (state, edit) => editSession(state as SessionState<unknown>, edit, dataVersion),
    }),
  }
}

function editSession(state: SessionState<unknown>, { set, unset, by }: ForkEdit, of: string): EditedFork {
  // Keyed by name, so that a field path starts at `data` or `plan`.
  const before = { data: state.data, plan: state.plan }
  let after: unknown = before
  const names = [...Object.keys(set), ...unset]
  for (const name of names) {
    if (/^(data|plan)(\.|$)/.test(name)) continue
    const what = `a session has no field ${name}: use data, data.FIELD or plan; to send another message, fork after the previous turn`
    throw new RepriseError('INVALID_ARGUMENT', what, { name })
  }
  for (const [name, to] of Object.entries(set)) after = withField(after, name, { to })
  for (const name of unset) {
    if (name === 'data') throw new RepriseError('INVALID_ARGUMENT', 'data cannot be unset: set it', { name })
    after = name === 'plan' ? withField(after, name, { to: null }) : withField(after, name, 'remove')
  }
  const { data, plan } = after as typeof before
  const entries: NewEntry[] = []
  if (names.some((name) => name.startsWith('data'))) entries.push({ type: 'edited', data: { data, of, by } })
  if (names.some((name) => name.startsWith('plan'))) entries.push({ type: 'planned', data: { plan, by } })
  return { entries }
}
