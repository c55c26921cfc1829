// Model of programs, for tools. The newest intact capture is the state: a rollback makes an older one the newest, a fork
// starts another program from one, and a savepoint keeps one.

import type { Fold } from '../../engine/model/definition.ts'
import type { Entry } from '../../engine/model/entry.ts'
import { type JournalRow, journalRow } from '../../engine/model/journal-row.ts'
import type { Model } from '../../engine/model/model.ts'
import type { ExecEntries } from './entries.ts'
import { type CapturedTree, checkCapture } from './file-set.ts'

export const foldVersion = 'exec/1'
export const keepUsually = 3

const instead = 'start it again with: reprise exec --resume ID'

export const execKind: Model = {
  kind: 'exec',
  name: null,
  scope: 'exec/',
  fold: execFold(keepUsually),
  policy: 'declared',
  announced: ['begin', 'end', 'marker', 'rename', 'word'],
  unfinished: ['running', 'stopped', 'failed'],
  attention: ['failed'],
  redoes: 'the program repeats work',
  statusNow: ({ status, isOwnerAlive }) => (status === 'running' && !isOwnerAlive ? 'stopped' : status),
  storedAs: { stopped: ['running'] },
  // The end of the last run is in its history, which is not read for this: the next start reads it.
  headOf: () => ({ status: 'stopped' }),
  statusLine(state, { status, attributes }) {
    const { files } = state as CapturedTree
    const run = typeof attributes.run === 'number' ? `run ${attributes.run} ${status}` : 'not started'
    return { text: `${run}; ${files.length} ${files.length === 1 ? 'file' : 'files'} captured` }
  },
  entryRow,
  readCheckpoint: (record, manifest, io) => checkCapture(record, manifest, io),
  actions: {
    resume: { instead },
    retry: { instead },
    cancel: {
      instead: 'send SIGTERM to the `reprise exec` that runs it: it forwards the signal, and captures complete files',
    },
  },
}

export function execModel(name: string, keep: number, loseAtMostMs: number | null = null): Model {
  return { ...execKind, name, scope: `exec/${name}`, fold: execFold(keep, loseAtMostMs) }
}

function execFold(keep: number, loseAtMostMs: number | null = null): Fold<unknown> {
  return {
    version: foldVersion,
    initial: () => null,
    apply: (state) => state,
    retain: { checkpoints: keep, history: 'all' },
    authority: 'state',
    isOurs: true,
    ...(loseAtMostMs !== null && { checkpoint: { loseAtMost: loseAtMostMs } }),
  }
}

function entryRow({ type, data, seq }: Entry): JournalRow | null {
  if (type === 'started') {
    const { run, command, restored } = data as ExecEntries['started']
    const note = restored === null ? '' : `from capture ${restored}`
    return journalRow(`run ${run}`, 'step', 'begins', { title: command.join(' '), ...(note !== '' && { note }) })
  }
  if (type === 'captured') {
    const { trigger, files, bytes } = data as ExecEntries['captured']
    const note = `${files} files, ${bytes.toLocaleString('en')} bytes, ${trigger}`
    return journalRow(`~${seq}`, 'note', 'is', { title: 'captured', note })
  }
  if (type !== 'ended') return null
  const { run, exitCode, signal, why, lostMs } = data as ExecEntries['ended']
  const how = exitCode === null ? (signal ?? 'unseen') : `exit code ${exitCode}`
  if (exitCode === 0) return journalRow(`run ${run}`, 'step', 'ends')
  return journalRow(`run ${run}`, 'step', 'fails', {
    error: `${why}: ${how}; ${Math.round(lostMs / 1000)} s of work lost`,
  })
}
