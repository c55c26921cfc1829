// reprise group: timelines of any models, captured in one cut and restored together. A restore shows its plan, and runs with
// --yes (or after a prompt); `group resume` resumes an interrupted one.

import { type Duration, formatMs, toMs } from '../../core/duration.ts'
import type { GroupCut } from '../../engine/tools/timeline-groups/groups.ts'
import { inWords } from '../../engine/tools/timeline-groups/plan.ts'
import type { GroupPlan, GroupTarget } from '../../engine/tools/timeline-groups/records.ts'
import type { GroupRestored } from '../../engine/tools/timeline-groups/restore.ts'
import { mayRestore } from '../../operations/run-verb.ts'
import { type Command, duration, flag, type Invocation, text, whole } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findTimeline } from '../find-timeline.ts'
import { count, when } from '../format.ts'
import { onInterrupt } from '../interrupt.ts'
import type { Output } from '../output.ts'
import { confirm } from '../prompt.ts'

const verbs: Readonly<Record<string, (invocation: Invocation, args: readonly string[]) => Promise<number>>> = {
  capture: (invocation, [name, ...members]) => captureGroup(invocation, name, members),
  schedule: (invocation, [name, ...members]) => scheduleGroup(invocation, name, members),
  end,
  ls,
  show,
  line,
  restore,
  resume,
  abandon,
  release,
}

const group: Command = async (invocation) => {
  const [verb, ...rest] = invocation.args
  const act = Object.hasOwn(verbs, verb!) ? verbs[verb!] : undefined
  if (!act) throw new UsageError(`choose an action: reprise group ${Object.keys(verbs).join('|')}`)
  return await act(invocation, rest)
}

export default group

export async function captureGroup(
  { engine, options, output }: Invocation,
  name: string | undefined,
  members: readonly string[],
): Promise<number> {
  if (members.some((member) => /@\d+$/.test(member)))
    throw new UsageError('a cut captures the present: omit the sequences')
  if (name === undefined || members.length === 0)
    throw new UsageError(
      'name the cut and its members: reprise group capture NAME TIMELINE…, or reprise savepoint TIMELINE… --label NAME',
    )
  const timeout = text(options, 'timeout')
  const cut = await engine.groups.capture(
    name,
    await idsOf({ engine }, members),
    timeout === undefined ? {} : { timeout: timeout as Duration },
  )
  output.result(cut, () => reportCut(output, cut))
  return exit.ok
}

/** Takes the cuts until Ctrl-C. */
async function scheduleGroup(
  { engine, options, output }: Invocation,
  name: string | undefined,
  members: readonly string[],
): Promise<number> {
  const each = duration(options, 'each')
  if (name === undefined || members.length === 0 || each === undefined)
    throw new UsageError('name the schedule and its members: reprise group schedule NAME TIMELINE… --each DURATION')
  const [keep, timeout] = [whole(options, 'keep'), duration(options, 'timeout')]
  const interruption = onInterrupt(output, 'finishing the cut that is being taken')
  const ids = await idsOf({ engine }, members)
  const offCompleted = engine.events.on('cut-completed', ({ cut }) => output.note(`cut ${cut} is complete`))
  const offAbandoned = engine.events.on('cut-abandoned', ({ cut, because }) =>
    output.note(`cut ${cut} was abandoned: ${because}`),
  )
  try {
    const schedule = await engine.groups.schedule(name, ids, {
      each,
      ...(keep !== undefined && { keep }),
      ...(timeout !== undefined && { timeout }),
    })
    await interruption.requested
    await schedule.close()
    output.result({ closed: name }, () => undefined)
    output.note(`the schedule ${name} continues in other processes; reprise group end ${name} ends it everywhere`)
    return exit.interrupted
  } finally {
    offCompleted()
    offAbandoned()
    interruption.off()
  }
}

async function end({ engine, output }: Invocation, args: readonly string[]): Promise<number> {
  const name = one(args, 'end NAME')
  await engine.groups.endSchedule(name)
  output.result({ ended: name }, () =>
    output.line(`ended the schedule ${name}; its cuts are kept until they are released`),
  )
  return exit.ok
}

async function ls({ engine, output }: Invocation): Promise<number> {
  const [cuts, restores] = [await engine.groups.cuts(), await engine.groups.restores()]
  const schedules = await engine.groups.schedules()
  output.result({ cuts, restores, schedules }, () => {
    for (const { name, status, members, eachMs, lastAt, because } of schedules) {
      const last = lastAt === null ? 'no cut yet' : `last cut ${when(lastAt)}`
      output.line(
        `schedule ${name}  ${status}  ${count(members.length, 'member')}  each ${formatMs(eachMs)}  ${last}${because === null ? '' : `  ${because}`}`,
      )
    }
    for (const { name, status, members, beganAt } of cuts)
      output.line(`cut ${name}  ${status}  ${count(members.length, 'member')}  ${when(beganAt)}`)
    for (const { id, status, members } of restores)
      output.line(`restore ${id}  ${status}  ${count(members.length, 'member')}`)
    if (cuts.length + restores.length + schedules.length === 0) output.note('no cut was captured yet')
  })
  return exit.ok
}

async function show({ engine, output }: Invocation, args: readonly string[]): Promise<number> {
  const cut = await engine.groups.cut(one(args, 'show NAME'))
  output.result(cut, () => reportCut(output, cut))
  return exit.ok
}

async function line(invocation: Invocation, args: readonly string[]): Promise<number> {
  const { engine, output } = invocation
  const plan = await engine.groups.plan(await lineTarget(invocation, args))
  output.result(plan, () => reportPlan(output, plan))
  return exit.ok
}

async function restore(invocation: Invocation, args: readonly string[]): Promise<number> {
  const { engine, options, output, stdin } = invocation
  const target = await targetOf(invocation, args)
  const plan = await engine.groups.plan(target)
  const takeover = flag(options, 'takeover')
  const wait = duration(options, 'timeout') ?? '10s'
  const force = flag(options, 'even-consumed') && { consumed: 'force' as const }
  const isRefused = !force && plan.members.some(({ consumers }) => consumers.length > 0)
  if (!flag(options, 'yes')) reportPlan(output, plan)
  if (!flag(options, 'yes') && !isRefused) {
    const members = plan.members.map(({ timeline }) => timeline)
    await mayRestore(engine, members, { waitMs: toMs(wait, '--timeout'), takeover })
    if (!(await confirm('All of them will be rolled back together. Continue?', stdin, output))) {
      output.note('nothing was changed; --yes skips the confirmation')
      return exit.usage
    }
  }
  const done = await engine.groups.restore(target, { wait, ...(takeover && { takeover }), ...force })
  output.result(done, () => reportRestored(output, done))
  return exit.ok
}

async function resume({ engine, options, output }: Invocation, args: readonly string[]): Promise<number> {
  const how = {
    ...(flag(options, 'takeover') && { takeover: true }),
    ...(flag(options, 'even-consumed') && { consumed: 'force' as const }),
  }
  const done = await engine.groups.resume(one(args, 'resume ID'), how)
  output.result(done, () => reportRestored(output, done))
  return exit.ok
}

async function abandon({ engine, output }: Invocation, args: readonly string[]): Promise<number> {
  const id = one(args, 'abandon ID')
  const wentBack = await engine.groups.abandon(id)
  output.result({ id, wentBack }, () => {
    output.line(`${id} is abandoned; its members continue as they are`)
    for (const { timeline, to } of wentBack) output.line(`${timeline} had gone back to ${to}`)
  })
  return exit.ok
}

async function release({ engine, output }: Invocation, args: readonly string[]): Promise<number> {
  const name = one(args, 'release NAME')
  await engine.groups.release(name)
  output.result({ released: name }, () => output.line(`released ${name}`))
  return exit.ok
}

/** One argument is a cut; several, or --failed, are members. */
async function targetOf(invocation: Invocation, args: readonly string[]): Promise<GroupTarget> {
  const isCut = args.length === 1 && invocation.options.failed === undefined
  return isCut ? { cut: args[0]! } : await lineTarget(invocation, args)
}

async function lineTarget(invocation: Invocation, args: readonly string[]): Promise<GroupTarget> {
  if (args.length === 0) throw new UsageError('name a cut, or the members: reprise group restore TIMELINE…')
  const { failed } = invocation.options
  const members = await idsOf(invocation, args)
  if (!Array.isArray(failed)) return { members }
  return { members, failed: await idsOf(invocation, failed) }
}

async function idsOf({ engine }: Pick<Invocation, 'engine'>, given: readonly string[]): Promise<string[]> {
  return await Promise.all(given.map(async (each) => (await findTimeline(engine, each)).timeline))
}

function one(args: readonly string[], usage: string): string {
  if (args.length === 1) return args[0]!
  throw new UsageError(`reprise group ${usage}`)
}

function reportCut(output: Output, { name, status, places, inFlight, because, missing }: GroupCut): void {
  output.line(`cut ${name} is ${status}${because === null ? '' : `: ${because}`}`)
  for (const { timeline, seq } of places) output.line(`${timeline}@${seq}`)
  if (inFlight > 0) output.line(`${count(inFlight, 'message')} in flight`)
  if (missing.length > 0) output.line(`missing: ${missing.join(', ')}`)
}

function reportPlan(output: Output, { members, cascade, drop, again, fellToOrigin, entriesLost }: GroupPlan): void {
  for (const { timeline, from, to, effects, consumers } of members) {
    output.line(to < from ? `${timeline} goes back from ${from} to ${to}` : `${timeline} stays at ${from}`)
    if (effects.compensate.length > 0) output.line(`  undone: ${effects.compensate.join(', ')}`)
    if (effects.cannot.length > 0)
      output.line(output.colours.yellow(`  cannot be undone: ${effects.cannot.join(', ')}`))
    if (effects.inDoubt.length > 0) output.line(output.colours.red(`  in doubt: ${effects.inDoubt.join(', ')}`))
    for (const { what } of consumers) output.line(output.colours.yellow(`  consumed: ${what}`))
  }
  if (members.some(({ consumers }) => consumers.length > 0)) {
    output.line('it is refused without --even-consumed')
  }
  for (const step of cascade) output.line(inWords(step))
  if (fellToOrigin.length > 0) output.line(output.colours.red(`back to the beginning: ${fellToOrigin.join(', ')}`))
  output.line(
    `${count(entriesLost, 'entry', 'entries')} are discarded, ${count(again.length, 'message')} delivered again, ${count(drop.length, 'message')} dropped`,
  )
}

function reportRestored(output: Output, { id, members }: GroupRestored): void {
  for (const { timeline, to, archive, isAsked, isMoved } of members) {
    if (!isMoved) output.line(`${timeline} stays where it is`)
    else if (isAsked) output.line(`${timeline} is rolled back to ${to} by the process that executes it`)
    else output.line(`${timeline} continues from ${to}; later entries are in ${archive}`)
  }
  output.note(`restore ${id}`)
}
