// reprise schedules: schedules, with their last and next start.

import { hostOf } from '../../engine/host/host.ts'
import { schedulesOf } from '../../operations/schedules.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { relative } from '../format.ts'

const schedules: Command = async ({ engine, output }) => {
  const now = hostOf(engine).kernel.worker.now()
  const rows = await schedulesOf(engine)
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
