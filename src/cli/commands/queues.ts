// reprise queues: waiting, running and overdue timelines of each queue.

import { hostOf } from '../../engine/host/host.ts'
import { queuesOf } from '../../operations/queues.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { relative } from '../format.ts'

const queues: Command = async ({ engine, output }) => {
  const now = hostOf(engine).kernel.worker.now()
  const list = await queuesOf(engine)
  output.result(list, () => {
    if (list.length === 0) return output.note('no queues')
    output.table(
      ['QUEUE', 'TIMELINES', 'RUNNING', 'DUE', 'MAIL', 'NEXT'],
      list.map((row) => [
        row.queue,
        ...[row.timelines, row.running, row.due, row.mail].map(String),
        row.nextAt === null ? '-' : relative(row.nextAt, now),
      ]),
    )
    return undefined
  })
  return exit.ok
}

export default queues
