// reprise drill: practice restores of checkpoints, compared by digest. Exit code 8 if one failed.

import type { BackupDrill, CopyDrill } from '../../operations/copy-drill.ts'
import { type Command, type Invocation, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findTimeline } from '../find-timeline.ts'
import { count, ms } from '../format.ts'
import type { Output } from '../output.ts'
import { keysOf } from '../store.ts'

const drill: Command = async (invocation) => {
  const { engine, args, output, options } = invocation
  const of = (['shipped', 'backup', 'archive'] as const).filter((kind) => text(options, kind) !== undefined)
  if (of.length > 0) {
    const why = 'a drill of a whole copy names one copy, and no timelines'
    if (args.length > 0 || of.length > 1) throw new UsageError(why)
    if (of[0] === 'archive') return await drillServer(invocation)
    return of[0] === 'shipped' ? await drillPlace(invocation) : await drillFile(invocation)
  }
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
async function drillPlace({ engine, output, options }: Invocation): Promise<number> {
  const { drillShipped } = await import('../../operations/copy-drill.ts')
  const keys = keysOf({ keys: text(options, 'keys') })
  const report = await drillShipped(engine, text(options, 'shipped')!, keys ? { keys } : {})
  output.result(report, () => {
    const { record, positionsBehind, lost, skipped } = report
    print(output, report, `record ${record}`, `${count(positionsBehind, 'position')} would be lost`)
    if (lost) output.line(`records ${lost.from} to ${lost.to} cannot be used: ${lost.why}`)
    for (const { base, why } of skipped) output.line(`base ${base} cannot be used: ${why}`)
  })
  return report.ok ? exit.ok : exit.damage
}

/** The same from a backup. */
async function drillFile({ engine, output, options }: Invocation): Promise<number> {
  const { drillBackup } = await import('../../operations/copy-drill.ts')
  const keys = keysOf({ keys: text(options, 'keys') })
  const report = await drillBackup(engine, text(options, 'backup')!, keys ? { keys } : {})
  output.result(report, () => {
    const { place, moment } = report
    const asOf = moment === null ? '' : ` as of ${new Date(moment).toISOString()}`
    print(output, report, `${place}${asOf}`, lossOf(report))
  })
  return report.ok ? exit.ok : exit.damage
}

/** The same from the archive of a PostgreSQL server. */
async function drillServer({ engine, output, options }: Invocation): Promise<number> {
  const { drillArchive } = await import('../../operations/copy-drill.ts')
  const [keys, programs] = [keysOf({ keys: text(options, 'keys') }), text(options, 'pg-bin')]
  const given = { ...(keys && { keys }), ...(programs !== undefined && { programs }) }
  const report = await drillArchive(engine, text(options, 'archive')!, given)
  output.result(report, () => {
    print(output, report, `${report.place} as of ${new Date(report.moment).toISOString()}`, lossOf(report))
  })
  return report.ok ? exit.ok : exit.damage
}

function lossOf({ entriesLost, timelinesLost }: Pick<BackupDrill, 'entriesLost' | 'timelinesLost'>): string {
  const among = timelinesLost === 0 ? '' : `, with ${count(timelinesLost, 'whole timeline')} among them`
  return `${count(entriesLost, 'entry', 'entries')} would be lost${among}`
}

function print(output: Output, report: CopyDrill, what: string, loss: string): void {
  const { green, red } = output.colours
  const { ok, rpoMs, rtoMs, restoreMs, verifyMs, timelines, entries, faults } = report
  const sizes = `${count(timelines, 'timeline')}, ${count(entries, 'entry', 'entries')}`
  output.line(`${ok ? green('ok') : red('failed')}  ${what}, ${sizes}`)
  output.line(`RPO  ${rpoMs === null ? 'unknown' : ms(rpoMs)}, ${loss}`)
  output.line(`RTO  ${ms(rtoMs)}: restore ${ms(restoreMs)}, verify ${ms(verifyMs)}`)
  for (const fault of faults) output.line(fault)
}
