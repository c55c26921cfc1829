// Options that several commands have.

export const limit = { type: 'string', value: 'N', help: 'show at most this many' } as const
export const yes = { type: 'boolean', short: 'y', help: 'do it without asking' } as const
export const moduleOption = {
  type: 'string',
  value: 'FILE',
  help: 'module that exports the definition, for models this program does not know',
} as const
export const drillOptions = {
  shipped: {
    type: 'string',
    value: 'PLACE',
    help: 'restore the whole store aside from where it was shipped to, and measure RPO and RTO',
  },
  module: moduleOption,
} as const
const undoInherited = { type: 'boolean', help: 'of a fork: also undo what its original did' } as const
export const rollbackOptions = {
  before: { type: 'string', value: 'SEQ', help: 'go back to before this entry' },
  'before-time': { type: 'string', value: 'WHEN', help: 'go back to before the first entry at or after this time' },
  'until-valid': { type: 'boolean', help: 'go back to before the state became invalid, by its definition' },
  where: { type: 'string', value: 'FILE', help: 'the same, by the predicate that this module exports' },
  module: moduleOption,
  takeover: { type: 'boolean', help: 'even if a live process owns it' },
  'undo-inherited': undoInherited,
  'even-consumed': { type: 'boolean', help: 'even if others have acted on what is undone; they are recorded' },
  yes,
} as const
export const cancelOptions = {
  reason: { type: 'string', value: 'TEXT', help: 'why' },
  'undo-inherited': undoInherited,
} as const
export const runOptions = {
  input: { type: 'string', value: 'JSON', help: 'input of the run' },
  id: { type: 'string', value: 'ID', help: 'id of the run, for workflows and pipelines' },
  report: { type: 'string', value: 'KIND', help: 'auto, bar, lines, json or none' },
  threads: { type: 'string', value: 'N', help: 'pipelines: share its partitions among so many threads' },
  work: { type: 'boolean', help: 'keep working on whatever is due, until interrupted' },
  'dry-run': { type: 'boolean', help: 'migrations: say what would be done, and write nothing' },
} as const

export const forkOptions = {
  set: {
    type: 'string',
    value: 'NAME=JSON',
    multiple: true,
    help: 'go on with this: the result of a step, a row of a table, a field of a session',
  },
  unset: { type: 'string', value: 'NAME', multiple: true, help: 'go on without this row of a table' },
  input: {
    type: 'string',
    value: 'JSON',
    help: 'go on with another input; from the start, unless @SEQ says where',
  },
  by: { type: 'string', value: 'NAME', help: 'who edits it, for its history' },
  module: moduleOption,
} as const
