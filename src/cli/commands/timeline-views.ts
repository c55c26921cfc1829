// Commands that show one timeline, at a sequence or now, without changing it.

import { hostOf } from '../../engine/host/host.ts'
import { diffStates, stateAt } from '../../operations/state-at.ts'
import { cardFacts, isLossy } from '../card-facts.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findPlace, findTimeline } from '../find-timeline.ts'
import { brief, count, relative } from '../format.ts'
import { toJson } from '../output.ts'

/** State as of a sequence. */
export const at: Command = async ({ engine, args, output }) => {
  const { head, seq } = await findPlace(engine, args[0]!)
  const { state, coordinate } = await stateAt(engine, { timeline: head.timeline, seq })
  output.result({ coordinate, state }, () => output.lines(toJson(state, 2)))
  return exit.ok
}

/** The changes between two coordinates. */
export const diff: Command = async ({ engine, args, output }) => {
  const [from, to] = await Promise.all([placeOf(args[0]!), placeOf(args[1]!)])
  const compared = await diffStates(engine, from, to)
  const { changes, isComplete } = compared
  output.result(compared, () => {
    const { red, green, yellow } = output.colours
    const room = Math.max(20, Math.floor(output.columns / 3))
    if (changes.length === 0) output.note('no difference')
    for (const { path, kind, before: was, after: is } of changes) {
      if (kind === 'added') output.line(green(`+ ${path}: ${brief(toJson(is), room)}`))
      else if (kind === 'removed') output.line(red(`- ${path}: ${brief(toJson(was), room)}`))
      else output.line(yellow(`~ ${path}: ${brief(toJson(was), room)} → ${brief(toJson(is), room)}`))
    }
    if (!isComplete) output.note(`only the first ${count(changes.length, 'difference')} are shown`)
  })
  return exit.ok

  async function placeOf(given: string) {
    const { head, seq } = await findPlace(engine, given)
    return { timeline: head.timeline, seq }
  }
}

/** The recovery card of a timeline. Exit code 8 if a recovery would lose data. */
export const card: Command = async ({ engine, args, output }) => {
  const head = await findTimeline(engine, args[0]!)
  const facts = await engine.card(head.timeline)
  const now = hostOf(engine).now()
  output.result(facts, () => {
    const { bold, dim, red, green } = output.colours
    const toned = { good: green, bad: red }
    output.line(bold(`Recovery card of ${facts.coordinate.timeline}`))
    output.facts(cardFacts(facts, now).map(({ name, text, tone }) => [name, tone ? toned[tone](text) : text]))
    for (const report of facts.recent) output.line(`${dim(relative(report.at, now))}  ${report.kind}  ${report.what}`)
  })
  return isLossy(facts) ? exit.damage : exit.ok
}
