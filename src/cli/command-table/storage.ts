// The commands for retention, deletion, keys and the databases of a store.

import type { CommandRow } from '../command.ts'
import { flag, moduleOption, value, values, yes } from '../option-specs.ts'

export const storage: readonly CommandRow[] = [
  {
    usage: 'prune',
    summary: 'show what retention would remove, and why; with --yes, remove it',
    options: { module: moduleOption, yes },
    store: 'reading',
    writesWith: ['yes'],
    load: () => import('../commands/checkpointing.ts'),
  },
  {
    usage: 'tiers',
    summary: 'show chunks by tier and planned moves; with --yes, move them',
    options: { yes },
    store: 'reading',
    writesWith: ['yes'],
    load: () => import('../commands/tiers.ts'),
  },
  {
    usage: 'delete TIMELINE',
    summary: 'show what deletion would remove; with --yes, delete a timeline',
    options: {
      forks: flag('also remove forks that share its history'),
      savepoints: flag('also remove savepoints that were not released'),
      unfinished: flag('even if the timeline has not ended'),
      yes,
    },
    store: 'reading',
    writesWith: ['yes'],
    load: () => import('../commands/delete.ts'),
  },
  {
    usage: 'erase TIMELINE',
    summary: 'show what erasure would remove; with --yes, erase it',
    details: 'It erases a timeline, or some of its entries, from the files of the store.',
    options: {
      entries: value('FROM..TO', 'only these sequences; the rest of the history is kept'),
      where: values(
        'NAME=VALUE',
        'only entries with this type, key or field, in the timeline, its archives and its forks',
      ),
      reason: value('TEXT', 'reason, for the record; no personal data'),
      takeover: flag('entries: even if a live process owns the timeline'),
      module: moduleOption,
      forks: flag('also remove forks that share its history'),
      savepoints: flag('also remove savepoints that were not released'),
      unfinished: flag('even if the timeline has not ended'),
      yes,
    },
    store: 'existing',
    load: () => import('../commands/erase.ts'),
  },
  {
    usage: 'keys',
    summary: 'list the encryption keys of the store, and missing ones',
    store: 'reading',
    load: () => import('../commands/listings.ts'),
  },
  {
    usage: 'rekey',
    summary: 'encrypt everything with the current key, to retire older keys',
    store: 'existing',
    load: () => import('../commands/store-identity.ts'),
  },
  {
    usage: 'incarnate',
    summary: 'declare that the database was restored from outside',
    details: 'Earlier positions are refused from then on. An older copy of a SQLite file is accepted.',
    store: 'none',
    load: () => import('../commands/store-identity.ts'),
  },
  {
    usage: 'shards [add URL]',
    summary: 'list the databases of a sharded store, or add one',
    details: 'Adding a database moves its share of the timelines to it.',
    options: {
      wait: value('DURATION', 'add: wait this long for timelines in use before taking them over (default: 10s)'),
    },
    store: 'existing',
    load: () => import('../commands/shards.ts'),
  },
]
