// The commands that copy a store, or restore a copy, as data (commands.ts).

import type { CommandSpec } from './command.ts'
import { moduleOption, yes } from './option-specs.ts'

export const copying: readonly CommandSpec[] = [
  {
    name: 'backup',
    usage: 'backup FILE',
    summary: 'write the whole store into one file or s3://bucket/name; run it again to resume after an interruption',
    options: { force: { type: 'boolean', help: 'overwrite an existing file' } },
    arguments: [1, 1],
    store: 'existing',
    load: () => import('./commands/backup.ts'),
  },
  {
    name: 'ship',
    usage: 'ship PLACE',
    summary: 'ship what a SQLite store commits to a folder or s3://bucket/prefix, until interrupted',
    options: {
      every: { type: 'string', value: 'DURATION', help: 'how often, while something is committed; 1s if left out' },
      base: { type: 'string', value: 'DURATION', help: 'how often the whole state goes too; 1d if left out' },
      keep: { type: 'string', value: 'DURATION', help: 'how far back a restore can go; 7d if left out' },
      once: { type: 'boolean', help: 'ship what is there now, and end' },
      take: { type: 'boolean', help: 'even if the place has the records of another store' },
      verify: { type: 'boolean', help: 'ship nothing: check everything that was shipped there' },
    },
    arguments: [1, 1],
    store: 'reading',
    load: () => import('./commands/ship.ts'),
  },
  {
    name: 'restore',
    usage: 'restore FILE',
    summary: 'restore a backup or what was shipped into an empty store; run it again to resume',
    options: {
      at: { type: 'string', value: 'WHEN', help: 'shipped: a time, a feed position or #RECORD; newest if left out' },
      into: { type: 'string', value: 'URL', help: 'the store to be made; --url if left out' },
      copy: { type: 'boolean', help: 'backup: the original stays in use, so this store gets an identity of its own' },
    },
    arguments: [1, 1],
    store: 'create',
    evenUnfinished: true,
    load: () => import('./commands/restore.ts'),
  },
  {
    name: 'changes',
    usage: 'changes [ID]',
    summary: 'list restores, imports and other long changes that did not finish; resume or abandon one',
    options: {
      resume: { type: 'boolean', help: 'continue the change' },
      abandon: { type: 'boolean', help: 'undo the change; what it brought is deleted' },
      to: { type: 'string', value: 'URL', help: 'with --resume of a move: the store that it goes to' },
      from: {
        type: 'string',
        value: 'URL',
        help: 'with --resume of the import of a move: the store that it comes from',
      },
      module: moduleOption,
      yes,
    },
    writesWith: ['resume', 'abandon'],
    arguments: [0, 1],
    store: 'reading',
    evenUnfinished: true,
    load: () => import('./commands/changes.ts'),
  },
]
