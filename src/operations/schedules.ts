// Schedules, with their last and next start.

import { idBelow } from '../core/history/scope.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { scheduleFold } from '../layers/workflow/queue/schedule.ts'

export const scheduleScope = 'workflow-schedule/'
const shownMax = 1000

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
