// A person's decision on a held step or a stuck compensation. The run ignores a decision on anything else, so it is
// refused here, where the caller sees the refusal. Only the first decision counts: a repetition is accepted, a different
// one is refused with the author and content of the first, even if no process works on the run and both are in its
// mail.

import { equalBytes, type TimelineId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import {
  conflictingDecision,
  entriesBelow,
  type RecordedDecision,
  unreadOf,
} from '../../../engine/history/conflicting-decision.ts'
import type { Entry } from '../../../engine/history/history.ts'
import type { Host } from '../../../engine/host/host.ts'
import { workflowFold } from '../history/fold.ts'
import { noCommand, own, type RunState } from '../history/state.ts'
import { readableId } from '../run/scope.ts'

export type StepOutcome = 'done' | 'failed' | 'retry' | 'compensated'

interface Verdict {
  readonly id: string
  readonly outcome: string
  readonly result?: unknown
}

/** A held step accepts every decision; a stuck compensation accepts only these. */
const ofStuck: ReadonlySet<string> = new Set<StepOutcome>(['compensated', 'retry'])

/**
 * Sends the decision unless it was sent before; rejects with CONFLICT if a different one was. `check` refuses a
 * decision that nothing waits for.
 */
export async function settleOnce(
  engine: Host,
  timeline: TimelineId,
  decision: Verdict,
  check: () => Promise<void>,
  send: () => Promise<unknown>,
): Promise<void> {
  const before = await decidedBefore(engine, timeline, decision.id)
  if (before) return agree(engine, timeline, decision, before)
  await check()
  await send()
  // Another caller may have decided at the same moment: the first decision in the mail counts.
  const first = await decidedBefore(engine, timeline, decision.id)
  if (first) agree(engine, timeline, decision, first)
}

/**
 * Throws NOT_FOUND if the run has steps but not this one, and CONFLICT if the step is neither held nor has a stuck
 * undo, or if the decision does not apply to it.
 */
export async function checkSettleable(
  engine: Host,
  timeline: TimelineId,
  id: string,
  outcome: string = 'retry',
): Promise<void> {
  const state = await stateOf(engine, timeline)
  const step = readableId(id)
  const refuse = (what: string, waiting: readonly string[]) =>
    new RepriseError('CONFLICT', what, { timeline, run: timeline, step, waiting })
  if (own(state.open, id, noCommand).held) return
  const waiting = waitingIn(state).map(readableId)
  if (Object.hasOwn(state.undos, id)) {
    if (ofStuck.has(outcome)) return
    const what = `the undo of ${step} of ${timeline} is stuck: settle it as compensated if it was undone manually, or as retry`
    throw refuse(what, waiting)
  }
  const known = await stepsOf(engine, timeline)
  if (known.size > 0 && !known.has(id)) {
    const some = [...known].slice(0, 10).map(readableId)
    const what = `${timeline} has no step ${step}; it has ${some.join(', ')}${known.size > 10 ? ', …' : ''}`
    throw new RepriseError(
      'NOT_FOUND',
      what,
      { timeline, step, steps: some },
      undefined,
      'Name a step that the run has.',
    )
  }
  const hint =
    waiting.length > 0 ? `these wait for a person: ${waiting.join(', ')}` : 'no part of it waits for a person'
  throw refuse(`${step} of ${timeline} is not held and cannot be settled; ${hint}`, waiting)
}

/** The ids of all steps in the history of a run, with or without an outcome. */
async function stepsOf(engine: Host, timeline: TimelineId): Promise<Set<string>> {
  const head = await engine.head(timeline)
  const ids = new Set<string>()
  if (!head) return ids
  for await (const { data } of entriesBelow(engine.kernel, head)) {
    const { id } = (data ?? {}) as { readonly id?: unknown }
    if (typeof id === 'string') ids.add(id)
  }
  return ids
}

/** The first decision in the mail; if nothing waits for a decision any longer, the one that counted. */
async function decidedBefore(
  engine: Host,
  timeline: TimelineId,
  id: string,
): Promise<(RecordedDecision & { readonly result?: unknown }) | null> {
  for (const { at, data } of await unreadOf(engine.kernel, timeline, 'settle')) {
    const decision = data as Verdict & { readonly by: string }
    if (decision.id === id) return { ...decision, at }
  }
  const head = await engine.head(timeline)
  if (!head) return null
  const state = await stateOf(engine, timeline)
  if (own(state.open, id, noCommand).held || Object.hasOwn(state.undos, id)) return null
  let word: RecordedDecision | null = null
  for await (const entry of entriesBelow(engine.kernel, head)) word = wordIn(entry, id, word)
  return word
}

/** Entries after which the code runs from its start again and calls its steps again. */
const anew: ReadonlySet<string> = new Set(['continued', 'rolled', 'restored'])

function wordIn({ type, data, time }: Entry, id: string, before: RecordedDecision | null): RecordedDecision | null {
  const decision = data as { readonly id?: string; readonly ids?: readonly string[]; by?: string; result?: unknown }
  if (anew.has(type) || (type === 'retried' && decision.ids?.includes(id))) return null
  if (decision.id !== id) return before
  if (type === 'held' || type === 'stuck') return null
  const outcome = { done: 'done', failed: 'failed', undone: 'compensated', settled: 'retry' }[type]
  if (outcome === undefined || decision.by === undefined) return before
  return { outcome, by: decision.by, at: time, ...('result' in decision && { result: decision.result }) }
}

function agree(
  { kernel }: Host,
  timeline: string,
  decision: Verdict,
  before: RecordedDecision & { readonly result?: unknown },
): void {
  const { codec } = kernel
  const isOther =
    decision.result !== undefined && !equalBytes(codec.encode(decision.result), codec.encode(before.result))
  if (decision.outcome !== before.outcome || isOther) {
    throw conflictingDecision(timeline, readableId(decision.id), decision.outcome, before)
  }
}

async function stateOf(engine: Host, timeline: TimelineId): Promise<RunState> {
  const head = await engine.head(timeline)
  // The mail refuses or keeps messages for a run that does not exist, or is being moved here.
  if (!head) throw new RepriseError('NOT_FOUND', `there is no run ${timeline}`, { timeline })
  return (await engine.recover(head, workflowFold)).state.value
}

function waitingIn(state: RunState): string[] {
  const held = Object.entries(state.open).flatMap(([id, command]) => (command.held ? [id] : []))
  return [...Object.keys(state.undos), ...held]
}
