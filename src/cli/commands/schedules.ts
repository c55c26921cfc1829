// reprise schedules: what is started when, when it last was, and when it is due next.

import { idBelow } from '../../core/scope.ts'
import { hostOf } from '../../engine/host.ts'
import { recover } from '../../engine/recovery/recover.ts'
import { scheduleFold } from '../../layers/workflow/schedule.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { relative } from '../format.ts'

const scope = 'workflow-schedule/'
const shownMax = 1000

interface ScheduleRow {
  readonly schedule: string
  readonly timeline: string
  readonly nextAt: number | null
  readonly lastAt: number | null
  readonly run: string | null
  readonly fired: number
  readonly skipped: number
}

const schedules: Command = async ({ engine, output }) => {
  const now = hostOf(engine).kernel.worker.now()
  const rows: ScheduleRow[] = []
  for (const head of await engine.list({ prefix: scope, limit: shownMax })) {
    const { last, run, fired, skipped } = (await recover(hostOf(engine).kernel, head, scheduleFold)).state.value
    const schedule = idBelow(scope, head.timeline) ?? head.timeline
    rows.push({ schedule, timeline: head.timeline, nextAt: head.wakeup, lastAt: last || null, run, fired, skipped })
  }
  output.result(rows, () => {
    if (rows.length === 0) return output.note('no schedules: reprise work FILE serves those that a module exports')
    output.table(
      ['SCHEDULE', 'NEXT', 'LAST', 'FIRED', 'SKIPPED', 'RUN'],
      rows.map((row) => [
        row.schedule,
        row.nextAt === null
          ? '-'
          : row.nextAt < now
            ? output.colours.yellow(`due ${relative(row.nextAt, now)}`)
            : relative(row.nextAt, now),
        relative(row.lastAt, now),
        String(row.fired),
        String(row.skipped),
        row.run ?? '-',
      ]),
    )
    return undefined
  })
  return exit.ok
}

export default schedules
