// Notes on backups and drills, stored in the store itself (attributes of `reprise/store`): its last backup with
// the stated bound of loss, and the last drill of each kind of copy. For the doctor, for metrics and for alerts. A note is
// advisory: a store that cannot be written has none, and no operation fails because of it.

import { timelineId } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { changeNotes } from '../../storage/key-notes.ts'

const storeTimeline = 'reprise/store'
const backupAttribute = '$backup'
const archiveAttribute = '$archive'
const drillAttribute = '$drill:'

export interface BackupNote {
  /** When the backup was complete. */
  readonly at: number
  /** The time of the data in it; null: each timeline has its own, before `at`. */
  readonly moment: number | null
  readonly file: string
  readonly bytes: number
  readonly timelines: number
  /** The stated bound: an older backup is an alarm. Null: no bound was declared. */
  readonly loseAtMostMs: number | null
  /** When the first backup of this store was complete. */
  readonly since: number
}

/** The last base backup of a PostgreSQL server, to which archived log is added. */
export interface ArchiveNote {
  readonly at: number
  readonly place: string
  /** When the base was complete. */
  readonly moment: number
  /** The stated bound: log that is not archived for longer is an alarm. Null: none was stated. */
  readonly loseAtMostMs: number | null
  /** When the first base of this store was complete. */
  readonly since: number
}

/** The kinds of copies that a drill restores: a backup file, shipped records, an archive of PostgreSQL. */
export const copyKinds = ['backup', 'shipped', 'archive'] as const
export type CopyKind = (typeof copyKinds)[number]

export interface DrillNote {
  readonly at: number
  readonly ok: boolean
  /** The file or place that was restored. */
  readonly of: string
  readonly rpoMs: number | null
  readonly rtoMs: number
  /** The reason of a failure, or the measurements, as text. */
  readonly what: string
}

export interface ProtectionNotes {
  readonly backup: BackupNote | null
  readonly archive: ArchiveNote | null
  readonly drills: Readonly<Partial<Record<CopyKind, DrillNote>>>
}

export async function protectionNotes({ store }: Pick<Kernel, 'store'>): Promise<ProtectionNotes> {
  const [head] = await store.head([timelineId(storeTimeline)])
  const attributes = head?.attributes ?? {}
  const drills: Partial<Record<CopyKind, DrillNote>> = {}
  for (const kind of copyKinds) {
    const note = parsed<DrillNote>(attributes[drillAttribute + kind])
    if (note) drills[kind] = note
  }
  const archive = parsed<ArchiveNote>(attributes[archiveAttribute])
  return { backup: parsed<BackupNote>(attributes[backupAttribute]), archive, drills }
}

/** A bound that was stated earlier stays, unless this backup states another. */
export async function noteBackup(
  kernel: Kernel,
  made: Pick<BackupNote, 'moment' | 'file' | 'bytes' | 'timelines'> & { readonly loseAtMostMs?: number },
): Promise<void> {
  const { backup: before } = await protectionNotes(kernel)
  const at = kernel.clock.now()
  const loseAtMostMs = made.loseAtMostMs ?? before?.loseAtMostMs ?? null
  const note: BackupNote = { ...made, at, loseAtMostMs, since: before?.since ?? at }
  await noteIn(kernel, { [backupAttribute]: JSON.stringify(note) })
}

/** A bound that was stated earlier stays. */
export async function noteArchive(
  kernel: Kernel,
  made: Pick<ArchiveNote, 'place' | 'moment'> & { readonly loseAtMostMs?: number },
): Promise<void> {
  const { archive: before } = await protectionNotes(kernel)
  const loseAtMostMs = made.loseAtMostMs ?? before?.loseAtMostMs ?? null
  const at = kernel.clock.now()
  const note: ArchiveNote = { ...made, at, loseAtMostMs, since: before?.since ?? at }
  await noteIn(kernel, { [archiveAttribute]: JSON.stringify(note) })
}

export async function noteDrill(kernel: Kernel, kind: CopyKind, note: Omit<DrillNote, 'at'>): Promise<void> {
  await noteIn(kernel, { [drillAttribute + kind]: JSON.stringify({ ...note, at: kernel.clock.now() }) })
}

async function noteIn(kernel: Kernel, attributes: Readonly<Record<string, string>>): Promise<void> {
  try {
    if (!(await kernel.store.upkeep.facts()).isReadOnly) await changeNotes(kernel, attributes)
  } catch (error) {
    if (!isReprise(error)) throw error
    kernel.events.emit('report', { kind: 'note-failed', timeline: null, what: error.message })
  }
}

/** Unreadable text is treated as no note. */
function parsed<Note>(text: unknown): Note | null {
  if (typeof text !== 'string') return null
  try {
    return JSON.parse(text) as Note
  } catch {
    return null
  }
}
