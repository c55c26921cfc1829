// The commands that act on runs, sessions and dead letters.

import type { CommandRow } from '../command.ts'
import { about, cancelOptions, flag, moduleOption, value, values, yes } from '../option-specs.ts'

export const operation: readonly CommandRow[] = [
  {
    usage: 'signal TIMELINE NAME [JSON]',
    summary: 'send a signal to a run',
    store: 'existing',
    load: () => import('../commands/run-actions.ts'),
  },
  {
    usage: 'query RUN NAME [JSON…]',
    summary: 'call a query handler of a workflow run',
    options: { module: moduleOption },
    arguments: [2, 10],
    store: 'existing',
    load: () => import('../commands/run-actions.ts'),
  },
  {
    usage: 'update RUN NAME [JSON]',
    summary: 'call an update handler of a workflow run',
    options: {
      timeout: value('DURATION', 'how long to wait for the answer (default: 10s)'),
      key: value('TEXT', 'idempotency key: repeated calls with one key count once'),
      module: moduleOption,
    },
    store: 'existing',
    load: () => import('../commands/run-actions.ts'),
  },
  {
    usage: 'stop TIMELINE',
    summary: 'stop a pipeline or a job so that it can be resumed later',
    options: { reason: value('TEXT', 'reason, for its history') },
    store: 'existing',
    load: () => import('../commands/run-actions.ts'),
  },
  {
    usage: 'cancel TIMELINE',
    summary: 'cancel a run; a workflow compensates its steps',
    options: cancelOptions,
    store: 'existing',
    load: () => import('../commands/run-actions.ts'),
  },
  {
    usage: 'terminate TIMELINE',
    summary: 'end a run at once, without compensation',
    options: { reason: value('TEXT', 'reason, for its history'), yes },
    store: 'existing',
    load: () => import('../commands/run-actions.ts'),
  },
  {
    usage: 'retry TIMELINE',
    summary: 'undo the last failure of a run, so that it resumes',
    store: 'existing',
    load: () => import('../commands/run-actions.ts'),
  },
  {
    usage: 'rerun TIMELINE [STEP]',
    summary: 'run one step again, and the steps that depend on it',
    options: {
      'undo-inherited': flag('of a fork: also undo repeated steps of its original'),
      'even-consumed': flag('even if consumers have acted on the repeated steps; they are recorded'),
      yes,
    },
    store: 'existing',
    load: () => import('../commands/rerun.ts'),
  },
  {
    usage: 'settle TIMELINE STEP done|failed|retry|compensated',
    summary: 'record the outcome of a held step or a stuck compensation',
    options: {
      by: value('NAME', 'author of the outcome'),
      result: value('JSON', 'result of the step'),
      about,
    },
    store: 'existing',
    load: () => import('../commands/run-actions.ts'),
  },
  {
    usage: 'decide TIMELINE approve|refuse|replay|done|retry',
    summary: 'answer the pending decision of an agent session',
    options: {
      by: value('NAME', 'author of the decision'),
      reason: value('TEXT', 'reason, for its history'),
      about,
    },
    store: 'existing',
    load: () => import('../commands/run-actions.ts'),
  },
  {
    usage: 'dead [NAME]',
    summary: 'list dead letters of jobs, pipelines, informers and controllers',
    options: {
      requests: flag('list requests of applications that were refused, or that no worker takes'),
      discard: values('KEY', 'treat this key as finished'),
      full: flag('show items and stack traces'),
    },
    store: 'reading',
    writesWith: ['discard'],
    load: () => import('../commands/letters.ts'),
  },
  {
    usage: 'redrive [NAME] [KEY…]',
    summary: 'retry dead letters',
    options: {
      all: flag('retry all dead letters of NAME'),
      requests: flag('retry refused requests of applications, by their names or --all'),
      item: value('JSON', 'replace the stored item (one key of a job)'),
    },
    store: 'existing',
    load: () => import('../commands/letters.ts'),
  },
]
