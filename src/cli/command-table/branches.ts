// The commands for savepoints, forks, rollbacks and groups.

import type { CommandRow } from '../command.ts'
import { flag, forkOptions, moduleOption, rollbackOptions, value, values, yes } from '../option-specs.ts'

export const branches: readonly CommandRow[] = [
  {
    usage: 'savepoint TIMELINE[@SEQ]…',
    summary: 'make a checkpoint that is kept until it is released',
    details: 'For several timelines, it makes one consistent cut of them all.',
    options: {
      label: value('TEXT', 'label of the savepoint; for several timelines, the name of the cut'),
      release: value('ID', 'release this savepoint instead'),
      module: moduleOption,
    },
    store: 'existing',
    load: () => import('../commands/checkpointing.ts'),
  },
  {
    usage: 'fork TIMELINE[@SEQ] NEW',
    summary: 'start a new timeline that shares the history up to a sequence',
    options: forkOptions,
    store: 'existing',
    load: () => import('../commands/fork.ts'),
  },
  {
    usage: 'rollback TIMELINE[@SEQ]',
    summary: 'roll a timeline back, after showing what would be undone',
    options: rollbackOptions,
    store: 'existing',
    load: () => import('../commands/rollback.ts'),
  },
  {
    usage: 'group capture|schedule|end|ls|show|line|restore|resume|abandon|release …',
    summary: 'capture timelines of any models in one cut; restore them together',
    options: {
      timeout: value(
        'DURATION',
        'capture: time limit (default: 30s); restore: time for live owners to release their timelines (default: 10s)',
      ),
      each: value('DURATION', 'schedule: the time between two cuts'),
      keep: value('N', 'schedule: the number of cuts to keep (default: 24)'),
      failed: values('TIMELINE', 'line, restore: a member that failed (default: all)'),
      takeover: flag('restore: even if live processes own the timelines'),
      'even-consumed': flag('restore: even if consumers have acted on the undone entries; they are recorded'),
      module: moduleOption,
      yes,
    },
    store: 'existing',
    load: () => import('../commands/group.ts'),
  },
  {
    usage: 'mark TIMELINE CHECKPOINT',
    summary: 'mark a checkpoint as bad, so that no restore uses it',
    options: {
      bad: value('WHY', 'reason why it is bad'),
      good: flag('remove the mark'),
      by: value('NAME', 'author of the mark (default: $USER)'),
    },
    store: 'existing',
    load: () => import('../commands/checkpointing.ts'),
  },
]
