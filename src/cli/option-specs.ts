// Options of commands: the three forms, and the options that several commands share.

import type { OptionSpec } from './command.ts'

/** @example flag('print results as JSON') */
export function flag(help: string, short?: string): OptionSpec {
  return { type: 'boolean', help, ...(short && { short }) }
}

/** An option with a value. `name`: the placeholder in its help. */
export function value(name: string, help: string): OptionSpec {
  return { type: 'string', value: name, help }
}

/** An option that may be repeated. */
export function values(name: string, help: string): OptionSpec {
  return { type: 'string', value: name, multiple: true, help }
}

export const limit = value('N', 'show at most this many')
export const listOptions = {
  status: value('STATUS', 'only timelines with this status'),
  queue: value('QUEUE', 'only timelines in this queue'),
  attribute: values('KEY=VALUE', 'only timelines with this attribute'),
  after: value('ID', 'only ids after this one'),
  limit,
} as const
export const logOption = value(
  'FORMAT',
  'json: requests, work and errors, as JSON lines on stderr; text: errors (default); none',
)
export const yes = flag('skip the confirmation', 'y')
export const initOptions = {
  template: value('NAME', 'job, pages, migrate, workflow, pipeline, agent or timeline'),
  name: value('NAME', 'name of the job'),
  language: value('ts|js', 'TypeScript or JavaScript'),
  force: flag('overwrite existing files'),
  yes,
} as const
export const moduleOption = value('FILE', 'module that exports the definition of a custom model')
export const pgBin = value('DIR', "folder of PostgreSQL's programs (default: the usual folders)")
export const drillOptions = {
  backup: value('FILE', 'restore this backup to a separate place, and measure RPO and RTO'),
  shipped: value('PLACE', 'restore the shipped store to a separate place, and measure RPO and RTO'),
  archive: value('PLACE', 'recover the PostgreSQL server to a separate place, and measure RPO and RTO'),
  'pg-bin': pgBin,
  module: moduleOption,
} as const
export const about = value('SEQ:DIGEST', 'refuse it unless the history ends at this position (see show)')
const undoInherited = flag('fork: also undo effects of the original')
export const rollbackOptions = {
  before: value('SEQ', 'roll back to before this entry'),
  'before-time': value('WHEN', 'roll back to before the first entry at or after this time'),
  'until-valid': flag('roll back to before the state became invalid by its definition'),
  where: value('FILE', 'the same, with the predicate that this module exports'),
  module: moduleOption,
  takeover: flag('even if a live process owns the timeline'),
  'undo-inherited': undoInherited,
  'even-consumed': flag('even if consumers have acted on the undone entries; they are recorded'),
  yes,
} as const
const report = value('KIND', 'auto, bar, lines, json or none')
export const awayFor = value('TIME', 'tolerate an unavailable store for this long (default: 30s)')
/** How a pipeline starts (run-flags.ts). */
export const workOptions = {
  'away-for': awayFor,
  from: value(
    'CHECKPOINT',
    'pipelines: start from this checkpoint, or from the newest one at or before this time (work: a time)',
  ),
  changes: value(
    'JSON',
    `pipelines: renamed, dropped and added names, as '{"rename": {"old": "new"}, "drop": ["a"], "add": ["b"]}'`,
  ),
} as const
const beginOptions = {
  ...workOptions,
  takeover: flag('pipelines: take over from a live process, whose later writes are refused'),
  wait: value('TIME', 'pipelines, migrations: wait this long for a live owner (such as 30s)'),
} as const
export const resumeOptions = { report, ...beginOptions, module: moduleOption } as const
export const cancelOptions = {
  reason: value('TEXT', 'reason, for its history'),
  'undo-inherited': undoInherited,
} as const
export const runOptions = {
  input: value('JSON', 'input of the run'),
  id: value('ID', 'id of the run, for workflows and pipelines'),
  report,
  ...beginOptions,
  threads: value('N', 'pipelines: number of threads that share its partitions, or have its stages'),
  work: flag('keep executing due work until interrupted'),
  'dry-run': flag('migrations: print the statements, and write nothing'),
} as const

export const forkOptions = {
  set: values('NAME=JSON', 'replace this value: the result of a step, a row of a table, a field of a session'),
  unset: values('NAME', 'remove this row of a table'),
  input: value('JSON', 'replace the input; the fork starts at the beginning unless @SEQ is set'),
  by: value('NAME', 'author of the edit, for its history'),
  module: moduleOption,
} as const
