// The commands that copy, move, ship and restore data.

import type { CommandRow } from '../command.ts'
import { flag, moduleOption, value, values, yes } from '../option-specs.ts'

export const copies: readonly CommandRow[] = [
  {
    usage: 'backup FILE',
    summary: 'write the whole store into one file',
    details: 'FILE may be s3://bucket/name. Repeat the command to resume after an interruption.',
    options: {
      force: flag('overwrite an existing file'),
      'lose-at-most': value('DURATION', 'alarm if the newest backup is older than this; stored with the store'),
    },
    store: 'existing',
    load: () => import('../commands/backup.ts'),
  },
  {
    usage: 'restore FILE',
    summary: 'restore a backup or shipped records into an empty store',
    details: 'Repeat the command to resume after an interruption.',
    options: {
      at: value('WHEN', 'shipped: a time, a feed position or #RECORD (default: the newest)'),
      into: value('URL', 'the new store (default: --url)'),
      copy: flag('the original stays in use, so the new store gets its own identity'),
    },
    store: 'create',
    evenUnfinished: true,
    load: () => import('../commands/backup.ts'),
  },
  {
    usage: 'ship PLACE',
    summary: 'ship commits of a SQLite store elsewhere, until interrupted',
    details: 'PLACE is a folder or s3://bucket/prefix.',
    options: {
      every: value('DURATION', 'interval while there are commits (default: 1s)'),
      'lose-at-most': value('DURATION', 'maximum age of an unshipped commit; alarm if it is exceeded'),
      base: value('DURATION', 'interval of copies of the whole state (default: 1d)'),
      keep: value('DURATION', 'how far back a restore can go (default: 7d)'),
      once: flag('ship the current commits, then exit'),
      take: flag('even if PLACE contains records of another store'),
      verify: flag('only check the shipped records'),
    },
    store: 'reading',
    load: () => import('../commands/ship.ts'),
  },
  {
    usage: 'export TIMELINE[@SEQ] FILE',
    summary: 'write a timeline into one file',
    details: 'FILE may be s3://bucket/name. With --progress it contains JSON Lines (- for stdout).',
    options: {
      'state-only': flag('export only the newest checkpoint, without history'),
      progress: flag('export the finished keys of a job as JSON Lines'),
      history: flag('export the history of a workflow, for reprise check --history'),
      force: flag('overwrite an existing file or object'),
    },
    store: 'reading',
    load: () => import('../commands/export.ts'),
  },
  {
    usage: 'import FILE',
    summary: 'read an exported file, or the progress of another script',
    details: 'FILE may be s3://bucket/name.',
    options: {
      as: value('ID', 'import it under this id'),
      progress: value('JOB', 'the file is JSON Lines of finished keys for this job'),
      key: value('FIELD', 'field that holds the key (default: key or id)'),
      shards: value('N', 'shards of the job (default: 1)'),
    },
    store: 'create',
    load: () => import('../commands/import.ts'),
  },
  {
    usage: 'move TIMELINE [FILE]',
    summary: 'stop a timeline and move it to another store or into a file',
    options: {
      to: value('URL', 'the other store'),
      back: flag('undo a move that has not arrived anywhere; after an interrupted move, with --to URL'),
      takeover: flag('even if a live process owns the timeline'),
      module: moduleOption,
    },
    store: 'existing',
    load: () => import('../commands/move.ts'),
  },
  {
    usage: 'changes [ID]',
    summary: 'list unfinished restores, imports, moves; resume or abandon one',
    options: {
      resume: flag('resume the change'),
      abandon: flag('undo the change, and delete its data'),
      to: value('URL', 'with --resume of a move: the target store'),
      from: value('URL', 'with --resume of the import of a move: the source store'),
      module: moduleOption,
      yes,
    },
    writesWith: ['resume', 'abandon'],
    store: 'reading',
    evenUnfinished: true,
    load: () => import('../commands/changes.ts'),
  },
  {
    usage: 'upload FILE URL',
    summary: 'send a file to a tus server; repeat the command to resume',
    options: {
      token: value('TOKEN', 'sent as Authorization: Bearer (default: $REPRISE_TOKEN)'),
      metadata: values('KEY=VALUE', 'metadata to send with the file name'),
      stall: value('DURATION', 'abort a stalled connection after this long (default: 60s)'),
    },
    store: 'none',
    load: () => import('../commands/upload.ts'),
  },
  {
    usage: 'download URL FILE',
    summary: 'fetch a file from a server; repeat the command to resume',
    options: {
      token: value('TOKEN', 'sent as Authorization: Bearer (default: $REPRISE_TOKEN)'),
      force: flag('overwrite an existing file'),
      stall: value('DURATION', 'abort a stalled connection after this long (default: 60s)'),
    },
    store: 'none',
    load: () => import('../commands/download.ts'),
  },
]
