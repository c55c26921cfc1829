// Workers as seen from this machine: one whose process died here is treated as dead at once, although its lease has not expired.
// This only reads; the process that takes over the work declares it dead.

import { formatMs } from '../core/duration.ts'
import { isWithin } from '../core/history/scope.ts'
import type { Head, WorkerRow } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { identifyProcess, isProcessGone } from '../engine/base/platform.ts'
import { reportOf, type WorkerReport } from '../engine/base/worker.ts'
import { hostOf } from '../engine/host/host.ts'
import { announcedAs } from '../layers/workflow/without-code.ts'

/** For work without a limit of its own. */
export const stuckAfterMs = 5 * 60_000
const ownedMax = 1000

export async function workersNow(engine: Reprise): Promise<WorkerRow[]> {
  const own = identifyProcess()
  return (await engine.workers()).map((row) => ({ ...row, isAlive: row.isAlive && !isProcessGone(row, own) }))
}

/** Whether an owner is alive: a process that died on this machine is detected before its lease expires. */
export async function ownersAlive(engine: Reprise, heads: readonly Head[]): Promise<(head: Head) => boolean> {
  if (!heads.some(({ owner, isOwnerAlive }) => owner !== null && isOwnerAlive)) return () => false
  const alive = new Set((await workersNow(engine)).flatMap(({ id, isAlive }) => (isAlive ? [id] : [])))
  return ({ owner, isOwnerAlive }) => isOwnerAlive && owner !== null && alive.has(owner)
}

export interface ShownWorker extends WorkerRow, WorkerReport {
  /** Number of owned timelines, counted up to a thousand. */
  readonly owns: number
  readonly isStuck: boolean
  /** Work that exceeds its time limit, as text. */
  readonly stuck: readonly string[]
}

/** `now` is the store's time as of the newest heartbeat. */
export async function describeWorkers(
  engine: Reprise,
  options: { readonly all?: boolean } = {},
): Promise<{ readonly now: number; readonly known: number; readonly workers: ShownWorker[] }> {
  const rows = await workersNow(engine)
  const now = Math.max(hostOf(engine).now(), ...rows.map((row) => row.beatAt))
  const workers: ShownWorker[] = []
  for (const row of rows) {
    if (!options.all && !row.isAlive) continue
    const owned = await engine.list({ owner: row.id, limit: ownedMax })
    const info = Object.fromEntries(Object.entries(row.info).filter(([field]) => !isReport(field)))
    const report = reportOf(row)
    const stuck = row.isAlive ? stuckOn(report, now) : []
    workers.push({ ...row, info, ...report, owns: owned.length, isStuck: stuck.length > 0, stuck })
  }
  return { now, known: rows.length, workers }
}

/** Fields that are shown in a form of their own. */
function isReport(field: string): boolean {
  return field === 'under way' || field === 'failing' || isWithin(announcedAs(''), field)
}

/** Work that exceeds its time limit, with the reason as text. An idle worker is fine. */
export function stuckOn({ underWay }: WorkerReport, now: number): string[] {
  return underWay
    .filter(({ since, limitMs }) => now - since > (limitMs ?? stuckAfterMs))
    .map(({ timeline, what, since, limitMs }) => {
      const limit = limitMs === null ? '' : `, and may take ${formatMs(limitMs)}`
      return `${timeline}: ${what} without a sign of life for ${formatMs(wholeSeconds(now - since))}${limit}`
    })
}

function wholeSeconds(ms: number): number {
  return Math.round(ms / 1000) * 1000
}
