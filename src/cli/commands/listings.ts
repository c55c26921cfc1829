// Commands that print one table of a store.

import { hostOf } from '../../engine/host/host.ts'
import { feedConsumers } from '../../operations/consumers.ts'
import { shownCheckpoints } from '../../operations/describe.ts'
import { queuesOf } from '../../operations/queues.ts'
import { schedulesOf } from '../../operations/schedules.ts'
import { describeWorkers } from '../../operations/workers.ts'
import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { findTimeline } from '../find-timeline.ts'
import { bytes, relative } from '../format.ts'

/** Live workers and stuck calls: calls in flight without progress for longer than their limit. */
export const workers: Command = async ({ engine, options, output }) => {
  const { now, known, workers: shown } = await describeWorkers(engine, { all: flag(options, 'all') })
  output.result(shown, () => {
    if (shown.length === 0)
      return output.note(
        known > 0 ? 'no worker is running; --all lists former workers' : 'this store never had a worker',
      )
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

/** Waiting, running and overdue timelines of each queue. */
export const queues: Command = async ({ engine, output }) => {
  const now = hostOf(engine).now()
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

/** Schedules, with their last and next start. */
export const schedules: Command = async ({ engine, output }) => {
  const now = hostOf(engine).now()
  const rows = await schedulesOf(engine)
  output.result(rows, () => {
    if (rows.length === 0) return output.note('no schedules: reprise work FILE executes those that a module exports')
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

/** The consumers of the feed, their positions and their lag. */
export const consumers: Command = async ({ engine, output }) => {
  const now = hostOf(engine).now()
  const rows = await feedConsumers(engine)
  output.result(rows, () => {
    if (rows.length === 0) return output.note('the feed has no readers')
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
      'BEHIND counts all entries of the feed, including those that a consumer skips; retention keeps entries that a consumer has not passed',
    )
    return undefined
  })
  return exit.ok
}

/** The catalog of one timeline. */
export const checkpoints: Command = async ({ engine, args, output }) => {
  const head = await findTimeline(engine, args[0]!)
  const catalog = await shownCheckpoints(engine, head.timeline)
  const now = hostOf(engine).now()
  output.result(catalog, () => {
    if (catalog.length === 0) return output.note(`${head.timeline} has no checkpoints`)
    output.table(
      ['ID', 'SEQ', 'TAKEN', 'TRIGGER', 'CONSISTENT', 'SIZE', 'ADDED', 'STATE', 'DRILLED', 'LABEL'],
      catalog.map((record) => [
        record.id,
        String(record.seq),
        relative(record.createdAt, now),
        record.trigger,
        record.consistency,
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

/** The keys that the store is encrypted with, and those that the key ring lacks. */
export const keys: Command = async ({ engine, output }) => {
  const report = await engine.keys()
  const { current, noted, lacking } = report
  output.result(report, () => {
    if (noted.length === 0)
      output.line('the store records no key: either nothing in it is encrypted, or an older release wrote it')
    for (const id of noted) {
      const state = lacking.includes(id)
        ? output.colours.red('lacking')
        : id === current
          ? 'current'
          : 'opens old records'
      output.line(`${id}  ${state}`)
    }
    if (noted.length > 1 && lacking.length === 0)
      output.note('reprise rekey re-encrypts everything with the current key')
  })
  return lacking.length > 0 ? exit.usage : exit.ok
}
