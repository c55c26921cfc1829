// reprise workers: who is at work, and on what it is stuck: a call in flight that gives no sign for longer than it may.

import type { WorkerRow } from '../../core/ports.ts'
import { hostOf } from '../../engine/host.ts'
import { reportOf, type WorkerReport } from '../../engine/worker.ts'
import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { relative } from '../format.ts'
import { stuckOn } from '../health.ts'
import { workersNow } from '../present.ts'

const workers: Command = async ({ engine, options, output }) => {
  const rows = await workersNow(engine)
  const { now } = await clock()
  const shown: (WorkerRow & WorkerReport & { owns: number; isStuck: boolean; stuck: string[] })[] = []
  for (const row of rows) {
    if (!flag(options, 'all') && !row.isAlive) continue
    const owned = await engine.list({ owner: row.id, limit: 1000 })
    const { 'under way': _, failing: __, ...info } = row.info
    const report = reportOf(row)
    const stuck = row.isAlive ? stuckOn(report, now) : []
    shown.push({ ...row, info, ...report, owns: owned.length, isStuck: stuck.length > 0, stuck })
  }
  output.result(shown, () => {
    if (shown.length === 0)
      return output.note(rows.length > 0 ? 'nobody is at work; --all shows who was' : 'nobody has worked here')
    const { green, red, yellow } = output.colours
    output.table(
      ['WORKER', 'STATE', 'OWNS', 'STARTED', 'BEAT', 'PROGRESS', 'SERVES'],
      shown.map((row) => [
        row.id,
        row.isStuck ? yellow('stuck') : row.isAlive ? green('alive') : red(row.isRetired ? 'retired' : 'gone'),
        String(row.owns),
        relative(row.startedAt, now),
        relative(row.beatAt, now),
        relative(row.progressAt, now),
        Object.keys(row.info).join(', '),
      ]),
    )
    for (const row of shown) for (const words of row.stuck) output.line(`${yellow('stuck')}  ${words}`)
    return undefined
  })
  return exit.ok

  async function clock() {
    return { now: Math.max(hostOf(engine).kernel.worker.now(), ...rows.map((row) => row.beatAt)) }
  }
}

export default workers
