// The models of workflows, their queues and their schedules, for tools. Rollback and fork of a run differ from those of
// other timelines: the run's own code undoes its steps, history stays, and a worker of the workflow executes the rest.

import { toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { inheritedBy, ownerOf } from '../../core/history/inheritance.ts'
import { idBelow } from '../../core/history/scope.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Entry } from '../../engine/history/history.ts'
import { locate } from '../../engine/history/locate.ts'
import { hostOf as engineHostOf, type Host } from '../../engine/host/host.ts'
import type { Fold } from '../../engine/model/definition.ts'
import type { Actions, HeadAgain, Model, Surroundings, Target } from '../../engine/model/model.ts'
import { type Consumer, noEffects, type Rollback } from '../../engine/model/rollback-report.ts'
import { childrenAfter } from './commands/children.ts'
import { sealResults } from './commands/transaction.ts'
import type { AnyWorkflow } from './context.ts'
import { forkRun, stepEdits } from './handle/fork.ts'
import type { WorkflowRun } from './handle/run.ts'
import { ChildMail } from './history/child-mail.ts'
import { firstSeq } from './history/dependants.ts'
import type { Item } from './history/entries.ts'
import { workflowFold } from './history/fold.ts'
import { itemsOf } from './history/journal.ts'
import { attention, entryRow, refuses, statusLine, statusNow } from './history/journal-rows.ts'
import { outsideOf } from './history/outside-calls.ts'
import { mailFault } from './history/shapes.ts'
import { shownRun } from './history/shown-state.ts'
import type { RunState } from './history/state.ts'
import { inWords, notedWaits, summarizeWorkflow } from './history/summary.ts'
import { hostOf } from './host.ts'
import { endings, nameOf, queueOf } from './names.ts'
import { makeDue } from './queue/due.ts'
import { enterMessage, leaveMessages } from './queue/queue.ts'
import { readableId } from './run/scope.ts'
import { isWithoutCode, withoutCode } from './without-code.ts'
import { foldOf, hasOwnPolicy } from './workflow-fold.ts'

const outcomes = ['done', 'failed', 'retry', 'compensated'] as const

const actions: Actions = {
  resume: { instead: 'a worker resumes it: name the module that exports it' },
  redrive: { instead: 'retry undoes the failure of a run, settle records the outcome of a held step' },
  decide: { instead: 'signal or settle it' },
  stop: { instead: 'it continues as long as a worker executes it: stop that worker, or cancel the run' },
  cancel: async (target, { reason, undo }) => {
    await runOf(target).cancel({ reason, ...keyed(target), ...(undo && { undo }) })
    return sent(target, `requested the end of ${target.head.timeline}`, { asked: [target.head.timeline] })
  },
  terminate: async (target, { reason }) => {
    await runOf(target).terminate({ reason, ...keyed(target) })
    return done(target, `${target.head.timeline} ends without compensation`, {})
  },
  retry: async (target) => {
    await runOf(target).retry(keyed(target))
    return done(target, `${target.head.timeline} resumes after its failure`, {})
  },
  rerun: async (target, { step, undo, consumed }) => {
    const options = { ...keyed(target), ...(undo && { undo }), ...(consumed && { consumed }) }
    const { repeats, keeps } = await runOf(target).rerun(step, options)
    const words = `${target.head.timeline} repeats ${repeats.join(', ')}`
    const text = keeps.length > 0 ? `${words}; it keeps ${keeps.join(', ')}` : words
    return sent(target, text, { timeline: target.head.timeline, step, repeats, keeps })
  },
  signal: async (target, { name, ...rest }) => {
    await runOf(target).signal(name, rest.value, keyed(target))
    return sent(target, `sent ${name} to ${target.head.timeline}`, { timeline: target.head.timeline, signal: name })
  },
  settle: async (target, { step, outcome, by, ...rest }) => {
    const known = outcomes.find((each) => each === outcome)
    if (!known) {
      throw new RepriseError(
        'INVALID_ARGUMENT',
        `the outcome of a step must be ${outcomes.join(', ')} (got ${outcome})`,
        {},
      )
    }
    await runOf(target).settle(step, known, { by, ...('result' in rest && { result: rest.result }), ...keyed(target) })
    return sent(target, `${step} of ${target.head.timeline} counts as ${known}`, {
      timeline: target.head.timeline,
      step,
      outcome: known,
    })
  },
  rollback: rollBack,
  fork: ({ engine, head }, { seq, to, entries, edit, mark }) =>
    forkRun(engineHostOf(engine), {
      ...{ timeline: head.timeline, seq, to, entries, mark },
      ...(edit && { by: edit.by }),
      ...(edit && 'input' in edit && { input: edit.input }),
    }),
}

/** The model of runs without their code. */
export const workflowKind: Model = {
  kind: 'workflow',
  name: null,
  scope: 'workflow/',
  fold: workflowFold as Fold<unknown>,
  policy: 'fixed',
  mailFault,
  usual: { ...(workflowFold.retain && { retain: workflowFold.retain }) },
  unfinished: [...['queued', 'waiting', 'running', 'held', 'compensating', 'stuck'], ...['diverged', 'quarantined']],
  attention,
  summarize,
  shows: (state) => shownRun(state as RunState),
  headOf,
  statusLine,
  statusNow,
  storedAs: { running: ['waiting'] },
  refuses,
  entryRow,
  did,
  outside: (state, hash, inherited) => outsideOf(state as RunState, hash, inherited),
  actions,
  edits: stepEdits,
  async refuse(target, verb, { seq }) {
    if (verb === 'terminate') await runOf(target).refuseEnded()
    if (verb === 'rollback' && seq !== undefined) await undoneBy(target, seq)
  },
  seals: sealResults,
  childrenAfter: (state, timeline, seq, known) => childrenAfter(state as RunState, timeline, seq, known),
  exchanges: (_, state) => new ChildMail(state as RunState),
  goesBackItself: true,
  transfer: {
    stays: whyItStays,
    // A moved run frees its queue place here and enters the queue again at its destination.
    leaves: async ({ engine: rp, head }) => {
      const engine = engineHostOf(rp)
      return leaveMessages(engine, head.timeline, await stateOf(engine, head))
    },
    arrives: async ({ engine: rp, head }) => {
      const engine = engineHostOf(rp)
      const { started, end } = await stateOf(engine, head)
      if (!started?.queue || end) return []
      return [enterMessage(engine, started.queue, head.timeline, started.queue.key ?? '', head.priority)]
    },
    // A copy is executed at once, like a fork: it waits for its own child, queue place or decision.
    headOfCopy: async ({ engine: rp, head }) => {
      const engine = engineHostOf(rp)
      const { started, end } = await stateOf(engine, head)
      if (end || !started) return {}
      return headOf({ started, end, isAdmitted: false }, head, engine)
    },
    // Admissions, results of children and requests of people are for the original.
    copiesMail: (kind) => kind === 'signal' || kind === 'update',
  },
}

/** The run is due at once unless it is queued; its next owner determines and writes its actual waits. */
function headOf(state: unknown, head: Head, { worker }: Pick<Surroundings, 'worker'>): HeadAgain {
  const { started, isAdmitted, end } = state as Pick<RunState, 'started' | 'isAdmitted' | 'end'>
  if (end) return { status: end.kind, queue: null, wakeup: null, attributes: { problem: null } }
  const queue = queueOf({ name: nameOf(head.timeline) })
  if (started?.queue && !isAdmitted) return { status: 'queued', queue, wakeup: null }
  return { status: 'waiting', queue, wakeup: worker.now(head.timeline), attributes: { problem: null } }
}

export function workflowModel(definition: AnyWorkflow): Model {
  const resume = async ({ engine, head }: Target) => {
    const result = await goOn(engineHostOf(engine), definition, head)
    return { text: `${head.timeline} ended`, facts: { timeline: head.timeline, result } }
  }
  return {
    ...workflowKind,
    name: definition.name,
    scope: definition.prefix,
    fold: foldOf(definition) as Fold<unknown>,
    policy: hasOwnPolicy(definition) ? 'declared' : 'fixed',
    shows: (state, { engine, timeline }) => showWithCode(engineHostOf(engine), definition, timeline, state as RunState),
    actions: { ...actions, resume },
  }
}

/** The code is replayed up to this state, without calling a step. Code that diverges contributes nothing. */
async function showWithCode(engine: Host, definition: AnyWorkflow, timeline: string, state: RunState) {
  const { started, isAdmitted, rolling } = state
  if (!started || !isAdmitted || rolling || isWithoutCode(definition)) return shownRun(state)
  const { queries, divergence, open } = await hostOf(engine).replay(definition, timeline, state)
  return shownRun(state, divergence ? null : { waits: notedWaits(open), queries: queries.answers() })
}

async function stateOf(engine: Host, head: Head): Promise<RunState> {
  return (await engine.recover(head, workflowFold)).state.value
}

/** The reason why a run cannot be moved: its parent waits for it, or it waits for a child. */
function whyItStays(state: unknown): string | null {
  const { started, open, end } = state as RunState
  if (end) return null
  if (started?.parent && !started.parent.detached) return `${started.parent.timeline} waits for it: move that run`
  const noted = (state as RunState).waits?.find(([kind]) => kind === 'child')?.[1]
  const child = noted ?? Object.keys(open).find((id) => id.includes('~child:'))
  return child ? `it waits for its child ${readableId(child)}, which must end first` : null
}

/** Executes this run, and no new ones, in this process until it ends. */
async function goOn(engine: Host, definition: AnyWorkflow, head: Head): Promise<unknown> {
  const host = hostOf(engine)
  host.work(definition)
  const run = host.handle(definition, idBelow(definition.prefix, head.timeline) ?? '')
  if (head.status === 'stuck') await run.resume('reprise resume')
  else if (!endings.has(head.status)) await makeDue(engine, head)
  return await run.result()
}

/** Rolls back to a sequence: the step after it and all later ones are undone, in reverse, by the run's own code. */
async function rollBack(
  target: Target,
  { seq, key, undo, consumed }: { seq: number; key?: string; undo?: 'inherited'; consumed?: readonly Consumer[] },
): Promise<Rollback> {
  const { head } = target
  const engine = engineHostOf(target.engine)
  const { point, lineage } = await locate(engine.kernel, { timeline: head.timeline, seq })
  const { first, later } = await undoneBy(target, seq)
  await runOf(target).rollbackDecided(
    { to: first.id, ...(key !== undefined && { seq, key }), ...(undo && { undo }), consumed: 'force' },
    consumed,
  )
  const inherited = inheritedBy(lineage)
  const isUndone = (item: Item) =>
    undo !== undefined || ownerOf(inherited, 'first' in item ? firstSeq(item) : item.seq) === null
  return {
    timeline: head.timeline,
    archive: null,
    from: head.seq,
    to: { timeline: head.timeline, seq, epoch: head.epoch, digest: toHex(point.digest) },
    effects: noEffects,
    asked: { from: readableId(first.id), undoes: later.filter(isUndone).flatMap(stepOf).reverse() },
  }
}

/** The outcomes after that sequence, and the first command among them. */
async function undoneBy(target: Target, seq: number) {
  const { timeline } = target.head
  const later = itemsOf((await runOf(target).state()).journal).filter((item) => item.seq > seq)
  const first = later.find((item) => 'id' in item)
  if (first && 'id' in first) return { first, later }
  const what = `${timeline} has no step after ${seq} to undo`
  throw new RepriseError('OUT_OF_RANGE', what, { timeline, seq })
}

function runOf({ engine, head }: Target): WorkflowRun {
  const host = hostOf(engineHostOf(engine))
  const name = nameOf(head.timeline)
  const definition = host.definition(name) ?? withoutCode(name)
  return host.handle(definition, idBelow(definition.prefix, head.timeline) ?? '')
}

function keyed({ key }: Target): { readonly key?: string } {
  return key === undefined ? {} : { key }
}

function did({ type, data }: Entry): string | null {
  if (type !== 'done' && type !== 'child') return null
  const { id } = data as { readonly id: string }
  const name = readableId(id.replace(/~(child|start):/, ''))
  if (type === 'child') return `child ${name} ended`
  return /~(child|start):/.test(id) ? `child ${name} started` : `step ${name}`
}

function stepOf(item: Item): string[] {
  return item.kind === 'done' ? [readableId(item.id)] : []
}

/** The report of a message. A run that was set aside does not read its mail, which its sender must know. */
function sent({ head }: Target, text: string, facts: Record<string, unknown>) {
  const { status } = head
  if (status !== 'diverged' && status !== 'quarantined') return { text, facts }
  const notice = `the run is ${status}, and reads it once a worker with matching code takes it`
  return { text: `${text}; ${notice}`, facts: { ...facts, notice } }
}

function done({ head }: Target, text: string, facts: Record<string, unknown>) {
  return { text, facts: { timeline: head.timeline, ...facts } }
}

function summarize(state: unknown, head: Head): Record<string, unknown> {
  const { input, journal, open, end, generation, rolling, restored } = state as RunState
  const waiting = Object.entries(open).map(([id, { failures, held }]) => {
    return `${readableId(id)}${held ? ' (held)' : failures > 0 ? ` (${failures} failed attempts)` : ''}`
  })
  const { waits } = summarizeWorkflow(state as RunState)
  return {
    input,
    steps: itemsOf(journal).filter((item) => item.kind === 'done').length,
    ...(waiting.length > 0 && { open: waiting }),
    ...(waits.length > 0 && { waitsFor: waits.map(inWords) }),
    ...(generation > 0 && { generation }),
    ...(restored && { stands: restored.stands.map(({ step, why }) => `${step}: ${why}`) }),
    ...(rolling && { rollingBackTo: readableId(rolling.to) }),
    ...(head.attributes.problem !== undefined && { problem: head.attributes.problem }),
    ...(end && { end }),
  }
}
