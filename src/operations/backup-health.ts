// Judges how a store is protected against its loss as a whole, with the alarms: never backed up, last backup older than
// stated, last drill failed.

import { formatMs } from '../core/duration.ts'
import type { LogArchive } from '../core/store/store-facts.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { soundPage } from '../engine/storage/sound-page.ts'
import { type CopyKind, copyKinds, type ProtectionNotes, protectionNotes } from '../engine/tools/drill/backup-notes.ts'
import { relative } from './figures-as-text.ts'
import { type Check, drillEveryMs } from './health.ts'
import { shippingOf } from './shipping.ts'

/** A store that is younger than this needs no backup yet. */
const newMs = 86_400_000
const timelinesLookedAt = 100

export interface Protection extends ProtectionNotes {
  /** When the first timeline of the store was created; null: it has none. */
  readonly createdAt: number | null
  /** The store is shipped. */
  readonly isShipped: boolean
  /** Only of PostgreSQL: the archive of the server's log. */
  readonly server: LogArchive | null
}

export async function protectionOf(engine: Reprise): Promise<Protection> {
  const { kernel } = hostOf(engine)
  const notes = await protectionNotes(kernel)
  const { archive: server = null } = await engine.facts()
  return { ...notes, createdAt: await firstAt(engine), isShipped: (await shippingOf(engine)) !== null, server }
}

/** Among the first timelines by name. */
async function firstAt(engine: Reprise): Promise<number | null> {
  const { kernel } = hostOf(engine)
  const heads = await soundPage(kernel, { limit: timelinesLookedAt }, () => undefined)
  return heads.length === 0 ? null : Math.min(...heads.map((head) => head.createdAt))
}

/** Nothing to protect: the store ends with the process. */
export async function protectionChecks(engine: Reprise, now: number): Promise<Check[]> {
  if ((await engine.facts()).kind === 'memory') return []
  return protectionHealth(await protectionOf(engine), now)
}

export function protectionHealth(protection: Protection, now: number): Check[] {
  return [...backupHealth(protection, now), ...archiveHealth(protection, now), ...copyDrillsHealth(protection, now)]
}

function backupHealth({ backup, createdAt, isShipped, archive }: Protection, now: number): Check[] {
  const name = 'backups'
  if (!backup) {
    if (isShipped || archive || createdAt === null || now - createdAt < newMs) return []
    const cure = 'run reprise backup FILE on a schedule, or reprise ship PLACE beside the application'
    const what = `never backed up; the store was created ${relative(createdAt, now)}`
    return [{ name, state: 'warning', what, cure }]
  }
  const { file, loseAtMostMs } = backup
  const asOf = backup.moment ?? backup.at
  const last = `${file}, as of ${relative(asOf, now)}`
  if (loseAtMostMs === null) return [{ name, state: 'ok', what: last }]
  const bound = `at most ${formatMs(loseAtMostMs)} may be lost`
  if (now - asOf <= loseAtMostMs) return [{ name, state: 'ok', what: `${last}; ${bound}` }]
  const cure =
    'run reprise backup again, on a schedule that is shorter than the bound; --lose-at-most changes the bound'
  return [{ name, state: 'bad', what: `the last one is too old: ${last}, and ${bound}`, cure }]
}

/** A server may be archived by other tools: then its archiver alone is judged. */
function archiveHealth({ archive, server }: Protection, now: number): Check[] {
  if (!server) return []
  const name = 'archive'
  const { mode, command, archivedAt, failedAt } = server
  const isOff = mode === 'off' || command === '' || command === '(disabled)'
  if (isOff && !archive) return []
  const cure = `run reprise backup --plan ${archive?.place ?? 'PLACE'}: it prints the settings of the server`
  const last = archivedAt === null ? 'nothing was archived yet' : `last archived ${relative(archivedAt, now)}`
  if (isOff) return [{ name, state: 'bad', what: `the server does not archive its log any more; ${last}`, cure }]
  if (failedAt !== null && failedAt > (archivedAt ?? 0)) {
    const what = `archive_command fails, the last time ${relative(failedAt, now)}; ${last}. The server keeps its log until its disk is full`
    return [{ name, state: 'bad', what, cure }]
  }
  const base = archive ? `; base of ${relative(archive.moment, now)} at ${archive.place}` : ''
  const { loseAtMostMs = null } = archive ?? {}
  if (loseAtMostMs !== null && (server.timeoutMs === 0 || server.timeoutMs > loseAtMostMs)) {
    const what = `${last}${base}; at most ${formatMs(loseAtMostMs)} may be lost, and archive_timeout is ${server.timeoutMs === 0 ? 'off' : formatMs(server.timeoutMs)}`
    return [{ name, state: 'bad', what, cure }]
  }
  return [{ name, state: 'ok', what: `${last}${base}` }]
}

const commands: Readonly<Record<CopyKind, string>> = {
  backup: 'reprise drill --backup FILE',
  shipped: 'reprise drill --shipped PLACE',
  archive: 'reprise drill --archive PLACE',
}

function copyDrillsHealth({ backup, archive, drills }: Protection, now: number): Check[] {
  const checks = copyKinds.flatMap((kind): Check[] => {
    const drill = drills[kind]
    if (!drill || drill.ok) return []
    const what = `the last one (${relative(drill.at, now)}): ${drill.what}`
    return [{ name: 'drills', state: 'bad', what, cure: `make a new copy, and repeat ${commands[kind]}` }]
  })
  const kind = backup || !archive ? 'backup' : 'archive'
  const drilledAt = drills[kind]?.at ?? backup?.since ?? archive?.since ?? now
  if (now - drilledAt <= drillEveryMs) return checks
  const what = 'backups were not drilled for 30 days'
  return [...checks, { name: 'drills', state: 'warning', what, cure: commands[kind] }]
}
