// reprise give-up: damaged history without a copy is declared lost, and the timeline continues without it. Lists the loss
// first; the decision is recorded with its author and reason. With the id of a loss, which a repair recorded, a person accepts
// that loss: it is no longer listed.

import type { LossRecord } from '../../core/store/ports.ts'
import { lossWords } from '../../engine/storage/losses.ts'
import { type Command, flag, type Invocation, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findTimeline } from '../find-timeline.ts'

const command: Command = async (invocation) => {
  const { engine, args, options, output } = invocation
  const loss = (await engine.losses()).find(({ id }) => id === args[0])
  if (loss) return await accept(invocation, loss)
  const { timeline } = await findTimeline(engine, args[0]!)
  const isMeant = flag(options, 'yes')
  const by = text(options, 'by')
  const reason = text(options, 'reason')
  if (isMeant && timeline !== args[0]) {
    throw new UsageError(`${args[0]} is not a complete id`, `to confirm: reprise give-up ${timeline} … --yes`)
  }
  if (isMeant && (by === undefined || reason === undefined)) {
    throw new UsageError(
      '--by and --reason are required: they are recorded',
      `reprise give-up ${timeline} --by NAME --reason TEXT --yes`,
    )
  }
  const report = await engine.giveUp(timeline, { by: by ?? '?', reason: reason ?? '?', dryRun: !isMeant })
  output.result(report, () => {
    const verb = isMeant ? 'given up' : 'would be given up'
    for (const { from, to } of report.lost) output.line(`${verb}: ${timeline}@${from === to ? from : `${from}..${to}`}`)
    for (const what of report.unknown) output.line(`no longer known: ${what}`)
    if (report.refusal !== null) output.line(`refused: ${report.refusal}`)
  })
  if (isMeant) return exit.ok
  output.note(
    report.refusal === null ? 'nothing was changed; --by, --reason and --yes confirm it' : 'nothing was changed',
  )
  return report.refusal === null ? exit.ok : exit.conflict
}

/** A loss that has happened: there is nothing to plan: it is only no longer reported. */
async function accept({ engine, options, output }: Invocation, loss: LossRecord): Promise<number> {
  const by = text(options, 'by')
  const reason = text(options, 'reason')
  const isMeant = flag(options, 'yes')
  if (isMeant && (by === undefined || reason === undefined)) {
    throw new UsageError(
      '--by and --reason are required: they are recorded',
      `reprise give-up ${loss.id} --by NAME --reason TEXT --yes`,
    )
  }
  if (isMeant) await engine.acceptLoss(loss.id, { by: by!, reason: reason! })
  output.result(loss, () => output.line(`${isMeant ? 'given up: ' : ''}${lossWords(loss)}`))
  if (!isMeant) output.note('nothing was changed; --by, --reason and --yes accept the loss')
  return exit.ok
}

export default command
