// reprise consumers: the consumers of the feed, their positions and their lag.

import { hostOf } from '../../engine/host/host.ts'
import { consumersOf } from '../../operations/consumers.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { relative } from '../format.ts'

const consumers: Command = async ({ engine, output }) => {
  const now = hostOf(engine).kernel.worker.now()
  const rows = await consumersOf(engine)
  output.result(rows, () => {
    if (rows.length === 0) return output.note('nobody reads the feed')
    output.table(
      ['CURSOR', 'OWNER', 'MOVED', 'BEHIND'],
      rows.map((row) => [
        row.name,
        row.owner,
        relative(row.movedAt, now),
        row.behind === 0 ? 'nothing' : `${row.behind}${row.isMore ? ' or more' : ''} runs of entries`,
      ]),
    )
    output.note(
      'behind counts the whole feed, also what a consumer does not read; history that one has not passed is kept for it',
    )
    return undefined
  })
  return exit.ok
}

export default consumers
