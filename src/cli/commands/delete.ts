// reprise delete: shows what would be removed with a timeline, and with --yes deletes it permanently.

import { RepriseError } from '../../core/errors.ts'
import type { DeleteReport } from '../../engine/tools/housekeeping/delete.ts'
import { type Command, flag } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findTimeline } from '../find-timeline.ts'
import { count } from '../format.ts'
import type { Output } from '../output.ts'

const command: Command = async ({ engine, args, options, output }) => {
  const means = {
    forks: flag(options, 'forks'),
    savepoints: flag(options, 'savepoints'),
    unfinished: flag(options, 'unfinished'),
  }
  const { timeline } = await findTimeline(engine, args[0]!)
  if (flag(options, 'yes') && timeline !== args[0]) {
    throw new UsageError(`${args[0]} is not a complete id`, `if you mean it: reprise delete ${timeline} --yes`)
  }
  const plan = await engine.delete(timeline, { ...means, dryRun: true })
  if (!flag(options, 'yes')) {
    output.result(plan, () => printPlan(plan, output))
    output.note(plan.refusals.length > 0 ? 'nothing was deleted' : 'nothing was deleted; add --yes to delete it')
    return plan.refusals.length > 0 ? exit.conflict : exit.ok
  }
  const [refusal] = plan.refusals
  if (refusal) {
    const { code, why } = refusal
    throw new RepriseError(code, `${refusal.timeline} is not deleted: ${why}`, { refusals: plan.refusals })
  }
  const done = await engine.delete(timeline, means)
  output.result(done, () => output.line(`deleted ${done.timelines.map((each) => each.timeline).join(', ')}`))
  return exit.ok
}

export default command

export function printPlan({ timelines, refusals }: DeleteReport, output: Output): void {
  output.table(
    ['TIMELINE', 'BECAUSE', 'ENTRIES', 'CHECKPOINTS', 'SAVEPOINTS', 'MAIL', 'CURSORS'],
    timelines.map((each) => [
      each.timeline,
      each.because,
      ...[each.entries, each.checkpoints, each.savepoints.length, each.mail].map(String),
      each.cursors.join(', ') || '-',
    ]),
  )
  output.line(`${count(timelines.length, 'timeline')} would be deleted permanently`)
  for (const { timeline, why } of refusals) output.line(output.colours.red(`${timeline}: ${why}`))
}
