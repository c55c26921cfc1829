// The commands that read timelines: their status, entries, states and effects.

import type { CommandRow } from '../command.ts'
import { about, flag, limit, listOptions, moduleOption, value } from '../option-specs.ts'

export const inspection: readonly CommandRow[] = [
  {
    usage: 'ls [ID]',
    summary: 'list all timelines, or one id and the ids below it',
    options: listOptions,
    store: 'reading',
    load: () => import('../commands/ls.ts'),
  },
  {
    usage: 'show TIMELINE',
    summary: 'show the status of one timeline',
    options: { module: moduleOption },
    store: 'reading',
    load: () => import('../commands/show.ts'),
  },
  {
    usage: 'log [TIMELINE]',
    summary: 'print the entries of a timeline, or the reports of the store',
    options: {
      reports: flag('show reports instead: recoveries, drills, failed checkpoints, …'),
      kind: value('KIND', 'only reports of this kind'),
      since: value('DURATION', 'only reports newer than this, such as 2h or 7d'),
      after: value('SEQ', 'only entries after this sequence'),
      type: value('TYPE', 'only entries of this type'),
      full: flag('show all data, not shortened'),
      limit,
    },
    store: 'reading',
    load: () => import('../commands/log.ts'),
  },
  {
    usage: 'tail [ID]',
    summary: 'follow new entries of one timeline, of many, or of all',
    options: {
      full: flag('show all data, not shortened'),
      from: value('start|now', 'where to begin (default: now)'),
      once: flag('stop at the last entry instead of following'),
    },
    store: 'reading',
    load: () => import('../commands/tail.ts'),
  },
  {
    usage: 'at TIMELINE[@SEQ]',
    summary: 'show the state as of a sequence',
    options: { module: moduleOption },
    store: 'reading',
    load: () => import('../commands/timeline-views.ts'),
  },
  {
    usage: 'diff TIMELINE@SEQ TIMELINE@SEQ',
    summary: 'compare the states at two coordinates',
    options: { module: moduleOption },
    store: 'reading',
    load: () => import('../commands/timeline-views.ts'),
  },
  {
    usage: 'checkpoints TIMELINE',
    summary: 'list the checkpoints and savepoints of a timeline',
    options: { module: moduleOption },
    store: 'reading',
    load: () => import('../commands/listings.ts'),
  },
  {
    usage: 'card TIMELINE',
    summary: 'show the recovery card: captured state and cost of recovery',
    options: { module: moduleOption },
    store: 'reading',
    load: () => import('../commands/timeline-views.ts'),
  },
  {
    usage: 'effects TIMELINE',
    summary: 'list outside effects of a timeline, with those in doubt',
    options: {
      open: flag('only effects without an outcome'),
      settle: value('EFFECT', 'record the outcome of this effect (see --as)'),
      as: value('done|failed|compensated', 'the outcome to record'),
      by: value('NAME', 'author of the outcome (default: $USER)'),
      result: value('JSON', 'result of the effect'),
      about,
      module: moduleOption,
    },
    store: 'existing',
    load: () => import('../commands/effects.ts'),
  },
  {
    usage: 'saves [NAME]',
    summary: 'list saved states, newest first',
    store: 'existing',
    load: () => import('../commands/saves.ts'),
  },
  {
    usage: 'state get|diff PIPELINE OPERATOR [KEY]',
    summary: "show a pipeline operator's state for a key, at a checkpoint",
    options: {
      checkpoint: value('ID', 'as of this checkpoint (default: the newest)'),
      before: value('ID', 'diff: show changes since this checkpoint'),
      number: flag('the key is a number'),
    },
    store: 'reading',
    load: () => import('../commands/state.ts'),
  },
]
