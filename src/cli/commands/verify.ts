// reprise verify: reads everything and believes nothing. Exit code 8 if it finds damage; with --repair, if any is left.

import type { VerifyReport } from '../../engine/tools/verify.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findTimeline } from '../find.ts'
import { count } from '../format.ts'

const verify: Command = async ({ engine, args, options, output }) => {
  const timelines = await Promise.all(args.map(async (given) => (await findTimeline(engine, given)).timeline))
  const repair = options.repair === true || options['chunks-lost'] === true
  const from = options.from as string | undefined
  const report = await engine.verify({
    ...(timelines.length > 0 && { timelines }),
    ...(repair && { repair }),
    ...(from !== undefined && { from }),
  })
  output.result(report, () => {
    const { green, red } = output.colours
    for (const fault of report.faults) {
      output.line(
        red(
          `${fault.code} ${fault.timeline ?? ''}${fault.seq === null ? '' : `@${fault.seq}`} ${fault.where}: ${fault.what}`,
        ),
      )
    }
    for (const { timeline, where, what, from: copy, isPutRight } of report.healed) {
      const state = isPutRight ? 'put right' : 'damaged, nothing lost'
      output.line(output.colours.yellow(`${state}: ${timeline ?? ''} ${where}: ${what} (from ${copy})`))
    }
    for (const { timeline, where, what } of report.cannotTell) {
      output.line(output.colours.yellow(`cannot tell ${timeline ?? ''} ${where}: ${what}`))
    }
    const counts = `${count(report.timelines, 'timeline')}, ${count(report.entries, 'entry', 'entries')}, ${count(report.checkpoints, 'checkpoint')}, ${count(report.chunks, 'chunk')}`
    const verdict =
      report.faults.length > 0
        ? red(count(report.faults.length, 'fault'))
        : report.healed.some(({ isPutRight }) => !isPutRight)
          ? output.colours.yellow(`${count(report.healed.length, 'damaged place')}, nothing lost,`)
          : 'cannot tell'
    output.line(report.ok ? `${green('ok')} ${counts}` : `${verdict} in ${counts}`)
    for (const next of nextSteps(report, from)) output.note(next)
    if (report.orphans > 0)
      output.note(`${count(report.orphans, 'chunk')} no longer needed; reprise prune --yes removes what is old enough`)
  })
  const isDamaged = report.faults.length > 0 || report.healed.some(({ isPutRight }) => !isPutRight)
  return isDamaged ? exit.damage : report.ok ? exit.ok : exit.usage
}

/** What to do about what is left, by the command that does it. */
function nextSteps({ faults, healed }: VerifyReport, from: string | undefined): string[] {
  const steps: string[] = []
  const history = faults.find(
    ({ code, timeline, seq }) => code === 'HISTORY_DAMAGED' && timeline !== null && seq !== null,
  )
  if (healed.some(({ isPutRight }) => !isPutRight))
    steps.push('reprise verify --repair puts right what has a sound copy')
  if (history) {
    if (from === undefined)
      steps.push('reprise verify --repair --from COPY heals history from another store, an export or a backup')
    steps.push(`without a copy: reprise fork ${history.timeline}@SEQ NEW goes on from a sequence below ${history.seq}`)
  }
  if (faults.some(({ code, timeline }) => code === 'STORE_DAMAGED' && timeline === null)) {
    steps.push(
      'what stays damaged in the file itself is left behind by a new one: reprise backup FILE, then reprise restore FILE there',
    )
  }
  return steps
}

export default verify
