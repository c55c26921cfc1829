// reprise verify: reads and checks everything. Exit code 8 if it finds damage; with --repair, if any is left.

import { unreachable } from '../../core/assert.ts'
import { isReprise } from '../../core/errors.ts'
import type { Renewal } from '../../core/store/ports.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { lossWords } from '../../engine/storage/losses.ts'
import { changeWords } from '../../engine/storage/store-change.ts'
import { unknownDefinition } from '../../engine/tools/repair/give-up.ts'
import type { EarlierVerify, VerifyProgress, VerifyReport } from '../../engine/tools/verify/verify.ts'
import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { findTimeline } from '../find-timeline.ts'
import { count } from '../format.ts'
import { onInterrupt } from '../interrupt.ts'
import type { Output } from '../output.ts'
import { ProgressLine, share } from '../progress-line.ts'

const verify: Command = async (invocation) => {
  const { args, options, output, renewal } = invocation
  if (renewal) reportRenewal(renewal, options.repair === true, output)
  // Too damaged to be opened, and no repair was requested.
  if (renewal && options.repair !== true) {
    output.result(renewal, () => {})
    return exit.damage
  }
  const { engine } = invocation
  const timelines = await Promise.all(args.map(async (given) => (await findTimeline(engine, given)).timeline))
  const repair = options.repair === true || options['chunks-lost'] === true
  const from = options.from as string | undefined
  const isResumed = flag(options, 'resume')
  const line = new ProgressLine(output, flag(options, 'progress'))
  const interruption = onInterrupt(output, null)
  const stop = new AbortController()
  void interruption.requested.then(() => stop.abort())
  const report = await engine
    .verify({
      ...(timelines.length > 0 && { timelines }),
      ...(repair && { repair }),
      ...(from !== undefined && { from }),
      ...(isResumed && { resume: true }),
      signal: stop.signal,
      onProgress: (progress) => line.at(() => progressWords(progress)),
    })
    .catch((error) => {
      if (!stop.signal.aborted || !isReprise(error, 'ABORTED')) throw error
      return null
    })
    .finally(() => {
      line.close()
      interruption.off()
    })
  if (!report) {
    const next = isResumed
      ? 'reprise verify --resume resumes it'
      : 'with --resume, a verification saves its progress and can be resumed after an interruption'
    output.note(`interrupted; ${next}`)
    return exit.interrupted
  }
  const steps = await nextSteps(engine, report, repair, from)
  const losses = report.losses.reduce((sum, { lost }) => sum + lost.length, 0)
  output.result(report, () => printReport(report, losses, steps, output))
  if (losses > 0) return exit.damage
  const isDamaged = report.faults.length > 0 || report.healed.some(({ isPutRight }) => !isPutRight)
  if (isDamaged) return exit.damage
  return report.ok ? exit.ok : report.cannotTell.length > 0 ? exit.usage : exit.conflict
}

function printReport(report: VerifyReport, losses: number, steps: readonly string[], output: Output): void {
  const { green, red } = output.colours
  for (const fault of report.faults) {
    output.line(
      red(
        `${fault.code} ${fault.timeline ?? ''}${fault.seq === null ? '' : `@${fault.seq}`} ${fault.where}: ${fault.what}`,
      ),
    )
  }
  for (const { timeline, where, what, from: copy, isPutRight, isIncomplete } of report.healed) {
    const state = isIncomplete ? 'readable again, incomplete' : isPutRight ? 'repaired' : 'damaged, nothing lost'
    output.line(output.colours.yellow(`${state}: ${timeline ?? ''} ${where}: ${what} (from ${copy})`))
  }
  for (const { timeline, where, what } of report.cannotTell) {
    output.line(output.colours.yellow(`unknown ${timeline ?? ''} ${where}: ${what}`))
  }
  for (const change of report.unfinished) {
    output.line(red(`${change.isRunning && !change.blocks ? '' : 'CHANGE_UNFINISHED '}${changeWords(change)}`))
    output.note(`reprise changes ${change.id} --resume continues it; reprise changes ${change.id} --abandon undoes it`)
  }
  for (const loss of report.losses) {
    output.line(red(`DATA_LOST ${loss.id}: ${lossWords(loss)}`))
    output.note(`restore a backup, or accept the loss: reprise give-up ${loss.id} --by NAME --reason TEXT --yes`)
  }
  const counts = `${count(report.timelines, 'timeline')}, ${count(report.entries, 'entry', 'entries')}, ${count(report.checkpoints, 'checkpoint')}, ${count(report.chunks, 'chunk')}`
  const verdict =
    report.faults.length > 0
      ? red(count(report.faults.length, 'fault'))
      : report.healed.some(({ isPutRight }) => !isPutRight)
        ? output.colours.yellow(`${count(report.healed.length, 'damaged place')}, nothing lost,`)
        : report.cannotTell.length > 0
          ? 'cannot tell'
          : red(count(report.unfinished.length, 'unfinished change'))
  const isSound = report.ok || (losses > 0 && isOtherwiseSound(report))
  const left = isSound ? `${green('ok')} ${counts}` : `${verdict} in ${counts}`
  // The remaining entries may be intact, but acknowledged entries are missing.
  output.line(losses > 0 ? `${red(count(losses, 'loss', 'losses'))} beside ${left}` : left)
  for (const { timeline, what } of report.edited) output.note(`${timeline} is a fork with edits: ${what}`)
  if (report.earlier) for (const words of earlierWords(report.earlier)) output.note(words)
  for (const next of steps) output.note(next)
  // With damage present, this is uncertain: the chunks may belong to unreadable manifests.
  if (report.orphans > 0 && report.ok)
    output.note(
      `${count(report.orphans, 'chunk')} no longer needed; reprise prune --yes removes those that are old enough`,
    )
}

/** All existing data is intact, and no change is unfinished: only data lost by earlier repairs is missing. */
function isOtherwiseSound({ faults, healed, cannotTell, unfinished }: VerifyReport): boolean {
  const isWhole = faults.length === 0 && cannotTell.length === 0 && healed.every(({ isPutRight }) => isPutRight)
  return isWhole && unfinished.every(({ blocks, isRunning }) => isRunning && !blocks)
}

function progressWords({ part, done, total, at }: VerifyProgress): string {
  switch (part) {
    case 'structures':
      return `verify: the structures of the store: ${at}${done > 0 ? ` ${share(done, total)}` : ''}`
    case 'timelines':
      return `verify: timelines: ${share(done, total)}, at ${at}`
    case 'chunks':
      return `verify: chunks: ${share(done, total)}`
    case 'copies':
      return 'verify: the mirror and the parity of chunks'
    default:
      return unreachable(part)
  }
}

/** The parts of a report that were not verified in this run. */
function earlierWords({ from, to, upTo, timelines, again, structuresAt }: EarlierVerify): string[] {
  const when = (at: number) => new Date(at).toISOString()
  const words: string[] = []
  if (upTo !== null) {
    words.push(
      `${count(timelines, 'timeline')} up to ${upTo} ${timelines === 1 ? 'was' : 'were'} verified between ${when(from)} and ${when(to)}, by a verify that was interrupted, and not written since`,
      `${count(again, 'timeline')} up to there, new or changed since, ${again === 1 ? 'was' : 'were'} verified again; later damage to unchanged data is found only without --resume`,
    )
  }
  if (structuresAt !== null) words.push(`the structures of the store itself were checked at ${when(structuresAt)}`)
  return words
}

function reportRenewal({ kept, rebuilt, lost }: Renewal, isDone: boolean, output: Output): void {
  const { red, yellow } = output.errorColours
  for (const { where, what, isIncomplete } of rebuilt) {
    const made = isIncomplete ? 'made legible' : 'made again'
    output.note(yellow(`${isDone ? made : `damaged, and can be ${made}`}: ${where}: ${what}`))
  }
  for (const { timeline, where, what, isUntilHead } of lost) {
    // Verify rebuilds or reports these afterwards.
    if (isDone && isUntilHead) continue
    output.note(
      red(
        `lost: ${timeline ?? ''} ${where}: ${what}${isUntilHead ? ' until --repair rebuilds them from its history' : ''}`,
      ),
    )
  }
  output.note(
    isDone
      ? `the file did not open, and was rebuilt from its intact parts; the old file is ${kept}`
      : 'the file does not open: reprise verify --repair rebuilds it from its intact parts, and keeps the old file',
  )
}

/** The commands that address the remaining faults. */
async function nextSteps(
  engine: Reprise,
  { faults, healed }: VerifyReport,
  isRepair: boolean,
  from: string | undefined,
): Promise<string[]> {
  const steps: string[] = []
  const history = faults.find(
    ({ code, timeline, seq }) => code === 'HISTORY_DAMAGED' && timeline !== null && seq !== null,
  )
  if (healed.some(({ isPutRight }) => !isPutRight))
    steps.push('reprise verify --repair repairs everything that has an intact copy')
  if (history) {
    if (from === undefined)
      steps.push('reprise verify --repair --from COPY heals history from another store, an export or a backup')
    steps.push(...(await withoutCopy(engine, history.timeline!, history.seq!)))
  }
  if (faults.some(({ code }) => code === 'HEAD_LOST'))
    steps.push('reprise verify --repair --module FILE rebuilds the heads of timelines from their history')
  if (faults.some(({ code, timeline }) => code === 'STORE_DAMAGED' && timeline === null)) {
    steps.push(
      isRepair
        ? 'a new file does not contain the remaining damage: run reprise backup FILE, then reprise restore FILE there'
        : 'reprise verify --repair rebuilds a damaged SQLite file from its intact parts, and keeps the old file; stop other programs first',
    )
  }
  return steps
}

/** Suggests giving up if it would be accepted; otherwise the refusal, which names the alternative. */
async function withoutCopy(engine: Reprise, timeline: string, seq: number): Promise<string[]> {
  const request = { by: 'verify', reason: 'to see whether it would be accepted', dryRun: true }
  const refusal = await engine.giveUp(timeline, request).then(
    (report) => report.refusal,
    (error) => (error instanceof Error ? error.message : String(error)),
  )
  const isUnknown = refusal === unknownDefinition
  if (refusal !== null && !isUnknown) return [`without a copy, reprise give-up ${timeline} is refused: ${refusal}`]
  const module = isUnknown ? ' --module FILE' : ''
  return [
    `without a copy: reprise give-up ${timeline}${module} shows the losses, and with --yes continues without the lost entries`,
    `or reprise fork ${timeline}@SEQ NEW continues from a sequence below ${seq}`,
  ]
}

export default verify
