// The state of a run as its author knows it, for time travel: input, results of steps, messages, waits and the end. Data that
// only a replay needs (seeds, keys, positions) and empty parts are omitted.

import { readableId } from '../run/scope.ts'
import type { Item, NotedWait } from './entries.ts'
import type { Failure } from './failure.ts'
import { itemsOf } from './journal.ts'
import { own, type RunState } from './state.ts'
import { inWords, waitsOf } from './summary.ts'

/** Known only if the code of the workflow is here. */
export interface FromCode {
  /** The waits of the code; more exact than those that the run recorded. */
  readonly waits: readonly NotedWait[]
  /** The answers of its queries. */
  readonly queries: Readonly<Record<string, unknown>>
}

/** @example shownRun(state).steps // { charge: { id: 'pay_81' } } */
export function shownRun(state: RunState, code: FromCode | null = null): Record<string, unknown> {
  const { started, startedAt, input, end, rolling, restored } = state
  if (!started) return {}
  const waits = end ? [] : waitsOf(state, code?.waits ?? state.waits ?? [])
  return {
    ...(input !== undefined && { input }),
    startedAt: new Date(startedAt),
    ...(started.deadline !== undefined && { deadline: new Date(started.deadline) }),
    ...(started.parent && { parent: started.parent.timeline }),
    steps: {},
    ...outcomes(state),
    ...filled({
      inFlight: named(Object.entries(state.open), ({ failures, notBefore, error, held, details }) => ({
        ...(failures > 0 && { failures, ...failing(error) }),
        ...(notBefore > 0 && { nextAttempt: new Date(notBefore) }),
        ...(held && { held }),
        ...(details !== undefined && { details }),
      })),
      patches: Object.keys(state.patches).map((id) => readableId(id.replace('~patch:', ''))),
      undone: Object.keys(state.undone).map(readableId),
      undoing: named(Object.entries(state.undos), ({ failures, error, isStuck }) => ({
        ...{ failures, ...failing(error) },
        ...(isStuck && { isStuck }),
      })),
    }),
    ...(rolling && { rollingBackTo: readableId(rolling.to) }),
    ...(restored && { stands: restored.stands }),
    ...filled({
      kept: Object.keys(state.rerun?.kept ?? {}).map(readableId),
      notReached: (state.unused ?? []).map(readableId),
    }),
    ...filled({ waitsFor: waits.map(inWords), queries: code?.queries ?? {} }),
    ...(end && { end: { ...end, at: new Date(end.at) } }),
  }
}

/** The outcomes and messages of the journal, each in the part that its kind belongs to. */
function outcomes({ journal, updates }: RunState): Record<string, unknown> {
  const items = itemsOf(journal)
  const of = <K extends Item['kind']>(kind: K) =>
    items.filter((item): item is Extract<Item, { kind: K }> => item.kind === kind)
  const byId = <T extends { readonly id: string }>(found: readonly T[]) => found.map((item) => [item.id, item] as const)
  const isStart = ({ id }: { readonly id: string }) => /~(child|start):/.test(id)
  const done = of('done')
  const children = [
    ...byId(done.filter(isStart)).map(([id]) => [id, { started: true }] as const),
    ...byId(of('child')).map(([id, { result = null, error }]) => {
      return [id, error ? { status: 'failed', ...failing(error) } : { status: 'completed', result }] as const
    }),
  ]
  return filled({
    steps: named(byId(done.filter((item) => !isStart(item))), ({ result = null, rode }) =>
      rode === null ? result : 'stored in the database, not in the history yet',
    ),
    failed: named(byId(of('failed')), ({ error }) => error.message),
    // The end of a child replaces its start.
    children: named([...new Map<string, unknown>(children)], (child) => child),
    timers: named(byId(of('timer')), ({ at }) => new Date(at)),
    loops: named(byId(of('loop')), ({ n, state }) => ({ iteration: n, state })),
    signals: of('signal').map(({ name, value = null }) => ({ name, value })),
    updates: of('update').map(({ update, name, args }) => {
      const { result, error } = own(updates, update, {})
      return { name, args, ...(result !== undefined && { result }), ...failing(error) }
    }),
    cancelled: of('cancel').map(({ reason, why }) => ({ reason, why })),
  })
}

/** By readable names. A name that another command has already is replaced with the id, so that neither hides the other. */
function named<T>(entries: readonly (readonly [id: string, value: T])[], show: (value: T) => unknown) {
  const found = new Map<string, unknown>()
  for (const [id, value] of entries) {
    const name = readableId(id.replace(/~(child|start|signal):/g, '').replace(/~(?=(sleep|loop)\b)/g, ''))
    found.set(found.has(name) ? id : name, show(value))
  }
  return Object.fromEntries(found)
}

function filled(parts: Readonly<Record<string, object>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(parts).filter(([, part]) => Object.keys(part).length > 0))
}

function failing(error: Failure | null | undefined): { readonly error?: string } {
  return error ? { error: error.message } : {}
}
