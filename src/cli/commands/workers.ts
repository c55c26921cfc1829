// reprise workers: who is at work. Alive without progress, while it owns something, is shown as stuck.

import type { WorkerRow } from '../../core/ports.ts'
import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { relative } from '../format.ts'
import { stuckAfterMs } from '../health.ts'
import { workersNow } from '../present.ts'

const workers: Command = async ({ engine, options, output }) => {
  const rows = await workersNow(engine)
  const { now } = await clock()
  const shown: (WorkerRow & { owns: number; isStuck: boolean })[] = []
  for (const row of rows) {
    if (!flag(options, 'all') && !row.isAlive) continue
    const owned = await engine.list({ owner: row.id, limit: 1000 })
    const isStuck = row.isAlive && owned.length > 0 && now - row.progressAt > stuckAfterMs
    shown.push({ ...row, owns: owned.length, isStuck })
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
    return undefined
  })
  return exit.ok

  async function clock() {
    return { now: Math.max(engine.kernel.worker.now(), ...rows.map((row) => row.beatAt)) }
  }
}

export default workers
