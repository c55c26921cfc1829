// The status of a store's shipping, for the doctor and for metrics.

import { formatMs } from '../core/duration.ts'
import type { FeedPosition } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { fileOf } from '../engine/storage/open-store.ts'
import { isShipping, readShipStatus, type ShipStatus } from '../engine/tools/shipping/status.ts'
import { feedEnd, positionNumber } from './feed-end.ts'
import { count, relative } from './figures-as-text.ts'
import type { Check } from './health.ts'

/** A shipper without a report for this long, or for this many of its rounds, is treated as stalled. */
const silentMs = 60_000
const silentRounds = 20

/** The status of this store's shipping; null: it is not shipped, as far as this machine knows. */
export async function shippingOf(engine: Reprise): Promise<(ShipStatus & { readonly behind: number }) | null> {
  const file = fileOf((await engine.facts()).location)
  const status = file === null ? null : readShipStatus(file)
  if (!status) return null
  const from = String(status.position).padStart(16, '0') as FeedPosition
  const end = await feedEnd(engine, from).catch(() => feedEnd(engine))
  return { ...status, behind: Math.max(0, positionNumber(end) - status.position) }
}

export async function shippingHealth(engine: Reprise, now: number): Promise<Check[]> {
  const status = await shippingOf(engine)
  if (!status) return []
  const name = 'shipping'
  const { place, failing, safeAt, behind, endedAt, updatedAt, record } = status
  const safe = safeAt === null ? 'nothing is shipped yet' : `everything up to ${relative(safeAt, now)} is stored there`
  const cure = 'run reprise ship again, beside the application, under a supervisor'
  const { loseAtMostMs = null } = status
  const lagMs = behind === 0 ? 0 : now - (safeAt ?? updatedAt)
  if (loseAtMostMs !== null && lagMs > loseAtMostMs) {
    const why = failing ? ` (${failing.error})` : ''
    const what = `to ${place}: ${count(behind, 'position')} of ${formatMs(lagMs)} are not shipped${why}, but at most ${formatMs(loseAtMostMs)} may be lost`
    return [{ name, state: 'bad', what, cure: failing ? 'fix the reported cause; shipping is retried' : cure }]
  }
  if (failing) {
    const state = now - failing.since > silentMs ? 'bad' : 'warning'
    const what = `${place} has accepted nothing since ${relative(failing.since, now)}: ${failing.error}; ${safe}`
    return [{ name, state, what, cure: 'fix the reported cause; nothing is lost, and shipping is retried' }]
  }
  if (endedAt !== null || !isShipping(status)) {
    const how = endedAt !== null ? `ended ${relative(endedAt, now)}` : 'its process no longer exists'
    if (behind === 0) return [{ name, state: 'warning', what: `to ${place}: ${how}; ${safe}`, cure }]
    return [{ name, state: 'bad', what: `to ${place}: ${how}, and is ${count(behind, 'position')} behind`, cure }]
  }
  if (now - updatedAt > Math.max(silentMs, silentRounds * status.intervalMs)) {
    return [{ name, state: 'bad', what: `to ${place}: no report since ${relative(updatedAt, now)}; ${safe}`, cure }]
  }
  return [{ name, state: 'ok', what: `to ${place}, record ${record}: ${safe}` }]
}
