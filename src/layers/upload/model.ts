// Model of uploads, for tools: one timeline each, upload/<name>/<id>. The newest checkpoint holds the state and references
// the bytes; each entry is one step with a checkpoint.

import type { Coordinate } from '../../core/coordinate.ts'
import type { Fold } from '../../engine/model/definition.ts'
import type { Entry } from '../../engine/model/entry.ts'
import { type JournalRow, journalRow, type StatusLine } from '../../engine/model/journal-row.ts'
import type { Act, ActionReport, Model } from '../../engine/model/model.ts'
import { forkUpload, retryUpload } from './actions.ts'
import { isExpired } from './rules/state.ts'
import { currentState, foldVersion, type StoredState } from './stored-upload.ts'
import { headOf, retention } from './upload-head.ts'

export const uploadFold: Fold<unknown> = {
  version: foldVersion,
  initial: () => null,
  apply: (state) => state,
  retain: retention,
  authority: 'state',
}

const forward = {
  instead: 'its bytes were acknowledged to a client, so it cannot be rolled back: delete it, and upload it again',
}

export const uploadKind: Model = {
  kind: 'upload',
  name: null,
  scope: 'upload/',
  fold: uploadFold,
  policy: 'fixed',
  unfinished: ['receiving', 'received', 'starting', 'failed'],
  attention: ['failed'],
  entryRow,
  statusLine: (state) =>
    state ? statusLineOf(currentState(state as StoredState)) : { text: 'nothing has been received yet' },
  summarize: (state) => (state ? summaryOf(currentState(state as StoredState)) : {}),
  headOf: (state) => (state ? headOf(currentState(state as StoredState)) : null),
  refuses: (state) => ((state as StoredState | null)?.status === 'failed' ? {} : { retry: 'it has not failed' }),
  actions: {
    rollback: forward,
    fork: forkUpload as Act<{ readonly seq: number; readonly to: string }, Coordinate & { readonly parent: string }>,
    retry: retryUpload as Act<void, ActionReport>,
  },
}

export function uploadModel(name: string): Model {
  return { ...uploadKind, name, scope: `upload/${name}/` }
}

function summaryOf(state: StoredState): Readonly<Record<string, unknown>> {
  const { offset, length, metadata, by, createdAt, expiresAt, concat, parts, etag, attempts, error, starts, result } =
    state
  return {
    ...{ offset, length, metadata },
    ...(by !== null && { by }),
    createdAt: new Date(createdAt),
    ...(expiresAt !== null && { expiresAt: new Date(expiresAt) }),
    ...(concat !== 'whole' && { concat }),
    ...(parts.length > 0 && { parts: parts.length }),
    ...(etag !== null && { etag }),
    ...(attempts > 0 && { attempts }),
    ...(error !== null && { error }),
    ...(starts.length > 0 && { starts: starts.map(({ kind, name, id }) => `${kind}/${name}/${id}`) }),
    ...(result !== null && { result }),
  }
}

function statusLineOf(state: StoredState): StatusLine {
  const { status, offset, length, attempts, error, endedBy, expiresAt } = state
  const bytes = `${offset.toLocaleString('en')}${length === null ? '' : ` of ${length.toLocaleString('en')}`} bytes`
  switch (status) {
    case 'receiving':
      if (isExpired(state, Date.now())) return { text: `${bytes}, expired` }
      return { text: bytes, ...(expiresAt !== null && { at: expiresAt }) }
    case 'failed':
      return { text: `onComplete failed ${attempts} times: ${error}`, needsPerson: true }
    case 'received':
      return { text: error === null ? `${bytes}, to be completed` : `${bytes}, onComplete is retried: ${error}` }
    case 'removed':
      return { text: endedBy ?? 'removed' }
    default:
      return { text: `${status}, ${bytes}` }
  }
}

function entryRow({ type, data, seq }: Entry): JournalRow | null {
  const { offset, error, by, from } = (data ?? {}) as { offset?: number; error?: string; by?: string; from?: string }
  const row = (title: string, note?: string, sort: JournalRow['sort'] = 'step', phase: JournalRow['phase'] = 'is') =>
    journalRow(`~${seq}`, sort, phase, { title, ...(note && { note }) })
  const bytes = offset === undefined ? undefined : `${offset.toLocaleString('en')} bytes`
  switch (type) {
    case 'created':
      return row('created', bytes, 'start')
    case 'received':
      return row('received', bytes)
    case 'filled':
      return row('all bytes received', bytes)
    case 'called':
      return row('onComplete called')
    case 'uncalled':
      return row('onComplete interrupted by a shutdown')
    case 'handled':
      return row('onComplete done')
    case 'started':
      return row('runs started')
    case 'stumbled':
      return { ...row('onComplete failed', undefined, 'step', 'fails'), ...(error !== undefined && { error }) }
    case 'retried':
      return row('to be retried')
    case 'forked':
      return row('copied', from, 'start')
    case 'ended':
      return row(by ?? 'ended', undefined, 'end')
    default:
      return null
  }
}
