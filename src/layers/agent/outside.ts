// The calls of a session as `reprise effects` lists them: those that wait for an approval or were refused have no marker in the
// ledger of the kernel, and those whose markers were forgotten with the history below the floor are still known here.

import type { ModelEffect } from '../../engine/model/model.ts'
import type { SessionState } from './state.ts'

export function outsideOf({ calls }: Pick<SessionState<unknown>, 'calls'>): ModelEffect[] {
  return [...calls.values()].map(({ id, tool, kind, state, error }) => ({
    id,
    name: kind === 'model' ? 'model' : tool,
    // It has none before it is intended.
    key: '',
    state,
    outcome: state === 'done' ? state : state === 'failed' || state === 'refused' ? 'failed' : null,
    seq: null,
    error: error === undefined ? null : String(error),
  }))
}
