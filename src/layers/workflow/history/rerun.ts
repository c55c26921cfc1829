// Re-running one step and only what depends on it: which steps are repeated, which are kept, and when that would be unsound. Kept
// outcomes that follow a repeated one leave the journal, and return to it one by one as the code issues their commands.

import { RepriseError } from '../../../core/errors.ts'
import { readableId } from '../run/scope.ts'
import { dependantsOf, firstSeq, isOutcome, type OpenDependant, type Outcome, precedingOf } from './dependants.ts'
import type { Item } from './entries.ts'
import { findStep } from './find-step.ts'
import { itemsOf, journalOf } from './journal.ts'
import { own, type RunState } from './state.ts'

export interface RerunPlan {
  readonly timeline: string
  readonly step: string
  /** The step and its dependants, in the order of history. */
  readonly repeats: readonly string[]
  /** Steps that follow in history and keep their results. */
  readonly keeps: readonly string[]
}

/** A step of the graph of a run. */
export interface GraphStep {
  readonly step: string
  readonly id: string
  readonly outcome: 'done' | 'failed'
  /** The steps that it depends on directly. */
  readonly after: readonly string[]
  /** True if the code declares them. */
  readonly isDeclared: boolean
  /** The steps that a re-run would repeat, itself included. */
  readonly repeats: readonly string[]
}

const stepsMax = 500

/** The steps of a run, the newest 500, with the steps that each depends on and those that its re-run would repeat. */
export function graphOf(state: RunState): GraphStep[] {
  const items = allItems(state)
  const steps = items.filter(isOutcome).filter(isStep).slice(-stepsMax)
  const names = new Set(steps.map(({ id }) => id))
  return steps.map((one) => ({
    step: readableId(one.id),
    id: one.id,
    outcome: one.kind === 'failed' || (one.kind === 'child' && one.error) ? 'failed' : 'done',
    after: precedingOf(items, one)
      .filter((id) => names.has(id))
      .map(readableId),
    isDeclared: 'after' in one && one.after !== undefined,
    repeats: [...dependantsOf(items, one.id)].filter((id) => names.has(id)).map(readableId),
  }))
}

/** Throws NOT_FOUND, or RERUN_UNSOUND with the reason. */
export function planRerun(state: RunState, step: string, timeline: string): RerunPlan & { readonly id: string } {
  const refuse = (why: string) =>
    new RepriseError('RERUN_UNSOUND', `${timeline}: ${step} cannot be re-run alone: ${why}`, { timeline, step })
  const fault = faultOf(state)
  if (fault) throw refuse(fault)
  const { id } = findStep(state.journal, step, timeline)
  const items = itemsOf(state.journal)
  const ids = dependantsOf(items, id)
  const from = items.findIndex((item) => isOutcome(item) && item.id === id)
  for (const item of items.slice(from)) {
    const problem = problemOf(state, item, ids)
    if (problem) throw refuse(problem)
  }
  const named = (isWanted: (id: string) => boolean) =>
    items.slice(from).flatMap((item) => (isOutcome(item) && isWanted(item.id) ? [readableId(item.id)] : []))
  return {
    ...{ timeline, step: readableId(id), id },
    repeats: [...new Set(named((each) => ids.has(each)))],
    keeps: [...new Set(named((each) => !ids.has(each)))],
  }
}

/** The commands to repeat, with those that have no outcome yet. */
export function repeatedBy(state: RunState, to: string, open: readonly OpenDependant[] = []): Set<string> {
  return dependantsOf(itemsOf(state.journal), to, open)
}

/** The state after the repeated steps were undone: the code runs again, and finds the kept outcomes. */
export function withoutRepeated(state: RunState, ids: readonly string[], took: readonly number[]): RunState {
  const items = itemsOf(state.journal)
  const repeated = new Set(ids)
  const from = items.findIndex((item) => isOutcome(item) && repeated.has(item.id))
  const later = from === -1 ? [] : items.slice(from)
  const kept: Record<string, Outcome> = {}
  for (const item of later) {
    if (!isOutcome(item) || repeated.has(item.id) || Object.hasOwn(kept, item.id)) continue
    kept[item.id] = { ...item, first: firstSeq(item) }
  }
  const mail = later.filter((item) => !isOutcome(item) && !took.includes(item.seq))
  const counts = Object.fromEntries(ids.map((id) => [id, own(state.reruns ?? {}, id, 0) + 1]))
  return {
    ...state,
    journal: journalOf([...items.slice(0, from === -1 ? items.length : from), ...mail]),
    open: {},
    undone: Object.fromEntries(Object.entries(state.undone).filter(([id]) => !repeated.has(id))),
    undos: {},
    undoesInherited: false,
    rolling: null,
    end: null,
    reruns: { ...state.reruns, ...counts },
    rerun: Object.keys(kept).length > 0 ? { before: state.journal, kept } : null,
  }
}

/** The state after the code issued the command of a kept outcome, which is part of the journal again. */
export function withReused(state: RunState, id: string, seq: number, at: number): RunState {
  const { kept = {}, before } = state.rerun ?? {}
  const { [id]: item, ...rest } = kept
  if (!item) return state
  return {
    ...state,
    journal: journalOf([...itemsOf(state.journal), { ...item, seq, at }]),
    rerun: Object.keys(rest).length > 0 ? { before: before!, kept: rest } : null,
  }
}

/** Outcomes of the journal, and kept ones whose command the code has not issued yet. */
function allItems({ journal, rerun }: RunState): readonly Item[] {
  return [...itemsOf(journal), ...Object.values(rerun?.kept ?? {})].sort((a, b) => seqOf(a) - seqOf(b))
}

function seqOf(item: Item): number {
  return isOutcome(item) ? firstSeq(item) : item.seq
}

function isStep({ kind, id }: Outcome): boolean {
  return (kind === 'done' || kind === 'failed' || kind === 'child') && !/(^|\/)~race(#\d+)?~undo$/.test(id)
}

/** The reason why no step of the run can be re-run alone. */
function faultOf({ rolling, restored, undos, open, rerun, end, started, journal }: RunState): string | null {
  if (rolling) return 'the run is being rolled back or re-run; wait for it'
  if (restored?.isHeld) return 'the run is held after a failed compensation; resume it first'
  if (Object.keys(undos).length > 0) return 'a compensation is unfinished'
  const doubtful = Object.entries(open).find(([, { held, began }]) => held || began)
  if (doubtful) return `${readableId(doubtful[0])} is in doubt; settle it first`
  if (rerun) {
    const cure = end ? 'retry the run' : 'wait for it'
    return `an earlier re-run has not reached all the steps that it keeps; ${cure}`
  }
  if (itemsOf(journal).some(({ kind }) => kind === 'cancel')) return 'the run was cancelled; roll it back or fork it'
  if (end && started?.parent && !started.parent.detached) {
    return `its parent ${started.parent.timeline} has its result; re-run the step of the parent that started it`
  }
  return null
}

/** The reason why this later item prevents the re-run. */
function problemOf({ undone }: RunState, item: Item, repeated: ReadonlySet<string>): string | null {
  if (item.kind === 'update') return `the update ${item.name} came after it, and may have changed any later step`
  if (item.kind === 'loop') {
    const loop = readableId(item.id).replace('~', '')
    return `the ${loop} after it has finished iterations, which are no longer in its history; roll back or fork`
  }
  if (!isOutcome(item) || repeated.has(item.id) || !Object.hasOwn(undone, item.id)) return null
  return `${readableId(item.id)}, which would be kept, was undone; roll back or fork`
}
