// Point-in-time recovery of a PostgreSQL server by its own programs: base backups, and restores to any moment that its archived
// log contains. A restored server went back: every store in it begins a new incarnation, and its old owners are gone.

import { RepriseError } from '../../../core/errors.ts'
import type { LogArchive } from '../../../core/store/store-facts.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { openServerArchive } from '../../storage/open-store.ts'
import { noteArchive } from '../drill/backup-notes.ts'
import { freeOwned } from '../shipping/ship.ts'

export interface BaseBackupOptions {
  /** Bases older than this are removed. Default: all are kept. */
  readonly keepMs?: number
  readonly loseAtMostMs?: number
  /** The folder of PostgreSQL's programs. Default: the usual folders. */
  readonly programs?: string
}

export interface BaseBackup {
  readonly place: string
  readonly base: string
  readonly moment: number
  readonly segment: string
  readonly removed: readonly string[]
}

/** Copies the server of this store to the place of its archive. */
export async function backupBase(
  url: string,
  place: string,
  { kernel }: { readonly kernel: Kernel },
  { keepMs, loseAtMostMs, programs }: BaseBackupOptions,
): Promise<BaseBackup> {
  const { archive: server } = await kernel.store.upkeep.facts()
  if (!server) {
    const what = 'a base is a copy of a PostgreSQL server: use reprise ship, or reprise backup FILE'
    throw new RepriseError('STORE_UNSUPPORTED', what, {})
  }
  refuseUnarchived(server, place)
  const { takeBase } = await openServerArchive()
  const now = () => kernel.clock.now()
  const base = await takeBase(url, place, {
    server,
    now,
    ...(keepMs !== undefined && { keepMs }),
    ...(programs !== undefined && { programs }),
  })
  await noteArchive(kernel, { place: base.place, moment: base.endedAt, ...(loseAtMostMs && { loseAtMostMs }) })
  const { endedAt: moment, segment, removed } = base
  return { place: base.place, base: base.name, moment, segment, removed }
}

/** A base without the log contains one moment only. */
function refuseUnarchived({ mode, command, mayReplicate, user }: LogArchive, place: string): void {
  const hint = `reprise backup --plan ${place} prints the settings`
  if (mode === 'off' || command === '' || command === '(disabled)') {
    const what = 'the server archives no log: archive_mode is off, or archive_command is empty'
    throw new RepriseError('STORE_UNSUPPORTED', what, { mode }, undefined, hint)
  }
  if (mayReplicate) return
  throw new RepriseError('STORE_UNSUPPORTED', `${user} may not take a base backup`, { user }, undefined, hint)
}

export interface ArchiveRestoreOptions {
  /** Default: the newest commit in the archive. */
  readonly at?: number
  /** The original stays in use: the restored stores get identities of their own. Default: false. */
  readonly copy?: boolean
  readonly programs?: string
}

export interface ArchiveRestore {
  /** The new data directory. */
  readonly data: string
  readonly base: string
  /** The last commit that was restored; without one since the base, the moment of the base. */
  readonly moment: number
  /** The archive ends before the requested time. */
  readonly isLater: boolean
  readonly stores: number
  readonly ms: number
}

/** A repeated call resumes an interrupted restore. */
export async function restoreArchive(
  place: string,
  data: string,
  { copy = false, ...options }: ArchiveRestoreOptions = {},
): Promise<ArchiveRestore> {
  const startedAt = performance.now()
  const { recoverServer } = await openServerArchive()
  const server = await recoverServer(place, data, options)
  const urls: string[] = []
  try {
    urls.push(...(await server.stores()))
    for (const url of urls) await freeOwned(url, copy)
  } catch (error) {
    // The next call resumes with the copied base.
    await server.end('leave')
    throw error
  }
  await server.end('keep')
  const { base, isLater } = server
  const moment = server.lastCommitAt ?? base.endedAt
  return { data, base: base.name, moment, isLater, stores: urls.length, ms: performance.now() - startedAt }
}
