// reprise rerun: repeats one step of a run and the steps that depend on it. It shows first what would be repeated, and acts
// with --yes (or after a prompt). Without a step it lists the steps, and what each depends on.

import { act } from '../../operations/run-verb.ts'
import { runOf } from '../../operations/runs.ts'
import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { findTimeline } from '../find-timeline.ts'
import { confirm } from '../prompt.ts'

const rerun: Command = async ({ engine, args, options, output, stdin }) => {
  const [given, step] = args as [string, string | undefined]
  const head = await findTimeline(engine, given)
  const run = runOf(engine, head, 'rerun')
  if (step === undefined) {
    const steps = await run.steps()
    output.result({ timeline: head.timeline, steps }, () => {
      for (const each of steps) {
        const after = each.after.length > 0 ? `after ${each.after.join(', ')}` : 'after nothing'
        const others = each.repeats.filter((name) => name !== each.step)
        output.line(`${each.step} (${each.outcome}, ${after})`)
        if (others.length > 0) output.note(`  its re-run repeats ${others.join(', ')}`)
      }
      if (steps.length === 0) output.line(`${head.timeline} has no step in its history`)
    })
    return exit.ok
  }
  const plan = await run.planRerun(step)
  const showPlan = () => {
    output.line(`repeated, after their compensations in reverse: ${plan.repeats.join(', ')}`)
    output.line(plan.keeps.length > 0 ? `kept: ${plan.keeps.join(', ')}` : 'no later step is kept')
  }
  if (!flag(options, 'yes')) {
    if (!output.isJson) showPlan()
    if (!(await confirm(`${head.timeline} repeats ${plan.step}. Continue?`, stdin, output))) {
      output.result({ plan }, () => output.note('nothing was changed; --yes skips the confirmation'))
      return exit.usage
    }
  }
  const { text, facts } = await act(engine, head, 'rerun', {
    step,
    ...(flag(options, 'undo-inherited') && { undo: 'inherited' }),
    ...(flag(options, 'even-consumed') && { consumed: 'force' }),
  })
  output.result({ ...facts, plan }, () => output.line(text))
  return exit.ok
}

export default rerun
