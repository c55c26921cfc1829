// Schedules, with their last and next start, and how long their runs take.

import { idBelow } from '../core/history/scope.ts'
import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { lastEntry } from '../engine/history/history.ts'
import { hostOf } from '../engine/host/host.ts'
import { endings, scheduleAttribute } from '../layers/workflow/names.ts'
import { scheduleFold } from '../layers/workflow/queue/schedule.ts'
import { entriesAfter } from './history.ts'
import type { PacedRun, SchedulePace } from './mistakes.ts'

export const scheduleScope = 'workflow-schedule/'
const shownMax = 1000
/** The last due times of each schedule that are read, and the last of its runs that are measured. */
const pacedTimes = 200
const pacedRunsMax = 10
const pacedMax = 100

export interface ScheduleRow {
  readonly schedule: string
  readonly timeline: string
  readonly nextAt: number | null
  readonly lastAt: number | null
  readonly run: string | null
  readonly fired: number
  readonly skipped: number
}

/** `within`: the parts of a scope to read. Default: all of it. */
export async function schedulesOf(
  engine: Reprise,
  within: (scope: string) => readonly string[] = (scope) => [scope],
): Promise<ScheduleRow[]> {
  const rows: ScheduleRow[] = []
  const pages = within(scheduleScope).map((prefix) => engine.list({ prefix, limit: shownMax }))
  const heads = new Map((await Promise.all(pages)).flat().map((head) => [head.timeline, head]))
  for (const head of heads.values()) {
    const { last, run, fired, skipped } = (await hostOf(engine).recover(head, scheduleFold)).state.value
    const schedule = idBelow(scheduleScope, head.timeline) ?? head.timeline
    rows.push({ schedule, timeline: head.timeline, nextAt: head.wakeup, lastAt: last || null, run, fired, skipped })
  }
  return rows
}

/** How long the last runs took: the due times of a schedule are its entries. `only`: their names. Default: the first 100. */
export async function pacesOf(engine: Reprise, only?: readonly string[]): Promise<SchedulePace[]> {
  const heads = await engine.list({ prefix: scheduleScope, limit: only ? shownMax : pacedMax })
  const paces: SchedulePace[] = []
  for (const head of heads) {
    const schedule = idBelow(scheduleScope, head.timeline) ?? head.timeline
    if (only && !only.includes(schedule)) continue
    const [any] = await engine.list({ attributes: { [scheduleAttribute]: schedule }, limit: 1 })
    if (any) paces.push({ schedule, runs: await pacedRuns(engine, head, any) })
  }
  return paces
}

/** `any`: a run of the schedule, which has the scope of the others. */
async function pacedRuns(engine: Reprise, schedule: Head, any: Head): Promise<PacedRun[]> {
  const scope = any.timeline.slice(0, any.timeline.lastIndexOf('/') + 1)
  const times: { readonly type: string; readonly at: number; readonly run: string }[] = []
  for await (const { type, data } of entriesAfter(engine, schedule, Math.max(0, schedule.seq - pacedTimes))) {
    if (type !== 'opened') times.push({ type, ...(data as { readonly at: number; readonly run: string }) })
  }
  const fired = times.flatMap(({ type, at, run }, i) => {
    const next = times[i + 1]
    return type === 'fired' && next ? [{ run, periodMs: next.at - at, nextAt: next.at }] : []
  })
  const runs: (PacedRun & { readonly createdAt: number })[] = []
  // From the newest back: whether a run was overlapped depends on the one after it.
  for (const { run, periodMs, nextAt } of fired.slice(-pacedRunsMax).reverse()) {
    const head = await hostOf(engine).head(scope + run)
    const endedAt = head && (await endOf(engine, head))
    if (!head || endedAt === null) continue
    const { createdAt, status } = head
    const isCut = status === 'cancelled' && endedAt >= nextAt
    const isOverlapped = !isCut && (runs.at(-1)?.createdAt ?? Number.POSITIVE_INFINITY) < endedAt
    runs.push({ periodMs, tookMs: endedAt - createdAt, isCut, isOverlapped, createdAt })
  }
  return runs.reverse()
}

/** Now for a run that has not ended; null if its end is unknown. Later changes of its head do not count. */
async function endOf(engine: Reprise, head: Head): Promise<number | null> {
  const { kernel } = hostOf(engine)
  if (!endings.has(head.status)) return hostOf(engine).now()
  return (await lastEntry(kernel, head))?.time ?? null
}
