// reprise drill: practice restores of checkpoints, compared by digest. Exit code 8 if one failed.

import { type Command, type Invocation, text } from '../command.ts'
import { exit } from '../exit.ts'
import { findTimeline } from '../find.ts'
import { ms } from '../format.ts'
import { keysOf } from '../store.ts'

const drill: Command = async (invocation) => {
  const { engine, args, output, options } = invocation
  const shipped = text(options, 'shipped')
  if (shipped !== undefined) return await drillPlace(invocation, shipped)
  const timelines = await Promise.all(args.map(async (given) => (await findTimeline(engine, given)).timeline))
  const report = await engine.drill(timelines.length > 0 ? { timelines } : {})
  output.result(report, () => {
    const { green, red } = output.colours
    output.table(
      ['TIMELINE', 'CHECKPOINT', 'SEQ', 'RESULT', 'RECOVERY', 'REPLAYED', 'LOST', 'NOTE'],
      report.results.map((result) => [
        result.timeline,
        result.checkpoint ?? 'origin',
        String(result.seq),
        result.ok ? green('ok') : result.isUnknown ? 'cannot tell' : red('failed'),
        ms(result.recoveryMs),
        String(result.entriesReplayed),
        String(result.entriesLost),
        result.note,
      ]),
    )
    if (report.unknown.length > 0)
      output.note(`not drilled, name their definitions with --module: ${report.unknown.join(', ')}`)
  })
  // A timeline that was named must be drilled.
  if (report.ok) return args.length > 0 && report.unknown.length > 0 ? exit.usage : exit.ok
  return report.results.some((result) => !result.ok && !result.isUnknown) ? exit.damage : exit.usage
}

export default drill

/** A drill of the whole store, from its shipped copy. */
async function drillPlace({ engine, output, options }: Invocation, place: string): Promise<number> {
  const { drillShipped } = await import('../../operations/shipping.ts')
  const keys = keysOf({ keys: text(options, 'keys') })
  const report = await drillShipped(engine, place, keys ? { keys } : {})
  output.result(report, () => {
    const { green, red } = output.colours
    const { ok, record, rpoMs, positionsBehind, rtoMs, restoreMs, verifyMs, timelines, entries } = report
    output.line(`${ok ? green('ok') : red('failed')}  record ${record}, ${timelines} timelines, ${entries} entries`)
    output.line(`RPO  ${ms(rpoMs)}, ${positionsBehind} positions would be lost`)
    output.line(`RTO  ${ms(rtoMs)}: restore ${ms(restoreMs)}, verify ${ms(verifyMs)}`)
    for (const fault of report.faults) output.line(fault)
    if (report.lost) output.line(`records ${report.lost.from} to ${report.lost.to} cannot be used: ${report.lost.why}`)
    for (const { base, why } of report.skipped) output.line(`base ${base} cannot be used: ${why}`)
  })
  return report.ok ? exit.ok : exit.damage
}
