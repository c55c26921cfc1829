// The commands that verify, drill and repair a store.

import type { CommandRow } from '../command.ts'
import { drillOptions, flag, moduleOption, value, yes } from '../option-specs.ts'

export const proof: readonly CommandRow[] = [
  {
    usage: 'verify [TIMELINE…]',
    summary: 'read everything and report damage',
    details: 'With --repair, it also repairs everything that has an intact copy or can be rebuilt.',
    options: {
      module: moduleOption,
      repair: flag('repair everything that has an intact copy or can be rebuilt'),
      from: value(
        'SOURCE',
        'another source of intact copies: a store, a folder of chunks, an export or a backup (the last three also s3://…)',
      ),
      resume: flag('save progress, and resume an interrupted verification'),
      progress: flag('print progress on stderr even if it is not a terminal'),
      'chunks-lost': flag('accept that the chunks in the folder of --blobs are lost, and repair'),
    },
    writesWith: ['repair', 'chunks-lost', 'resume'],
    renewsWith: 'repair',
    store: 'reading',
    evenUnfinished: true,
    load: () => import('../commands/verify.ts'),
  },
  {
    usage: 'drill [TIMELINE…]',
    summary: 'restore checkpoints to a separate place and compare them',
    options: drillOptions,
    store: 'existing',
    load: () => import('../commands/drill.ts'),
  },
  {
    usage: 'give-up TIMELINE|LOSS --by NAME --reason TEXT',
    summary: 'show what giving up damaged history loses; with --yes, do it',
    options: {
      by: value('NAME', 'author of the decision, for the record'),
      reason: value('TEXT', 'reason, for the record'),
      module: moduleOption,
      yes,
    },
    store: 'existing',
    load: () => import('../commands/give-up.ts'),
  },
]
