// The plan of `reprise backup --plan`: the steps that protect this kind of store against its loss, and which of them are done.

import { formatMs } from '../core/duration.ts'
import { RepriseError } from '../core/errors.ts'
import type { LogArchive } from '../core/store/store-facts.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { type Protection, protectionOf } from './backup-health.ts'
import { relative } from './figures-as-text.ts'

export interface PlanStep {
  readonly name: string
  readonly isDone: boolean
  /** The present state. */
  readonly what: string
  /** SQL for the server, or a command for the shell; null: nothing to do. */
  readonly run: string | null
}

export interface BackupPlan {
  readonly kind: string
  readonly place: string
  readonly isDone: boolean
  readonly steps: readonly PlanStep[]
}

export interface PlanOptions {
  /** An absolute folder for PostgreSQL; a folder or s3://bucket/prefix for SQLite. */
  readonly place: string
  readonly loseAtMostMs?: number
}

const defaultLossMs = 60_000

/** @example const { steps } = await backupPlan(engine, { place: '/backup/app' }) */
export async function backupPlan(engine: Reprise, { place, loseAtMostMs }: PlanOptions): Promise<BackupPlan> {
  const { kind, archive } = await engine.facts()
  const protection = await protectionOf(engine)
  const now = hostOf(engine).now()
  const steps = archive
    ? [...serverSteps(archive, place, loseAtMostMs ?? defaultLossMs), ...archiveSteps(protection, place, now)]
    : fileSteps(kind, protection, place, now)
  return { kind, place, isDone: steps.every(({ isDone }) => isDone), steps }
}

/**
 * Copies a segment of the log: a copy that was killed is repeated, an identical one counts as done, and a different one is never
 * overwritten. The segment gets its name once it is on the disk.
 */
export function archiveCommand(place: string): string {
  if (!/^\/[\w./@:+ -]*$/.test(place)) {
    const what = `the place of an archive must be an absolute path of letters, digits and ./@:+_- (got ${place})`
    throw new RepriseError('INVALID_ARGUMENT', what, { place })
  }
  const file = `"${place}/wal/%f"`
  const part = `"${place}/wal/%f.part"`
  const copy = `test ! -e ${file} && cp "%p" ${part} && sync ${part} && mv ${part} ${file} && sync "${place}/wal"`
  return `test -e ${file} && cmp -s "%p" ${file} || { ${copy}; }`
}

/** Settings of the server. Those that need a restart come first. */
function serverSteps(server: LogArchive, place: string, loseAtMostMs: number): PlanStep[] {
  const { walLevel, walSendersMax, mode, command, timeoutMs, user, mayReplicate } = server
  const wanted = archiveCommand(place)
  const restart = 'restart the server'
  const set = (name: string, value: string, then: string): string =>
    `ALTER SYSTEM SET ${name} = '${value.replaceAll("'", "''")}'; -- then ${then}`
  const reload = 'SELECT pg_reload_conf();'
  const step = (name: string, isDone: boolean, what: string, run: string): PlanStep => ({
    ...{ name, isDone, what },
    run: isDone ? null : run,
  })
  const timeoutS = Math.max(1, Math.floor(loseAtMostMs / 1000))
  const isPrompt = timeoutMs > 0 && timeoutMs <= loseAtMostMs
  const shownTimeout = timeoutMs === 0 ? 'none' : formatMs(timeoutMs)
  const shownCommand = command === '' || command === '(disabled)' ? 'none' : command
  return [
    step('wal_level', walLevel !== 'minimal', walLevel, set('wal_level', 'replica', restart)),
    step('max_wal_senders', walSendersMax >= 2, String(walSendersMax), set('max_wal_senders', '10', restart)),
    step('archive_mode', mode !== 'off', mode, set('archive_mode', 'on', restart)),
    step('archive_command', command === wanted, shownCommand, set('archive_command', wanted, reload)),
    step('archive_timeout', isPrompt, shownTimeout, set('archive_timeout', `${timeoutS}s`, reload)),
    step(
      'role',
      mayReplicate,
      `${user} ${mayReplicate ? 'may' : 'may not'} copy the server`,
      `ALTER ROLE "${user}" REPLICATION;`,
    ),
  ]
}

function archiveSteps({ archive, drills }: Protection, place: string, now: number): PlanStep[] {
  const base = archive?.place === place ? archive : null
  const drill = drills.archive?.of === place && drills.archive.ok ? drills.archive : null
  const [takeBase, tryIt] = [`reprise backup ${place} --base`, `reprise drill --archive ${place}`]
  return [
    made('base backup', base && `the newest is of ${relative(base.moment, now)}`, `${takeBase} --keep 7d`),
    made('drill', drill && `the last one was ${relative(drill.at, now)}`, tryIt),
  ]
}

function fileSteps(kind: string, { backup, isShipped, drills }: Protection, place: string, now: number): PlanStep[] {
  if (kind === 'memory') throw new RepriseError('STORE_UNSUPPORTED', 'a store in memory has no backups', {})
  const isFile = kind === 'sqlite'
  const shipping = made('shipping', isShipped && 'the store is shipped', `reprise ship ${place}`)
  const file = `${place}/app.rpb`
  const copy = made(
    'backup',
    backup && `the newest is of ${relative(backup.moment ?? backup.at, now)}`,
    `reprise backup ${file}`,
  )
  const drilled = [drills.shipped, drills.backup].find((drill) => drill?.ok)
  const tryIt = isFile ? `reprise drill --shipped ${place}` : `reprise drill --backup ${file}`
  const drill = made('drill', drilled && `the last one was ${relative(drilled.at, now)}`, tryIt)
  // A shipped store needs no other copy, and the reverse holds for sets of stores.
  return isFile ? [shipping, drill] : [copy, drill]
}

function made(name: string, what: string | false | null | undefined, run: string): PlanStep {
  return what ? { name, isDone: true, what, run: null } : { name, isDone: false, what: 'none', run }
}
