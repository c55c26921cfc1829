// reprise verify: reads everything and believes nothing. Exit code 8 if it finds damage.

import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findTimeline } from '../find.ts'
import { count } from '../format.ts'

const verify: Command = async ({ engine, args, output }) => {
  const timelines = await Promise.all(args.map(async (given) => (await findTimeline(engine, given)).timeline))
  const report = await engine.verify(timelines.length > 0 ? { timelines } : {})
  output.result(report, () => {
    const { green, red } = output.colours
    for (const fault of report.faults) {
      output.line(
        red(
          `${fault.code} ${fault.timeline ?? ''}${fault.seq === null ? '' : `@${fault.seq}`} ${fault.where}: ${fault.what}`,
        ),
      )
    }
    for (const { timeline, where, what } of report.cannotTell) {
      output.line(output.colours.yellow(`cannot tell ${timeline ?? ''} ${where}: ${what}`))
    }
    const counts = `${count(report.timelines, 'timeline')}, ${count(report.entries, 'entry', 'entries')}, ${count(report.checkpoints, 'checkpoint')}, ${count(report.chunks, 'chunk')}`
    const verdict = report.faults.length > 0 ? red(count(report.faults.length, 'fault')) : 'cannot tell'
    output.line(report.ok ? `${green('ok')} ${counts}` : `${verdict} in ${counts}`)
    if (report.orphans > 0)
      output.note(`${count(report.orphans, 'chunk')} no longer needed; reprise prune --yes removes what is old enough`)
  })
  return report.faults.length > 0 ? exit.damage : report.ok ? exit.ok : exit.usage
}

export default verify
