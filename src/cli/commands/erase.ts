// reprise erase: removes a timeline, or single entries of it, from the files of the store; shows first what would be removed.

import { orElse, RepriseError } from '../../core/errors.ts'
import type { EntrySelection } from '../../engine/tools/erase/select.ts'
import { type Command, flag, type Invocation, type Options, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findTimeline } from '../find-timeline.ts'
import { count } from '../format.ts'
import { printPlan } from './delete.ts'

const command: Command = async (invocation) => {
  const { engine, args, options, output } = invocation
  if (text(options, 'entries') !== undefined || listOf(options, 'where').length > 0) return await entries(invocation)
  const means = {
    forks: flag(options, 'forks'),
    savepoints: flag(options, 'savepoints'),
    unfinished: flag(options, 'unfinished'),
  }
  const found = await findTimeline(engine, args[0]!).catch(orElse(null, 'NOT_FOUND'))
  if (!flag(options, 'yes')) {
    const plan = await engine.erase(found?.timeline ?? args[0]!, { ...means, dryRun: true })
    output.result(plan, () => {
      printPlan(plan, output)
      for (const where of plan.remains) output.line(`may remain: ${where}`)
    })
    output.note(plan.refusals.length > 0 ? 'nothing was erased' : 'nothing was erased; add --yes to erase')
    return plan.refusals.length > 0 ? exit.conflict : exit.ok
  }
  if (found && found.timeline !== args[0]) {
    throw new UsageError(`${args[0]} is not a whole id`, `if you mean it: reprise erase ${found.timeline} --yes`)
  }
  const done = await engine.erase(args[0]!, means)
  if (done.timelines.length === 0) {
    // An interrupted erasure may already have deleted it: its bytes have now been removed from the files. A typo looks the same.
    const what = `there is no timeline ${args[0]}: nothing was erased, apart from remains of earlier erasures`
    throw new RepriseError('NOT_FOUND', what, { timeline: args[0] })
  }
  output.result(done, () => {
    for (const { timeline } of done.timelines) output.line(`erased ${timeline}`)
    output.line(`${count(done.chunks, 'chunk')} removed`)
    for (const where of done.remains) output.line(`may remain: ${where}`)
  })
  return exit.ok
}

/** Erases entries of a history that continues. */
async function entries({ engine, args, options, output }: Invocation): Promise<number> {
  const { timeline } = await findTimeline(engine, args[0]!)
  const reason = text(options, 'reason')
  const means = {
    ...selectionOf(options),
    savepoints: flag(options, 'savepoints'),
    takeover: flag(options, 'takeover'),
    ...(reason !== undefined && { reason }),
  }
  const isMeant = flag(options, 'yes')
  if (isMeant && timeline !== args[0]) {
    throw new UsageError(`${args[0]} is not a whole id`, `if you mean it: reprise erase ${timeline} … --yes`)
  }
  const report = await engine.eraseEntries(timeline, { ...means, dryRun: !isMeant })
  output.result(report, () => {
    const verb = isMeant ? 'erased' : 'would erase'
    for (const { timeline: holder, seqs } of report.entries) output.line(`${verb} ${holder}@${rangesOf(seqs)}`)
    if (report.entries.length === 0) output.line('no remaining entry matches')
    for (const { timeline: id, from, checkpoints, savepoints } of report.timelines) {
      const held = savepoints.length > 0 ? `, among them savepoints ${savepoints.join(', ')}` : ''
      output.line(`${id}: its state is rebuilt from ${from}; ${count(checkpoints, 'checkpoint')} removed${held}`)
    }
    for (const { timeline: id, code, why } of report.refusals) output.line(`refused: ${id}: ${why} [${code}]`)
    if (isMeant) output.line(`${count(report.chunks, 'chunk')} removed`)
    for (const where of report.remains) output.line(`may remain: ${where}`)
  })
  if (isMeant) return exit.ok
  output.note(report.refusals.length > 0 ? 'nothing was erased' : 'nothing was erased; add --yes to erase')
  return report.refusals.length > 0 ? exit.conflict : exit.ok
}

function selectionOf(options: Options): EntrySelection {
  const range = text(options, 'entries')
  const found = range === undefined ? null : /^(\d+)(?:\.\.(\d+))?$/.exec(range)
  if (range !== undefined && !found)
    throw new UsageError(`--entries ${range} is not a range`, 'for example: --entries 5..9')
  const where: { type?: string; key?: string; fields?: Record<string, string> } = {}
  for (const given of listOf(options, 'where')) {
    const cut = given.indexOf('=')
    const [name, value] = [given.slice(0, cut), given.slice(cut + 1)]
    if (cut < 1) throw new UsageError(`--where ${given} has no value`, 'for example: --where type=registered')
    if (name === 'type' || name === 'key') where[name] = value
    else where.fields = { ...where.fields, [name.replace(/^data\./, '')]: value }
  }
  return {
    ...(found && { entries: { from: Number(found[1]), to: Number(found[2] ?? found[1]) } }),
    ...(Object.keys(where).length > 0 && { where }),
  }
}

function listOf(options: Options, name: string): readonly string[] {
  const value = options[name]
  return Array.isArray(value) ? value : []
}

/** @example rangesOf([1, 2, 3, 7]) // '1..3,7' */
function rangesOf(seqs: readonly number[]): string {
  const ranges: [number, number][] = []
  for (const seq of seqs) {
    const last = ranges.at(-1)
    if (last && last[1] === seq - 1) last[1] = seq
    else ranges.push([seq, seq])
  }
  return ranges.map(([from, to]) => (from === to ? String(from) : `${from}..${to}`)).join(',')
}

export default command
