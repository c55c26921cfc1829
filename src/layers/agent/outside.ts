// The calls of a session as `reprise effects` lists them. Calls that wait for an approval or were refused have no
// marker in the kernel's effect ledger, and calls whose markers were removed with the history below the floor are still
// known here.

import type { ModelEffect } from '../../engine/model/model.ts'
import type { SessionState } from './state.ts'

export function outsideOf({ calls }: Pick<SessionState<unknown>, 'calls'>): ModelEffect[] {
  return [...calls.values()].map(({ id, tool, kind, state, error }) => ({
    id,
    name: kind === 'model' ? 'model' : tool,
    // A call has no key before its intent is recorded.
    key: '',
    state,
    outcome: state === 'done' ? state : state === 'failed' || state === 'refused' ? 'failed' : null,
    seq: null,
    error: error === undefined ? null : String(error),
  }))
}
