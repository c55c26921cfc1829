// reprise card: the recovery card of a timeline (D6).

import { hostOf } from '../../engine/host.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findTimeline } from '../find.ts'
import { bytes, count, ms, relative } from '../format.ts'

const card: Command = async ({ engine, args, output }) => {
  const head = await findTimeline(engine, args[0]!)
  const facts = await engine.card(head.timeline)
  const now = hostOf(engine).kernel.worker.now()
  output.result(facts, () => {
    const { bold, red, green } = output.colours
    const { captured, history, owner, effects, recovery, coordinate } = facts
    output.line(bold(`Recovery card of ${coordinate.timeline}`))
    output.facts([
      ['coordinate', `@${coordinate.seq}, epoch ${coordinate.epoch}`],
      ['digest', coordinate.digest],
      [
        'owner',
        owner
          ? `${owner.worker}, ${owner.isAlive ? 'alive' : 'gone'}${owner.msSinceProgress === null ? '' : `, progress ${ms(owner.msSinceProgress)} ago`}`
          : 'nobody',
      ],
      [
        'captured',
        captured
          ? `checkpoint ${captured.id} at ${captured.seq}, ${bytes(captured.bytes)}, ${relative(captured.at, now)}, ${captured.isVerified ? 'verified' : 'not verified'}`
          : 'nothing: recovery starts at the origin',
      ],
      [
        'drilled',
        captured?.drilledAt ? `${captured.drill ?? ''} ${relative(captured.drilledAt, now)}`.trim() : 'never',
      ],
      ['to replay', count(history.entriesAfterCheckpoint, 'entry', 'entries')],
      ['history', `${history.floor + 1} to ${history.head}`],
      ['may go', `${facts.floor.seq > history.floor ? `up to ${facts.floor.seq}` : 'nothing'}: ${facts.floor.because}`],
      ['checkpoints', `${facts.checkpoints}; ${facts.checkpointing.because.join('; ')}`],
      ...stallOf(facts.checkpointing.costs.stallMs),
      [
        'effects',
        `${effects.safe} recorded, ${effects.compensatable} can be compensated, ${effects.irreversible} cannot, ${effects.inDoubt} in doubt`,
      ],
      ...(facts.invalid === null ? [] : [['state', red(`not valid: ${facts.invalid}`)] as const]),
      [
        'recovery now',
        facts.missing
          ? red(facts.missing)
          : recovery
            ? green(`${ms(recovery.totalMs)} (measured), nothing lost`)
            : 'not measured: name the definition with --module',
      ],
    ])
    for (const report of facts.recent) {
      output.line(`${output.colours.dim(relative(report.at, now))}  ${report.kind}  ${report.what}`)
    }
  })
  return facts.missing ? exit.damage : exit.ok
}

/** Worth a line only where people would notice. */
function stallOf(stallMs: number | null): [string, string][] {
  return stallMs === null || stallMs < 50 ? [] : [['longest stall', `${ms(stallMs)} in the last checkpoint`]]
}

export default card
