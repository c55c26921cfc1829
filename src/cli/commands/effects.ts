// reprise effects: external effects of a timeline, and those with an unknown outcome.

import { RepriseError } from '../../core/errors.ts'
import type { Effect } from '../../core/history/effects.ts'
import { checkAbout } from '../../engine/history/conflicting-decision.ts'
import { effectsOf, type ShownEffect } from '../../operations/effects.ts'
import { act } from '../../operations/run-verb.ts'
import { printReport } from '../action-report.ts'
import { type Command, flag, point, text } from '../command.ts'
import { exit, parseJson, UsageError } from '../exit.ts'
import { findTimeline } from '../find-timeline.ts'

const outcomes = ['done', 'failed', 'compensated'] as const

const effects: Command = async ({ engine, args, options, output, env }) => {
  const head = await findTimeline(engine, args[0]!)
  const { timeline } = head
  const id = text(options, 'settle')
  if (id !== undefined) return await settle(id)
  const all = await effectsOf(engine, head)
  const shown = flag(options, 'open') ? all.filter((effect) => effect.outcome === null) : all
  output.result(shown, () => {
    if (shown.length === 0) return output.note(all.length > 0 ? 'none is open' : `${timeline} has no effects`)
    output.table(
      ['EFFECT', 'NAME', 'STATE', 'ATTEMPTS', 'UNDO', 'INTENDED', 'OWNER', 'KEY'],
      shown.map((effect) => [
        effect.id,
        effect.name,
        effect.outcome === null ? output.colours.yellow(stateOf(effect)) : effect.state,
        String(effect.attempts ?? 1),
        'reversal' in effect ? effect.reversal : '',
        'intendedSeq' in effect ? `@${effect.intendedSeq}` : '',
        effect.inheritedFrom ?? '',
        effect.key ?? '',
      ]),
    )
    if (shown.some((effect) => effect.outcome === null && needsPerson(effect)))
      output.note(`to record an outcome: reprise effects ${timeline} --settle EFFECT --as done|failed`)
    return undefined
  })
  return exit.ok

  async function settle(effect: string): Promise<number> {
    const outcome = outcomes.find((each) => each === text(options, 'as'))
    if (!outcome) throw new UsageError(`--settle requires --as ${outcomes.join('|')}`)
    checkAbout(head, point(options, 'about'))
    const by = text(options, 'by') ?? env.USER ?? 'somebody'
    const json = text(options, 'result')
    const result = json === undefined ? undefined : parseJson(json, '--result')
    const all = await effectsOf(engine, head)
    const known = all.find((each) => each.id === effect)
    if (!known) {
      const ids = all.map((each) => each.id)
      const some = `${ids.slice(0, 5).join(', ')}${ids.length > 5 ? ', … (reprise effects lists them)' : ''}`
      const what = `${timeline} has no effect ${effect}${ids.length === 0 ? ', and no other' : ', but '}${some}`
      throw new RepriseError('NOT_FOUND', what, { effect, known: ids.slice(0, 100) })
    }
    // An effect of the model itself is settled by the model.
    if (!isKernels(known)) {
      const decision = { step: effect, outcome, by, ...(json !== undefined && { result }) }
      return printReport(output, await act(engine, head, 'settle', decision))
    }
    await engine.settleEffect(timeline, effect, outcome, by, result)
    output.result({ timeline, settled: effect, outcome, by }, () =>
      output.line(`${effect} of ${timeline} is ${outcome}, according to ${by}`),
    )
    return exit.ok
  }
}

export default effects

function isKernels(effect: ShownEffect): effect is Effect {
  return 'intendedSeq' in effect
}

function stateOf(effect: ShownEffect): string {
  return isKernels(effect) || effect.state === 'intended' ? 'in doubt, or in progress' : effect.state
}

/** The run itself retries the others. */
function needsPerson(effect: ShownEffect): boolean {
  return isKernels(effect) || effect.state === 'held' || effect.state === 'stuck'
}
