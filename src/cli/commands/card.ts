// reprise card: the recovery card of a timeline. Exit code 8 if a recovery would lose data.

import { hostOf } from '../../engine/host/host.ts'
import { cardFacts, isLossy } from '../card-facts.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findTimeline } from '../find.ts'
import { relative } from '../format.ts'

const card: Command = async ({ engine, args, output }) => {
  const head = await findTimeline(engine, args[0]!)
  const facts = await engine.card(head.timeline)
  const now = hostOf(engine).kernel.worker.now()
  output.result(facts, () => {
    const { bold, dim, red, green } = output.colours
    const toned = { good: green, bad: red }
    output.line(bold(`Recovery card of ${facts.coordinate.timeline}`))
    output.facts(cardFacts(facts, now).map(({ name, text, tone }) => [name, tone ? toned[tone](text) : text]))
    for (const report of facts.recent) output.line(`${dim(relative(report.at, now))}  ${report.kind}  ${report.what}`)
  })
  return isLossy(facts) ? exit.damage : exit.ok
}

export default card
