// reprise effects: what a timeline did to the outside, and what is not known of it.

import { RepriseError } from '../../core/errors.ts'
import { type Command, flag, text } from '../command.ts'
import { exit, parseJson, UsageError } from '../exit.ts'
import { findTimeline } from '../find.ts'

const outcomes = ['done', 'failed', 'compensated'] as const

const effects: Command = async ({ engine, args, options, output, env }) => {
  const { timeline } = await findTimeline(engine, args[0]!)
  const id = text(options, 'settle')
  if (id !== undefined) return await settle(id)
  const all = await engine.effectsOf(timeline)
  const shown = flag(options, 'open') ? all.filter((effect) => effect.outcome === null) : all
  output.result(shown, () => {
    if (shown.length === 0) return output.note(all.length > 0 ? 'none is open' : `${timeline} has no effects`)
    output.table(
      ['EFFECT', 'NAME', 'STATE', 'ATTEMPTS', 'UNDO', 'INTENDED', 'KEY'],
      shown.map((effect) => [
        effect.id,
        effect.name,
        effect.outcome === null ? output.colours.yellow('in doubt, or under way') : effect.state,
        String(effect.attempts),
        effect.reversal,
        `@${effect.intendedSeq}`,
        effect.key,
      ]),
    )
    if (shown.some((effect) => effect.outcome === null))
      output.note(`say what became of one: reprise effects ${timeline} --settle EFFECT --as done|failed`)
    return undefined
  })
  return exit.ok

  async function settle(effect: string): Promise<number> {
    const outcome = outcomes.find((each) => each === text(options, 'as'))
    if (!outcome) throw new UsageError(`--settle goes with --as ${outcomes.join('|')}`)
    const by = text(options, 'by') ?? env.USER ?? 'somebody'
    const json = text(options, 'result')
    const result = json === undefined ? undefined : parseJson(json, '--result')
    if (!(await engine.effectsOf(timeline)).some((each) => each.id === effect)) {
      throw new RepriseError('NOT_FOUND', `${timeline} has no effect ${effect}: reprise effects lists them`, { effect })
    }
    await engine.settleEffect(timeline, effect, outcome, by, result)
    output.result({ timeline, settled: effect, outcome, by }, () =>
      output.line(`${effect} of ${timeline} is ${outcome}, says ${by}`),
    )
    return exit.ok
  }
}

export default effects
