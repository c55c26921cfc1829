// reprise checkpoints: the catalog of one timeline.

import { hostOf } from '../../engine/host/host.ts'
import { shownCheckpoint } from '../../operations/describe.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findTimeline } from '../find.ts'
import { bytes, relative } from '../format.ts'

const checkpoints: Command = async ({ engine, args, output }) => {
  const head = await findTimeline(engine, args[0]!)
  const catalog = await engine.checkpoints(head.timeline)
  const now = hostOf(engine).kernel.worker.now()
  output.result(catalog.map(shownCheckpoint), () => {
    if (catalog.length === 0) return output.note(`${head.timeline} has no checkpoints`)
    output.table(
      ['ID', 'SEQ', 'TAKEN', 'TRIGGER', 'SIZE', 'ADDED', 'STATE', 'DRILLED', 'LABEL'],
      catalog.map((record) => [
        record.id,
        String(record.seq),
        relative(record.createdAt, now),
        record.trigger,
        bytes(record.totalBytes),
        bytes(record.addedBytes),
        `${record.invalid ? `invalid: ${record.invalid}` : record.verifiedAt ? 'verified' : 'not verified'}${record.isPinned ? ', savepoint' : ''}`,
        record.drilledAt ? `${record.drill ?? ''} ${relative(record.drilledAt, now)}`.trim() : '-',
        record.label ?? '',
      ]),
    )
    return undefined
  })
  return exit.ok
}

export default checkpoints
