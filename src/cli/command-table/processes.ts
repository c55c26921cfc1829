// The commands for workers, queues, schedules and readers of the feed.

import type { CommandRow } from '../command.ts'
import { flag, moduleOption } from '../option-specs.ts'

export const processes: readonly CommandRow[] = [
  {
    usage: 'workers',
    summary: 'list worker processes and whether they make progress',
    options: { all: flag('include former workers') },
    store: 'reading',
    load: () => import('../commands/listings.ts'),
  },
  {
    usage: 'queues',
    summary: 'list the waiting work of each queue',
    store: 'reading',
    load: () => import('../commands/listings.ts'),
  },
  {
    usage: 'schedules',
    summary: 'list schedules and the next due time of each',
    store: 'existing',
    load: () => import('../commands/listings.ts'),
  },
  {
    usage: 'consumers',
    summary: 'list readers of the feed and the lag of each',
    store: 'existing',
    load: () => import('../commands/listings.ts'),
  },
  {
    usage: 'rebuild FILE [PROJECTION]',
    forms: ['rebuild [PROJECTION] --module FILE'],
    summary: 'rebuild a projection beside the one in use, then swap them',
    options: { module: moduleOption },
    arguments: [0, 2],
    store: 'existing',
    load: () => import('../commands/rebuild.ts'),
  },
]
