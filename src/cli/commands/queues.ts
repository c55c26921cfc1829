// reprise queues: what waits, what runs, what is overdue, for each queue.

import type { Head } from '../../core/ports.ts'
import { hostOf } from '../../engine/host.ts'
import { headsOf } from '../../engine/tools/verify.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { relative } from '../format.ts'

interface Row {
  queue: string
  timelines: number
  running: number
  due: number
  mail: number
  nextAt: number | null
}

const queues: Command = async ({ engine, output }) => {
  const rows = new Map<string, Row>()
  const now = hostOf(engine).kernel.worker.now()
  for await (const head of headsOf(hostOf(engine).kernel)) if (head.queue !== null) add(head)
  const list = [...rows.values()].sort((a, b) => a.queue.localeCompare(b.queue))
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

  function add(head: Head): void {
    const queue = head.queue!
    const row = rows.get(queue) ?? { queue, timelines: 0, running: 0, due: 0, mail: 0, nextAt: null }
    rows.set(queue, row)
    const isRunning = head.owner !== null && head.isOwnerAlive
    row.timelines += 1
    if (isRunning) row.running += 1
    else if (head.mail > 0 || (head.wakeup !== null && head.wakeup <= now)) row.due += 1
    row.mail += head.mail
    if (head.wakeup !== null && !isRunning) row.nextAt = Math.min(row.nextAt ?? Number.POSITIVE_INFINITY, head.wakeup)
  }
}

export default queues
