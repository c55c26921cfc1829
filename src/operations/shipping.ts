// The status of a store's shipping, and its drill: a restore from the shipped copy into a temporary folder, verified,
// compared with the store, and measured. RPO: the data that would be lost with the machine now. RTO: the time until the store
// is back.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { toHex } from '../core/coordinate.ts'
import { formatMs } from '../core/duration.ts'
import type { FeedPosition } from '../core/store/ports.ts'
import { open } from '../engine/api/open.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { fileOf } from '../engine/storage/open-store.ts'
import type { KeyRing } from '../engine/storage/seal/seal.ts'
import { headsOf } from '../engine/storage/sound-page.ts'
import type { ShippedRestore } from '../engine/tools/shipping/restore.ts'
import { restoreShipped } from '../engine/tools/shipping/ship.ts'
import { isShipping, readShipStatus, type ShipStatus } from '../engine/tools/shipping/status.ts'
import { feedEnd } from './feed-end.ts'
import type { Check } from './health.ts'
import { count, relative } from './words.ts'

export interface ShippedDrill {
  readonly ok: boolean
  readonly place: string
  readonly record: number
  /** RPO: the maximum age of the data that would be lost, and its positions in the feed. 0: nothing would be lost. */
  readonly rpoMs: number
  readonly positionsBehind: number
  /** RTO: restore and verify. */
  readonly rtoMs: number
  readonly restoreMs: number
  readonly verifyMs: number
  readonly timelines: number
  readonly entries: number
  readonly lost: ShippedRestore['lost']
  readonly skipped: ShippedRestore['skipped']
  /** The reasons for a failure. */
  readonly faults: readonly string[]
}

/** A shipper without a report for this long, or for this many of its rounds, counts as stalled. */
const silentMs = 60_000
const silentRounds = 20

/** @example const { ok, rpoMs, rtoMs } = await drillShipped(engine, 's3://backups/app') */
export async function drillShipped(
  engine: Reprise,
  place: string,
  { keys }: { readonly keys?: KeyRing } = {},
): Promise<ShippedDrill> {
  // 1. Read the position acknowledged so far.
  const requestedAt = Date.now()
  const end = numberOf(await feedEnd(engine))
  const folder = await mkdtemp(join(tmpdir(), 'reprise-drill-'))
  try {
    // 2. Restore into an empty folder.
    const url = `sqlite:${join(folder, 'drill.db')}`
    const restored = await restoreShipped(place, url, { ...(keys && { keys }) })
    const startedAt = performance.now()
    const copy = await open(url, { housekeeping: false, log: false, mirror: false, ...(keys && { keys }) })
    try {
      const verified = await copy.verify()
      const verifyMs = performance.now() - startedAt
      // 3. Compare the copy with the original store.
      const faults = verified.faults.map(({ timeline, what }) => `${timeline ?? 'store'}: ${what}`)
      faults.push(...(await differences(engine, copy)))
      const positionsBehind = Math.max(0, end - restored.position)
      const report: ShippedDrill = {
        ...{ ok: faults.length === 0 && restored.lost === null && restored.skipped.length === 0, place },
        ...{ record: restored.record, rpoMs: positionsBehind === 0 ? 0 : Math.max(0, requestedAt - restored.at) },
        ...{ positionsBehind, rtoMs: restored.ms + verifyMs, restoreMs: restored.ms, verifyMs },
        ...{ timelines: verified.timelines, entries: verified.entries },
        ...{ lost: restored.lost, skipped: restored.skipped, faults },
      }
      emitDrill(engine, report)
      return report
    } finally {
      await copy.close()
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Timelines at the same sequence must have equal digests. Others have advanced meanwhile. */
async function differences(engine: Reprise, copy: Reprise): Promise<string[]> {
  const { kernel } = hostOf(engine)
  const found: string[] = []
  for await (const head of headsOf(hostOf(copy).kernel)) {
    const [own] = await kernel.store.head([head.timeline])
    if (!own || own.seq !== head.seq || own.epoch !== head.epoch) continue
    if (toHex(own.digest) !== toHex(head.digest)) found.push(`${head.timeline}: its history differs from the store's`)
  }
  return found
}

function emitDrill(engine: Reprise, report: ShippedDrill): void {
  const { ok, place, rpoMs, rtoMs, positionsBehind, faults } = report
  const what = ok
    ? `restored to a separate place from ${place} in ${formatMs(Math.round(rtoMs))}; ${positionsBehind} positions (${formatMs(rpoMs)}) would be lost`
    : `the practice restore from ${place} failed: ${faults[0] ?? 'some shipped records are damaged'}`
  const { events } = hostOf(engine)
  events.emit('report', { kind: 'drill', timeline: null, what, data: report })
}

/** The status of this store's shipping; null: it is not shipped, as far as this machine knows. */
export async function shippingOf(engine: Reprise): Promise<(ShipStatus & { readonly behind: number }) | null> {
  const file = fileOf((await engine.facts()).location)
  const status = file === null ? null : readShipStatus(file)
  if (!status) return null
  const from = String(status.position).padStart(16, '0') as FeedPosition
  const end = await feedEnd(engine, from).catch(() => feedEnd(engine))
  return { ...status, behind: Math.max(0, numberOf(end) - status.position) }
}

export async function shippingHealth(engine: Reprise, now: number): Promise<Check[]> {
  const status = await shippingOf(engine)
  if (!status) return []
  const name = 'shipping'
  const { place, failing, safeAt, behind, endedAt, updatedAt, record } = status
  const safe = safeAt === null ? 'nothing is shipped yet' : `everything up to ${relative(safeAt, now)} is stored there`
  const cure = 'run reprise ship again, beside the application, under a supervisor'
  if (failing) {
    const state = now - failing.since > silentMs ? 'bad' : 'warning'
    const what = `${place} has accepted nothing since ${relative(failing.since, now)}: ${failing.error}; ${safe}`
    return [{ name, state, what, cure: 'fix the reported cause; nothing is lost, and shipping is retried' }]
  }
  if (endedAt !== null || !isShipping(status)) {
    const how = endedAt !== null ? `ended ${relative(endedAt, now)}` : 'its process is gone'
    if (behind === 0) return [{ name, state: 'warning', what: `to ${place}: ${how}; ${safe}`, cure }]
    return [{ name, state: 'bad', what: `to ${place}: ${how}, and is ${count(behind, 'position')} behind`, cure }]
  }
  if (now - updatedAt > Math.max(silentMs, silentRounds * status.intervalMs)) {
    return [{ name, state: 'bad', what: `to ${place}: no report since ${relative(updatedAt, now)}; ${safe}`, cure }]
  }
  return [{ name, state: 'ok', what: `to ${place}, record ${record}: ${safe}` }]
}

function numberOf(position: FeedPosition): number {
  return Number(position) || 0
}
