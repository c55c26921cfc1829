// Judges how a store is protected against its loss as a whole, with the alarms: never backed up, last backup older than
// stated, last drill failed.

import { formatMs } from '../core/duration.ts'
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
}

export async function protectionOf(engine: Reprise): Promise<Protection> {
  const { kernel } = hostOf(engine)
  const notes = await protectionNotes(kernel)
  return { ...notes, createdAt: await firstAt(engine), isShipped: (await shippingOf(engine)) !== null }
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
  return [...backupHealth(protection, now), ...copyDrillsHealth(protection, now)]
}

function backupHealth({ backup, createdAt, isShipped }: Protection, now: number): Check[] {
  const name = 'backups'
  if (!backup) {
    if (isShipped || createdAt === null || now - createdAt < newMs) return []
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

const commands: Readonly<Record<CopyKind, string>> = {
  backup: 'reprise drill --backup FILE',
  shipped: 'reprise drill --shipped PLACE',
}

function copyDrillsHealth({ backup, drills }: Protection, now: number): Check[] {
  const checks = copyKinds.flatMap((kind): Check[] => {
    const drill = drills[kind]
    if (!drill || drill.ok) return []
    const what = `the last one (${relative(drill.at, now)}): ${drill.what}`
    return [{ name: 'drills', state: 'bad', what, cure: `make a new copy, and repeat ${commands[kind]}` }]
  })
  const drilledAt = drills.backup?.at ?? backup?.since ?? now
  if (now - drilledAt <= drillEveryMs) return checks
  const what = 'backups were not drilled for 30 days'
  return [...checks, { name: 'drills', state: 'warning', what, cure: commands.backup }]
}
