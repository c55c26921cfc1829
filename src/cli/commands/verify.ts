// reprise verify: reads everything and believes nothing. Exit code 8 if it finds damage; with --repair, if any is left.

import type { Renewal } from '../../core/ports.ts'
import type { VerifyReport } from '../../engine/tools/verify.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findTimeline } from '../find.ts'
import { count } from '../format.ts'
import type { Output } from '../output.ts'

const verify: Command = async (invocation) => {
  const { args, options, output, renewal } = invocation
  if (renewal) tellRenewal(renewal, options.repair === true, output)
  // Too damaged to be opened, and nothing was asked to be changed.
  if (renewal && options.repair !== true) {
    output.result(renewal, () => {})
    return exit.damage
  }
  const { engine } = invocation
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
    for (const next of nextSteps(report, repair, from)) output.note(next)
    if (report.orphans > 0)
      output.note(`${count(report.orphans, 'chunk')} no longer needed; reprise prune --yes removes what is old enough`)
  })
  if (renewal?.lost.some(({ isUntilHead }) => !isUntilHead)) return exit.damage
  const isDamaged = report.faults.length > 0 || report.healed.some(({ isPutRight }) => !isPutRight)
  return isDamaged ? exit.damage : report.ok ? exit.ok : exit.usage
}

function tellRenewal({ kept, rebuilt, lost }: Renewal, isDone: boolean, output: Output): void {
  const { red, yellow } = output.errorColours
  for (const { where, what } of rebuilt) {
    output.note(yellow(`${isDone ? 'made again' : 'damaged, and can be made again'}: ${where}: ${what}`))
  }
  for (const { timeline, where, what, isUntilHead } of lost) {
    // What verify makes again, or names, afterwards.
    if (isDone && isUntilHead) continue
    output.note(
      red(
        `lost: ${timeline ?? ''} ${where}: ${what}${isUntilHead ? ' until --repair makes them again from its history' : ''}`,
      ),
    )
  }
  output.note(
    isDone
      ? `the file did not open, and was written anew from what was sound in it; the old one is ${kept}`
      : 'the file does not open: reprise verify --repair writes it anew from what is sound in it, and keeps the old one',
  )
}

/** What to do about what is left, by the command that does it. */
function nextSteps({ faults, healed }: VerifyReport, isRepair: boolean, from: string | undefined): string[] {
  const steps: string[] = []
  const history = faults.find(
    ({ code, timeline, seq }) => code === 'HISTORY_DAMAGED' && timeline !== null && seq !== null,
  )
  if (healed.some(({ isPutRight }) => !isPutRight))
    steps.push('reprise verify --repair puts right what has a sound copy')
  if (history) {
    if (from === undefined)
      steps.push('reprise verify --repair --from COPY heals history from another store, an export or a backup')
    steps.push(`without a copy: reprise give-up ${history.timeline} says what would be lost, and goes on without it`)
    steps.push(`or reprise fork ${history.timeline}@SEQ NEW goes on from a sequence below ${history.seq}`)
  }
  if (faults.some(({ code }) => code === 'HEAD_LOST'))
    steps.push('reprise verify --repair --module FILE makes the heads of timelines again from their history')
  if (faults.some(({ code, timeline }) => code === 'STORE_DAMAGED' && timeline === null)) {
    steps.push(
      isRepair
        ? 'what stays damaged in the file itself is left behind by a new one: reprise backup FILE, then reprise restore FILE there'
        : 'reprise verify --repair writes a damaged SQLite file anew from what is sound in it, and keeps the old one; stop other programs first',
    )
  }
  return steps
}

export default verify
