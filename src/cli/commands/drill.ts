// reprise drill: restores checkpoints aside and compares. Exit code 8 if one failed.

import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findTimeline } from '../find.ts'
import { ms } from '../format.ts'

const drill: Command = async ({ engine, args, output }) => {
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
  if (report.ok) return exit.ok
  return report.results.some((result) => !result.ok && !result.isUnknown) ? exit.damage : exit.usage
}

export default drill
