// Commands on checkpoints: one that is kept, one that a person marks, and those that are no longer needed.

import { type Command, flag, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findPlace, findTimeline } from '../find-timeline.ts'
import { bytes, count } from '../format.ts'
import { captureGroup } from './group.ts'

/** A checkpoint that is kept until it is released. */
export const savepoint: Command = async (invocation) => {
  const { engine, args, options, output } = invocation
  if (args.length > 1) return await captureGroup(invocation, text(options, 'label'), args)
  const { head, seq } = await findPlace(engine, args[0]!)
  const release = text(options, 'release')
  if (release !== undefined) {
    const catalog = await engine.checkpoints(head.timeline)
    const matches = catalog.filter((record) => record.id.startsWith(release))
    const id = matches.length === 1 ? matches[0]!.id : release
    await engine.release(head.timeline, id)
    output.result({ released: id }, () => output.line(`released ${id}`))
    return exit.ok
  }
  const label = text(options, 'label')
  const made = await engine.savepoint({ timeline: head.timeline, seq }, label === undefined ? {} : { label })
  output.result(made, () =>
    output.line(`savepoint ${made.id} of ${head.timeline}@${made.coordinate.seq}, ${bytes(made.bytes)}`),
  )
  return exit.ok
}

/** A person marks a checkpoint as bad, or takes that back. */
export const mark: Command = async ({ engine, args, options, output, env }) => {
  const head = await findTimeline(engine, args[0]!)
  const id = args[1]!
  const why = text(options, 'bad')
  if ((why === undefined) === !flag(options, 'good'))
    throw new UsageError('use --bad WHY, or --good to remove the mark')
  const by = text(options, 'by') ?? env.USER ?? env.USERNAME ?? 'somebody'
  if (why === undefined) await engine.unmarkCheckpoint(head.timeline, id)
  else await engine.markCheckpoint(head.timeline, id, { why, by })
  output.result({ timeline: head.timeline, checkpoint: id, bad: why ?? null, by }, () => {
    if (why === undefined) output.line(`checkpoint ${id} of ${head.timeline} is used again`)
    else output.line(`checkpoint ${id} of ${head.timeline} is no longer used for restores`)
  })
  return exit.ok
}

/** The data that retention would remove, and why. Removes it only with --yes. */
export const prune: Command = async ({ engine, options, output }) => {
  const dryRun = !flag(options, 'yes')
  const report = await engine.collect({ dryRun })
  output.result(report, () => {
    const verb = dryRun ? 'would drop' : 'dropped'
    for (const { timeline, drop, floor, floorBefore, refused } of report.timelines) {
      for (const { id, because } of drop) output.line(`${timeline}: ${verb} checkpoint ${id}: ${because}`)
      if (floor.seq > floorBefore)
        output.line(`${timeline}: history up to ${floor.seq} may be removed: ${floor.because}`)
      else if (floor.heldBy.length > 0) output.line(`${timeline}: no more history may be trimmed: ${floor.because}`)
      for (const reason of refused) output.line(output.colours.yellow(`${timeline}: refused: ${reason}`))
    }
    for (const timeline of report.forks.expired) output.line(`${dryRun ? 'would delete' : 'deleted'} fork ${timeline}`)
    for (const { timeline, because } of report.forks.kept) output.note(`fork ${timeline} is kept: ${because}`)
    for (const { timeline, because } of report.unknown) output.note(`${timeline}: unchanged: ${because}`)
    const { swept, sweptBytes, tooYoung, live, unreadable } = report.chunks
    for (const { timeline, seq, because } of unreadable)
      output.line(output.colours.yellow(`${timeline}: the checkpoint at ${seq} cannot be read: ${because}`))
    if (unreadable.length > 0)
      output.line(
        'no chunk is removed while one cannot be read: reprise verify --repair repairs it, and reprise delete removes it',
      )
    output.line(
      `${dryRun ? 'would free' : 'freed'} ${count(swept, 'chunk')}, ${bytes(sweptBytes)}; ${live} in use, ${tooYoung} too recent to decide on`,
    )
    if (dryRun) output.note('nothing was changed; reprise prune --yes does it')
  })
  return exit.ok
}
