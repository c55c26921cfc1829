// reprise workers: live workers and stuck calls: calls in flight without progress for longer than their limit.

import { describeWorkers } from '../../operations/workers.ts'
import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { relative } from '../format.ts'

const workers: Command = async ({ engine, options, output }) => {
  const { now, known, workers: shown } = await describeWorkers(engine, { all: flag(options, 'all') })
  output.result(shown, () => {
    if (shown.length === 0)
      return output.note(known > 0 ? 'nobody is at work; --all shows who was' : 'nobody has worked here')
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
}

export default workers
