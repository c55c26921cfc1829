// Backs up the whole store to one file, and restores it. After an interruption, the same command resumes.

import { existsSync, statSync } from 'node:fs'
import { RepriseError } from '../../core/errors.ts'
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
export const backup: Command = async ({ engine, args, options, output }) => {
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

/** A backup into an empty store, or a shipped copy into a new file. After an interruption, the same command resumes. */
export const restore: Command = async (invocation) => {
  const { engine, args, output, options } = invocation
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
