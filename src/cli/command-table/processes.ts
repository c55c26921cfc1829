// The commands for workers, queues, schedules and readers of the feed.

import type { CommandRow } from '../command.ts'
import { flag, moduleOption, value, yes } from '../option-specs.ts'

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
  {
    usage: 'resource ls|get|apply|delete|watch|history|rollback …',
    summary: 'list and apply objects of a kind, and watch them',
    details:
      'ls [KIND], get KIND NAME, apply KIND FILE (JSON, - for standard input), delete KIND NAME, watch KIND, history KIND NAME, rollback KIND NAME --to REVISION.',
    options: {
      labels: value('SELECTOR', "ls, watch: only objects with these labels, as 'app=web,tier in (a,b)'"),
      by: value('NAME', 'apply: owner of the fields (default: reprise)'),
      force: flag('apply: take over fields of other owners'),
      from: value('REVISION', 'watch: every change after this revision (default: existing objects first)'),
      to: value('REVISION', 'rollback: the revision whose fields are written again'),
      once: flag('watch: end at the present'),
      module: moduleOption,
      yes,
    },
    store: 'existing',
    load: () => import('../commands/resource.ts'),
  },
  {
    usage: 'config ls|get|status|apply|watch|history|rollback|pause|resume|…',
    summary: 'list and apply pushed configuration, and act on its rollouts',
    details:
      'ls, get NAME, status NAME, apply NAME FILE (JSON, - for standard input), watch NAME, history NAME, rollback NAME [--to VERSION]; pause, resume, withdraw NAME VERSION.',
    options: {
      stages: value('SHARES', 'apply, rollback: one share of the clients after another, as 0.01,0.1,1'),
      hold: value('DURATION', 'apply, rollback: minimum duration of each stage'),
      key: value('KEY', 'apply, rollback: a repeated request with the same key sets one version'),
      to: value('VERSION', 'rollback: the version whose value is set again (default: the one before the newest)'),
      once: flag('watch: print the current version and end'),
      module: moduleOption,
      yes,
    },
    store: 'existing',
    load: () => import('../commands/config.ts'),
  },
]
