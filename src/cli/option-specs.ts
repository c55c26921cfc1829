// Options that several commands share.

export const limit = { type: 'string', value: 'N', help: 'show at most this many' } as const
export const listOptions = {
  status: { type: 'string', value: 'STATUS', help: 'only timelines with this status' },
  queue: { type: 'string', value: 'QUEUE', help: 'only timelines in this queue' },
  attribute: { type: 'string', value: 'KEY=VALUE', multiple: true, help: 'only timelines with this attribute' },
  after: { type: 'string', value: 'ID', help: 'only ids after this one' },
  limit,
} as const
export const yes = { type: 'boolean', short: 'y', help: 'do it without asking' } as const
export const initOptions = {
  template: { type: 'string', value: 'NAME', help: 'job, pages, migrate, workflow or timeline' },
  name: { type: 'string', value: 'NAME', help: 'name of the job' },
  language: { type: 'string', value: 'ts|js', help: 'TypeScript or JavaScript' },
  force: { type: 'boolean', help: 'overwrite existing files' },
  yes,
} as const
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
const report = { type: 'string', value: 'KIND', help: 'auto, bar, lines, json or none' } as const
/** How a pipeline starts (run-flags.ts). */
export const workOptions = {
  'away-for': {
    type: 'string',
    value: 'TIME',
    help: 'go on for this long while the store does not answer (default: 10s, a file 5s)',
  },
  from: {
    type: 'string',
    value: 'CHECKPOINT',
    help: 'pipelines: begin from this checkpoint, or from the newest one at this time or before (for work: a time)',
  },
  changes: {
    type: 'string',
    value: 'JSON',
    help: `pipelines: what became of names that the code changed: '{"rename":{"old":"new"},"drop":["a"],"add":["b"]}'`,
  },
} as const
const beginOptions = {
  ...workOptions,
  takeover: { type: 'boolean', help: 'pipelines: take it over from a live process, whose further writes are refused' },
  wait: { type: 'string', value: 'TIME', help: 'pipelines, migrations: wait this long for a live owner (30s, 5m)' },
} as const
export const resumeOptions = { report, ...beginOptions, module: moduleOption } as const
export const cancelOptions = {
  reason: { type: 'string', value: 'TEXT', help: 'why' },
  'undo-inherited': undoInherited,
} as const
export const runOptions = {
  input: { type: 'string', value: 'JSON', help: 'input of the run' },
  id: { type: 'string', value: 'ID', help: 'id of the run, for workflows and pipelines' },
  report,
  ...beginOptions,
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
