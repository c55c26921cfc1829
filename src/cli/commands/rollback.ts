// reprise rollback: continues from an earlier point: a sequence, before an entry, before a time, or before the state became
// invalid. It shows first what would be undone, and acts with --yes (or after a prompt).

import { RepriseError } from '../../core/errors.ts'
import type { CompensationPlan } from '../../core/history/effects.ts'
import type { Validity } from '../../core/history/validity.ts'
import type { Before, RollbackPlan } from '../../engine/branch/rollback-plan.ts'
import { mayAct } from '../../operations/run-verb.ts'
import { type Command, flag, type Options, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findTimeline } from '../find-timeline.ts'
import { count } from '../format.ts'
import { loadModule } from '../module.ts'
import type { Output } from '../output.ts'
import { confirm } from '../prompt.ts'

const ways = 'TIMELINE@SEQ, --before SEQ, --before-time WHEN, --until-valid, or --where FILE'

const rollback: Command = async ({ engine, args, options, output, stdin }) => {
  const match = /^(.*)@(\d+)$/.exec(args[0]!)
  const head = await findTimeline(engine, match ? match[1]! : args[0]!)
  const before = await beforeOf(match ? Number(match[2]) + 1 : null, options)
  const plan = await engine.planRollback(head.timeline, before)
  const takeover = flag(options, 'takeover')
  await mayAct(engine, head, 'rollback', { seq: plan.to, takeover })
  if (!flag(options, 'yes')) {
    if (!output.isJson) showPlan(plan, output)
    if (!(await confirm(`${plan.timeline} is rolled back from ${plan.from} to ${plan.to}. Continue?`, stdin, output))) {
      output.result({ plan }, () => output.note('nothing was changed; --yes skips the confirmation'))
      return exit.usage
    }
  }
  const where = { timeline: head.timeline, seq: plan.to }
  const done = await engine.rollback({
    to: where,
    ...(takeover && { takeover }),
    ...(flag(options, 'undo-inherited') && { undo: 'inherited' as const }),
    ...(flag(options, 'even-consumed') && { consumed: 'force' as const }),
  })
  output.result({ ...done, plan }, () => {
    if (flag(options, 'yes')) showPlan(plan, output)
    if (done.asked) {
      const { from, undoes } = done.asked
      output.line(`${done.timeline} is rolled back to before ${from} by the process that executes it`)
      output.line(undoes.length > 0 ? `undone in this order: ${undoes.join(', ')}` : 'nothing has to be undone')
    }
    if (done.archive)
      output.line(`${done.timeline} continues from ${done.to.seq}; later entries are in ${done.archive}`)
    showEffects(done.effects, output)
  })
  return exit.ok
}

async function beforeOf(seq: number | null, options: Options): Promise<Before> {
  const [before, time, where] = [text(options, 'before'), text(options, 'before-time'), text(options, 'where')]
  const isValid = flag(options, 'until-valid')
  const given = [seq !== null, before !== undefined, time !== undefined, isValid || where !== undefined]
  if (given.filter(Boolean).length !== 1) throw new UsageError(`name the target in one way: ${ways}`)
  if (seq !== null) return { seq }
  if (before !== undefined) {
    if (!/^[1-9]\d*$/.test(before)) throw new UsageError('--before takes the sequence of an entry')
    return { seq: Number(before) }
  }
  if (time !== undefined) {
    const at = /^\d{12,}$/.test(time) ? Number(time) : Date.parse(time)
    if (Number.isNaN(at)) throw new UsageError('--before-time takes a date, as in 2026-01-31T12:00:00Z')
    return { time: at }
  }
  return { valid: where === undefined ? 'declared' : await predicateIn(where) }
}

/** The default export, or one named valid. */
async function predicateIn(file: string): Promise<Validity<never>> {
  const loaded = await loadModule(file)
  const predicate = loaded.default ?? loaded.valid
  if (typeof predicate === 'function') return predicate as Validity<never>
  throw new RepriseError(
    'INVALID_ARGUMENT',
    `${file} exports no function: export default (state) => true, or a reason`,
    {
      file,
    },
  )
}

function showPlan(plan: RollbackPlan, output: Output): void {
  const { found, because, asked, undone } = plan
  output.line(
    `back to ${plan.to}, before ${found.seq} (${found.type}, ${new Date(found.time).toISOString()}): ${because}`,
  )
  for (const { seq, why } of asked) output.line(`  checked ${seq}: ${why === null ? 'valid' : `not valid: ${why}`}`)
  const types = Object.entries(undone.types).map(([type, n]) => `${n} ${type}`)
  output.line(`${count(undone.entries, 'entry', 'entries')} would be discarded: ${types.join(', ')}`)
  for (const { what } of undone.consumers) output.line(output.colours.yellow(`consumed: ${what}`))
  if (undone.consumers.length > 0) output.line('it is refused without --even-consumed')
  if (undone.did.length > 0) output.line(`done since, newest first: ${undone.did.join(', ')}`)
  showEffects(undone.effects, output)
}

function showEffects({ compensate, cannot, inDoubt, inherited }: CompensationPlan, output: Output): void {
  const ids = (effects: CompensationPlan['compensate']) => effects.map((effect) => effect.id).join(', ')
  const { yellow, red } = output.colours
  if (compensate.length > 0) output.line(`${count(compensate.length, 'effect')} to compensate: ${ids(compensate)}`)
  for (const { id, inheritedFrom } of inherited) output.line(`${id} was done by ${inheritedFrom}, and is not undone`)
  if (cannot.length > 0) output.line(yellow(`${count(cannot.length, 'effect')} cannot be undone: ${ids(cannot)}`))
  if (inDoubt.length > 0) output.line(red(`${count(inDoubt.length, 'effect')} in doubt: ${ids(inDoubt)}`))
}

export default rollback
