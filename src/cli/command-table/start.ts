// The commands of the first steps and of the installation.

import type { CommandRow } from '../command.ts'
import { flag, initOptions, moduleOption, value } from '../option-specs.ts'

export const start: readonly CommandRow[] = [
  {
    usage: 'demo',
    summary: 'watch a job being killed three times and resume each time',
    options: {
      items: value('N', 'number of items (default: 2,000)'),
      kills: value('N', 'number of kills (default: 3)'),
      keep: flag("keep the demo's store"),
    },
    store: 'none',
    load: () => import('../commands/demo.ts'),
  },
  {
    usage: 'init [FOLDER]',
    summary: 'write a first job, or another template, that runs as it is',
    options: initOptions,
    store: 'none',
    load: () => import('../commands/init.ts'),
  },
  {
    usage: 'advise',
    summary: 'answer a few questions, get a configuration with code',
    options: {
      about: value(
        'WORD',
        'what the work is about: items, changes, entities, records, conversation, stream, results, files, desired, settings, program or anything',
      ),
      truth: value('history|state|external', 'the authoritative data'),
      captures: value('progress|state|both|execution', 'what a recovery must restore'),
      scope: value('one|machine|many', 'one process, one machine or many'),
      budget: value('DURATION', 'time limit of a recovery'),
      loss: value('DURATION', 'work that may be lost (default: any)'),
      cost: value('least|fast', 'checkpoints: as few as the budgets allow, or more for a fast recovery'),
      retention: value('all|needed|DURATION', 'how long history is kept (default: all)'),
      measure: flag('measure the policy and its alternatives on this machine, for a few seconds'),
      effects: flag('the work calls external systems'),
    },
    store: 'none',
    load: () => import('../commands/advise.ts'),
  },
  {
    usage: 'doctor',
    summary: 'check Node, driver, durability, disk, clock, workers, checkpoints',
    options: { module: moduleOption },
    store: 'none',
    load: () => import('../commands/doctor.ts'),
  },
  {
    usage: 'explain [CODE]',
    summary: 'explain an error code and its remedy',
    store: 'none',
    load: () => import('../commands/explain.ts'),
  },
  {
    usage: 'completion bash|zsh|fish',
    summary: 'print a completion script for a shell',
    store: 'none',
    load: () => import('../commands/completion.ts'),
  },
]
