// The drill of a copy of the whole store: the copy is restored to a separate place, verified, compared with the store, and
// measured. RPO: the work that would be lost with the store now. RTO: the time until the store is back. The outcome is recorded
// in the store, so that a failed drill stays an alarm until one succeeds.

import { chmod } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type Coordinate, toHex } from '../core/coordinate.ts'
import { formatMs } from '../core/duration.ts'
import { isReprise, RepriseError } from '../core/errors.ts'
import { open } from '../engine/api/open.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { locate } from '../engine/history/locate.ts'
import { hostOf } from '../engine/host/host.ts'
import { isOfStore } from '../engine/model/id-prefixes.ts'
import type { Kernel } from '../engine/storage/kernel.ts'
import { aside } from '../engine/storage/object-file.ts'
import { openServerArchive } from '../engine/storage/open-store.ts'
import type { KeyRing } from '../engine/storage/seal/seal.ts'
import { headsOf } from '../engine/storage/sound-page.ts'
import { type CopyKind, noteDrill } from '../engine/tools/drill/backup-notes.ts'
import type { ShippedRestore } from '../engine/tools/shipping/restore.ts'
import { restoreShipped } from '../engine/tools/shipping/ship.ts'
import { feedEnd, positionNumber } from './feed-end.ts'

export interface CopyDrill {
  readonly ok: boolean
  /** The file or place that was restored. */
  readonly place: string
  /** RPO: the maximum age of the data that would be lost. 0: nothing would be lost; null: unknown. */
  readonly rpoMs: number | null
  /** RTO: restore and verify. */
  readonly rtoMs: number
  readonly restoreMs: number
  readonly verifyMs: number
  readonly timelines: number
  readonly entries: number
  /** The reasons for a failure. */
  readonly faults: readonly string[]
}

export interface BackupDrill extends CopyDrill {
  /** The time of the data in the backup; null: each timeline has its own. */
  readonly moment: number | null
  /** Entries of the store that the backup lacks, and the number of whole timelines among them. */
  readonly entriesLost: number
  readonly timelinesLost: number
}

export interface ShippedDrill extends CopyDrill {
  readonly rpoMs: number
  readonly record: number
  /** Positions of the feed that would be lost. */
  readonly positionsBehind: number
  readonly lost: ShippedRestore['lost']
  readonly skipped: ShippedRestore['skipped']
}

export interface ArchiveDrill extends CopyDrill {
  /** The last commit that was restored. */
  readonly moment: number
  readonly base: string
  readonly entriesLost: number
  readonly timelinesLost: number
}

export interface CopyDrillOptions {
  readonly keys?: KeyRing
}

/** @example const { ok, rpoMs, rtoMs } = await drillBackup(engine, 'store.rpb') */
export async function drillBackup(engine: Reprise, file: string, options: CopyDrillOptions = {}): Promise<BackupDrill> {
  return await noted(engine, 'backup', file, () =>
    aside(async (path) => {
      const requestedAt = Date.now()
      const { kernel } = hostOf(engine)
      const { namespace } = kernel
      // 1. Restore into an empty store.
      const startedAt = performance.now()
      const copy = await openCopy(`sqlite:${path}`, { ...options, namespace })
      try {
        const { moment, leftOut } = await copy.restore(file)
        const restoreMs = performance.now() - startedAt
        // 2. Verify everything, and compare it with the store.
        const verified = await verifyCopy(engine, copy, moment)
        const excluded = new Set(leftOut.map(({ timeline }) => timeline))
        const { entriesLost, timelinesLost } = await lossOf(engine, copy, excluded)
        const rpoMs = entriesLost === 0 ? 0 : moment === null ? null : Math.max(0, requestedAt - moment)
        const { verifyMs, ...rest } = verified
        const measured = { rpoMs, restoreMs, verifyMs, rtoMs: restoreMs + verifyMs, entriesLost, timelinesLost, moment }
        return { ok: rest.faults.length === 0, place: file, ...measured, ...rest }
      } finally {
        await copy.close()
      }
    }),
  )
}

/** @example const { ok, rpoMs, rtoMs } = await drillShipped(engine, 's3://backups/app') */
export async function drillShipped(
  engine: Reprise,
  place: string,
  options: CopyDrillOptions = {},
): Promise<ShippedDrill> {
  return await noted(engine, 'shipped', place, async () => {
    // 1. Read the position acknowledged so far.
    const requestedAt = Date.now()
    const end = positionNumber(await feedEnd(engine))
    return await aside(async (path) => {
      // 2. Restore into an empty folder.
      const url = `sqlite:${path}`
      const restored = await restoreShipped(place, url, options)
      const copy = await openCopy(url, options)
      try {
        // 3. Verify everything, and compare it with the original store.
        const { verifyMs, ...rest } = await verifyCopy(engine, copy, restored.at)
        const positionsBehind = Math.max(0, end - restored.position)
        const { record, lost, skipped } = restored
        const ok = rest.faults.length === 0 && lost === null && skipped.length === 0
        const rpoMs = positionsBehind === 0 ? 0 : Math.max(0, requestedAt - restored.at)
        const measured = { rpoMs, restoreMs: restored.ms, verifyMs, rtoMs: restored.ms + verifyMs, positionsBehind }
        return { ok, place, record, ...measured, ...rest, lost, skipped }
      } finally {
        await copy.close()
      }
    })
  })
}

/** The server is restored as a whole, without network. @example await drillArchive(engine, '/backup/pg') */
export async function drillArchive(
  engine: Reprise,
  place: string,
  { programs, ...options }: CopyDrillOptions & { readonly programs?: string } = {},
): Promise<ArchiveDrill> {
  return await noted(engine, 'archive', place, () =>
    aside(async (path) => {
      const requestedAt = Date.now()
      const { kernel } = hostOf(engine)
      const { archive, location } = await engine.facts()
      if (!archive)
        throw new RepriseError('STORE_UNSUPPORTED', 'only PostgreSQL servers have an archive of their log', {})
      // 1. Recover the server into a temporary folder. The account of its programs enters that folder.
      await chmod(dirname(path), 0o711)
      const startedAt = performance.now()
      const { recoverServer } = await openServerArchive()
      const server = await recoverServer(place, path, programs === undefined ? {} : { programs })
      try {
        const schema = /[?&]schema=([^&]*)/.exec(location)?.[1] ?? 'reprise'
        const copy = await openCopy(server.urlOf(archive.database, schema), { ...options, namespace: kernel.namespace })
        try {
          const restoreMs = performance.now() - startedAt
          // 2. Verify everything, and compare it with the store.
          const moment = server.lastCommitAt ?? server.base.endedAt
          const { verifyMs, ...rest } = await verifyCopy(engine, copy, moment)
          const { entriesLost, timelinesLost } = await lossOf(engine, copy, new Set())
          const rpoMs = entriesLost === 0 ? 0 : Math.max(0, requestedAt - moment)
          const measured = {
            rpoMs,
            restoreMs,
            verifyMs,
            rtoMs: restoreMs + verifyMs,
            entriesLost,
            timelinesLost,
            moment,
          }
          return { ok: rest.faults.length === 0, place, base: server.base.name, ...measured, ...rest }
        } finally {
          await copy.close()
        }
      } finally {
        await server.end('drop')
      }
    }),
  )
}

type CopyOptions = CopyDrillOptions & { readonly namespace?: string }

/** Nothing but the drill works on the copy. */
async function openCopy(url: string, options: CopyOptions): Promise<Reprise> {
  return await open(url, { housekeeping: false, log: false, mirror: false, ...options })
}

/** Reads all of the copy against its digests, and compares it with the store. */
export async function verifyCopy(engine: Reprise, copy: Reprise, moment: number | null = null) {
  const startedAt = performance.now()
  const { timelines, entries, faults: found } = await copy.verify()
  const verifyMs = performance.now() - startedAt
  const faults = found.map(({ timeline, what }) => `${timeline ?? 'store'}: ${what}`)
  faults.push(...(await differences(engine, copy, moment)))
  return { verifyMs, timelines, entries, faults }
}

/** The history of the copy must be a part of that of the store, or of a branch that was rolled back since. */
async function differences(engine: Reprise, copy: Reprise, moment: number | null): Promise<string[]> {
  const { kernel } = hostOf(engine)
  const { kernel: copied } = hostOf(copy)
  const found: string[] = []
  for await (const head of headsOf(copied)) {
    const { timeline, seq, epoch, digest } = head
    const [own] = await kernel.store.head([timeline])
    // Deleted, begun again or trimmed since: there is nothing left to compare with.
    if (!own || isOfStore(timeline) || seq < own.floor || (moment !== null && own.createdAt > moment)) continue
    const where = { timeline, seq, epoch, digest: toHex(digest) }
    const isPart = own.seq === seq && toHex(own.digest) === where.digest
    if (isPart || (await isIn(kernel, where))) continue
    found.push(`${timeline}: its history up to entry ${seq} differs from that of the store`)
  }
  return found
}

async function isIn(kernel: Kernel, where: Coordinate): Promise<boolean> {
  try {
    await locate(kernel, where)
    return true
  } catch (error) {
    if (!isReprise(error, 'NOT_ON_BRANCH', 'OUT_OF_RANGE')) throw error
    return false
  }
}

/** The entries that the store has and the copy lacks. */
async function lossOf(engine: Reprise, copy: Reprise, excluded: ReadonlySet<string>) {
  const { kernel } = hostOf(engine)
  const { kernel: copied } = hostOf(copy)
  let entriesLost = 0
  let timelinesLost = 0
  for await (const head of headsOf(kernel)) {
    if (isOfStore(head.timeline) || excluded.has(head.timeline)) continue
    const [there] = await copied.store.head([head.timeline])
    if (!there) timelinesLost += 1
    entriesLost += Math.max(0, head.seq - (there?.seq ?? head.floor))
  }
  return { entriesLost, timelinesLost }
}

/** A drill that ends with an error has failed as well. */
export async function noted<Drill extends CopyDrill>(
  engine: Reprise,
  kind: CopyKind,
  of: string,
  work: () => Promise<Drill>,
): Promise<Drill> {
  const { kernel, events } = hostOf(engine)
  const startedAt = performance.now()
  try {
    const drill = await work()
    const { ok, rpoMs, rtoMs, faults } = drill
    const lost = rpoMs === null ? 'an unknown amount of work' : formatMs(Math.round(rpoMs))
    const what = ok
      ? `restored to a separate place from ${of} in ${formatMs(Math.round(rtoMs))}; ${lost} would be lost`
      : `the test restore from ${of} failed: ${faults[0] ?? 'some of its records are damaged'}`
    events.emit('report', { kind: 'drill', timeline: null, what, data: drill })
    await noteDrill(kernel, kind, { ok, of, rpoMs, rtoMs, what })
    return drill
  } catch (error) {
    // A mistake of the caller is not a drill.
    if (isReprise(error, 'ABORTED', 'INVALID_ARGUMENT', 'KEY_MISSING')) throw error
    const what = `the test restore from ${of} failed: ${error instanceof Error ? error.message : String(error)}`
    events.emit('report', { kind: 'drill', timeline: null, what })
    await noteDrill(kernel, kind, { ok: false, of, rpoMs: null, rtoMs: performance.now() - startedAt, what })
    throw error
  }
}
