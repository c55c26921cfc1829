// reprise log: the history of a timeline, entry by entry; or the events of the store, or of one timeline in it.

import { type Duration, toMs } from '../../core/duration.ts'
import { entriesAfter, shownEntry } from '../../operations/history.ts'
import { type Command, flag, type Invocation, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findTimeline } from '../find-timeline.ts'
import { brief, when } from '../format.ts'
import { toJson } from '../output.ts'

const log: Command = async (invocation) => {
  const { engine, args, options, output } = invocation
  const isOfStore = args.length === 0 || flag(options, 'reports') || text(options, 'kind') || text(options, 'since')
  if (isOfStore) return await reports(invocation)
  const head = await findTimeline(engine, args[0]!)
  const limit = Number(text(options, 'limit') ?? (output.isTerminal ? 50 : 1_000_000_000))
  const after = Number(
    text(options, 'after') ?? Math.max(0, text(options, 'limit') || !output.isTerminal ? 0 : head.seq - limit),
  )
  if (!Number.isSafeInteger(limit) || limit < 1 || !Number.isSafeInteger(after) || after < 0)
    throw new UsageError(
      '--limit must be a whole number of at least 1, --after one of at least 0',
      'reprise help log describes its options',
    )
  const type = text(options, 'type')
  let count = 0
  for await (const entry of entriesAfter(engine, head, after)) {
    if (type !== undefined && entry.type !== type) continue
    if (++count > limit) break
    // One object per line, as entries are read: history may be long.
    if (output.isJson) output.json(shownEntry(entry))
    else {
      const data = toJson(entry.data)
      const room = Math.max(20, output.columns - 50)
      output.line(
        `${String(entry.seq).padStart(String(head.seq).length)}  ${output.colours.dim(when(entry.time))}  ${entry.type}  ${flag(options, 'full') ? data : brief(data, room)}`,
      )
    }
  }
  return exit.ok
}

async function reports({ engine, args, options, output }: Invocation): Promise<number> {
  const kind = text(options, 'kind')
  const since = text(options, 'since')
  const limit = Number(text(options, 'limit') ?? 100)
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw new UsageError('--limit must be a whole number of at least 1', 'reprise help log describes its options')
  }
  const found = await engine.log({
    limit,
    ...(args[0] !== undefined && { timeline: (await findTimeline(engine, args[0])).timeline }),
    ...(kind !== undefined && { kind }),
    ...(since !== undefined && { since: Date.now() - toMs(since as Duration, '--since') }),
  })
  if (!output.isJson && found.length === 0) output.note('nothing was reported')
  for (const report of found) {
    if (output.isJson) output.json(report)
    else {
      const where = report.timeline ?? 'the store'
      output.line(
        `${output.colours.dim(when(report.at))}  ${report.kind}  ${where}  ${report.what}  ${output.colours.dim(report.worker)}`,
      )
    }
  }
  return exit.ok
}

export default log
