// Backs up the whole store to one file, and restores it. After an interruption, the same command resumes.

import { existsSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { positiveMs, toTime } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { hostOf } from '../../engine/host/host.ts'
import { isObjectStore, objectFiles } from '../../engine/storage/open-store.ts'
import type { ShipPoint } from '../../engine/tools/shipping/target.ts'
import { ByteBar } from '../byte-bar.ts'
import { type Command, duration, flag, type Invocation, refuseOptions, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { bytes, count, ms } from '../format.ts'
import type { Output } from '../output.ts'
import { keysOf, urlOf } from '../store.ts'

const noteEveryMs = 2000

/** The whole store as one file. After an interruption, the same command resumes. */
export const backup: Command = async (invocation) => {
  if (flag(invocation.options, 'plan')) return await printPlan(invocation)
  if (flag(invocation.options, 'base')) return await copyServer(invocation)
  const { engine, args, options, output } = invocation
  refuseOptions(options, ['keep', 'pg-bin'], 'only with --base')
  const [file] = args as [string]
  const isThere = isObjectStore(file) ? await objectFiles.exists(file) : existsSync(file)
  if (isThere && !flag(options, 'force')) {
    throw new UsageError(`${file} exists already`, '--force overwrites it')
  }
  const loseAtMost = duration(options, 'lose-at-most')
  const report = await engine.backup(file, {
    ...(loseAtMost !== undefined && { loseAtMost }),
    // A concurrent backup to the same name is refused, and not overwritten.
    ...(!flag(options, 'force') && { onlyNew: true }),
    onProgress: progressNotes(output),
  })
  output.result(report, () => {
    const earlier = report.before > 0 ? `, ${report.before} by an earlier attempt` : ''
    const moment = report.moment === null ? '' : `, as of ${new Date(report.moment).toISOString()}`
    output.line(`${file}: ${count(report.timelines, 'timeline')}${earlier}, ${bytes(report.bytes)}${moment}`)
  })
  for (const { timeline, why } of report.leftOut) output.note(`skipped ${timeline}: ${why}`)
  return exit.ok
}

/** What protects this store, with what is missing. */
async function printPlan({ engine, args, options, output }: Invocation): Promise<number> {
  refuseOptions(options, ['base', 'force', 'keep', 'pg-bin'], 'not with --plan')
  const { backupPlan } = await import('../../operations/backup-plan.ts')
  const loseAtMost = duration(options, 'lose-at-most')
  const { archive } = await engine.facts()
  const place = archive ? resolve(args[0]!) : args[0]!
  const wanted = { place, ...(loseAtMost !== undefined && { loseAtMostMs: positiveMs(loseAtMost, '--lose-at-most') }) }
  const plan = await backupPlan(engine, wanted)
  output.result(plan, () => {
    const { green, red } = output.colours
    for (const { name, isDone, what, run } of plan.steps) {
      output.line(`${isDone ? green('ok     ') : red('missing')}  ${name}: ${what}`)
      if (run !== null) output.line(`         ${run}`)
    }
  })
  return plan.isDone ? exit.ok : exit.partly
}

/** The whole PostgreSQL server, beside the archive of its log. */
async function copyServer({ engine, args, options, output }: Invocation): Promise<number> {
  refuseOptions(options, ['force'], 'not with --base: every base has a name of its own')
  const [keep, loseAtMost] = [duration(options, 'keep'), duration(options, 'lose-at-most')]
  const programs = text(options, 'pg-bin')
  const { backupBase } = await import('../../engine/tools/archive/archive.ts')
  const url = urlOf({ url: text(options, 'url') })
  const report = await backupBase(url, args[0]!, hostOf(engine), {
    ...(keep !== undefined && { keepMs: positiveMs(keep, '--keep') }),
    ...(loseAtMost !== undefined && { loseAtMostMs: positiveMs(loseAtMost, '--lose-at-most') }),
    ...(programs !== undefined && { programs }),
  })
  output.result(report, () => {
    output.line(
      `${report.place}: base ${report.base}, from which a restore reaches ${momentOf(report.moment)} and later`,
    )
  })
  for (const name of report.removed) output.note(`removed base ${name}`)
  return exit.ok
}

const momentOf = (moment: number): string => new Date(moment).toISOString()

/** Into a new data directory of a PostgreSQL server. */
async function restoreServer({ args, output, options }: Invocation): Promise<number> {
  refuseOptions(
    options,
    ['into', 'namespace', 'blobs', 'keys'],
    'an archive is restored as a whole server, with --data',
  )
  const { restoreArchive } = await import('../../engine/tools/archive/archive.ts')
  const [at, programs] = [text(options, 'at'), text(options, 'pg-bin')]
  const data = text(options, 'data')!
  const report = await restoreArchive(args[0]!, data, {
    ...(at !== undefined && { at: toTime(at, '--at') }),
    ...(programs !== undefined && { programs }),
    copy: flag(options, 'copy'),
  })
  output.result(report, () => {
    const { moment, stores } = report
    output.line(`restored ${count(stores, 'store')} to ${data} as of ${momentOf(moment)}, in ${ms(report.ms)}`)
    output.line(`start it with pg_ctl -D ${data} start; it archives nothing yet: reprise backup --plan NEW_PLACE`)
  })
  if (report.isLater) output.note(`${at} is after the end of the archive: the newest commit was restored`)
  return exit.ok
}

/** A backup into an empty store, or a shipped copy into a new file. After an interruption, the same command resumes. */
export const restore: Command = async (invocation) => {
  const { args, output, options } = invocation
  if (text(options, 'data') !== undefined) return await restoreServer(invocation)
  refuseOptions(options, ['pg-bin'], 'only with --data')
  const { engine } = invocation
  if (await isShipped(args[0]!)) return await restoreFromShipped(invocation)
  if (text(options, 'at') !== undefined)
    throw new UsageError('--at applies to shipped records only: a backup has only one moment')
  const report = await engine.restore(args[0]!, {
    ...(options.copy === true && { copy: true }),
    onProgress: progressNotes(output),
  })
  output.result(report, () => {
    const earlier = report.before > 0 ? `, ${report.before} by an earlier attempt` : ''
    output.line(`restored ${count(report.timelines, 'timeline')}${earlier}`)
  })
  for (const { timeline, why } of report.leftOut) output.note(`not in the backup: ${timeline}: ${why}`)
  return exit.ok
}

/** A folder, or a prefix with records. Other problems are reported by the restore itself. */
async function isShipped(place: string): Promise<boolean> {
  if (!isObjectStore(place)) return statSync(place, { throwIfNoEntry: false })?.isDirectory() ?? false
  const { isShipPlace } = await import('../../engine/tools/shipping/ship.ts')
  return await isShipPlace(place)
}

async function restoreFromShipped({ args, output, options }: Invocation): Promise<number> {
  const { restoreShipped } = await import('../../engine/tools/shipping/ship.ts')
  refuseOptions(
    options,
    ['namespace', 'blobs'],
    'shipped records are restored with all namespaces, without chunks that are elsewhere',
  )
  const into = text(options, 'into') ?? urlOf({ url: text(options, 'url') })
  const keys = keysOf({ keys: text(options, 'keys') })
  const given = text(options, 'at')
  const bar = new ByteBar('restore', 0)
  const report = await restoreShipped(args[0]!, into, {
    ...(keys && { keys }),
    ...(given !== undefined && { at: pointOf(given) }),
    copy: flag(options, 'copy'),
    onProgress: ({ bytes, bytesAll }) => bar.at(bytes, bytesAll),
  }).finally(() => bar.end())
  output.result(report, () => {
    const at = new Date(report.at).toISOString()
    output.line(`restored ${report.file} as of ${at}, position ${report.position}, in ${ms(report.ms)}`)
  })
  for (const { base, why } of report.skipped) output.note(`base ${base} could not be used: ${why}`)
  if (report.isLater) output.note(`${given} is after the last record (${report.record}): the newest state was restored`)
  if (report.lost === null) return exit.ok
  const { from, to, why } = report.lost
  output.note(`lost: ${from === to ? `record ${from}` : `records ${from} to ${to}`}, since ${why}`)
  return exit.partly
}

/** 2026-01-31T12:00:00Z, a position in the feed, or #12 for a record. */
function pointOf(given: string): ShipPoint {
  if (/^\d+$/.test(given)) return { position: Number(given) }
  if (/^#\d+$/.test(given)) return { record: Number(given.slice(1)) }
  const time = Date.parse(given)
  if (!Number.isNaN(time)) return { time }
  throw new RepriseError('INVALID_ARGUMENT', '--at must be a time (2026-01-31T12:00:00Z), a position or #RECORD', {})
}

function progressNotes(output: Output) {
  let notedAt = Date.now()
  return ({ timeline, timelines }: { readonly timeline: string; readonly timelines: number }): void => {
    if (Date.now() - notedAt < noteEveryMs) return
    notedAt = Date.now()
    output.note(`${count(timelines, 'timeline')}, at ${timeline}`)
  }
}
