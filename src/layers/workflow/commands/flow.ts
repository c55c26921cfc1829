// Branches, races and loops. Each branch and each iteration has its own scope.

import type { RepriseError } from '../../../core/errors.ts'
import type { Branch, LoopContext, RaceOptions, WorkflowContext } from '../context.ts'
import type { Item } from '../history/entries.ts'
import type { CommandRun } from '../run/command-host.ts'
import type { Position } from '../run/observations.ts'
import type { Recorder } from '../run/recorder.ts'
import { commandName, enterScope, type Scope } from '../run/scope.ts'
import type { Saga } from './saga.ts'
import type { Signals } from './waits.ts'

/** The parts of a run that branches and loops use. */
export interface BranchingRun extends CommandRun {
  readonly code: CommandRun['code'] & {
    readonly cancelled: RepriseError | null
    readonly saga: Pick<Saga, 'undoBelow' | 'settle'>
    readonly signals: Pick<Signals, 'takenBelow'>
  }
  readonly recorder: Pick<Recorder, 'record' | 'checkpointIfDue'>
}

type Branches = readonly Branch<unknown>[] | Readonly<Record<string, Branch<unknown>>>

export async function parallel(
  run: BranchingRun,
  scope: Scope,
  branches: Branches,
  contextOf: (scope: Scope) => WorkflowContext,
) {
  const id = scope.next('~all')
  const started = fanOut(run, scope, id, branches, contextOf)
  let values: unknown[]
  try {
    values = await Promise.all(started.map(({ promise }) => promise))
  } catch (error) {
    scope.observed.join(id, endsOf(started.filter(({ isFailed }) => isFailed()).slice(0, 1)))
    throw error
  }
  scope.observed.join(id, endsOf(started))
  return Array.isArray(branches) ? values : Object.fromEntries(started.map(({ name }, i) => [name, values[i]]))
}

export async function race(
  run: BranchingRun,
  scope: Scope,
  branches: Branches,
  options: RaceOptions,
  contextOf: (scope: Scope) => WorkflowContext,
) {
  const id = scope.next('~race')
  const started = fanOut(run, scope, id, branches, contextOf)
  const losers: Scope[] = []
  const settled = await settle(run, started, losers)
  scope.observed.join(`${id} ${settled.won.path}`, [settled.won.observed.here()])
  if (options.losers === 'undo') await undoLosers(run, scope, `${id}~undo`, losers)
  if ('error' in settled) throw settled.error
  const { winner, value } = settled.first
  return Array.isArray(branches) ? value : { winner, value }
}

type Started = ReturnType<typeof fanOut>

/** Resolves with the first branch to settle; the other branches are abandoned and added to `losers`. */
async function settle(run: BranchingRun, started: Started, losers: Scope[]) {
  let won: Scope | null = null
  const firsts = started.map(({ name, promise, scope: own }) =>
    promise.then(
      (value) => {
        won ??= own
        return { won: own, first: { winner: name, value } }
      },
      (error: unknown) => {
        won ??= own
        return { won: own, error }
      },
    ),
  )
  const settled = await Promise.race(firsts)
  for (const { scope: own, isSettled } of started) {
    if (!isSettled()) run.code.execution.abandon(own, 'another branch won')
    if (own !== won) losers.push(own)
  }
  return settled
}

/** A single command, so that a replay waits for the undo at the same point as this execution. */
function undoLosers(run: BranchingRun, scope: Scope, id: string, losers: readonly Scope[]): Promise<unknown> {
  return run.code.execution.ask(scope, id, {
    kind: 'undo',
    start: () =>
      run.code.saga.undoBelow(
        id,
        losers.map(({ path }) => path),
      ),
    onItem: (command) => command.resolve(undefined),
  })
}

function endsOf(branches: Started): Position[] {
  return branches.map(({ scope }) => scope.observed.here())
}

function fanOut(
  run: BranchingRun,
  scope: Scope,
  id: string,
  branches: Branches,
  contextOf: (scope: Scope) => WorkflowContext,
) {
  return Object.entries(branches).map(([name, branch]: [string, Branch<unknown>]) => {
    const own = run.code.execution.scope(scope, `${id}.${commandName(name)}`)
    let isSettled = false
    let isFailed = false
    const promise = enterScope(own, async () => await branch(contextOf(own)))
    const settled = () => {
      isSettled = true
    }
    promise.then(settled, () => {
      settled()
      isFailed = true
    })
    return { name, scope: own, promise, isSettled: () => isSettled, isFailed: () => isFailed }
  })
}

class Stopped {
  readonly result: unknown
  constructor(result: unknown) {
    this.result = result
  }
}

type Boundary = { readonly n: number; readonly state: unknown }

export async function loop(
  run: BranchingRun,
  scope: Scope,
  initial: unknown,
  body: (state: never, ctx: LoopContext) => unknown,
  contextOf: (scope: Scope) => WorkflowContext,
): Promise<unknown> {
  const id = scope.next('~loop')
  let at: Boundary = { n: 0, state: initial }
  // A boundary that history already has: everything before it is done, and its outcomes were dropped from the journal.
  if (run.code.execution.expects('loop', id)) at = await boundary(run, scope, id, null)
  for (;;) {
    const own = run.code.execution.scope(scope, `${id}.${at.n}`)
    // Earlier iterations are dropped: the state carries everything that this iteration knows of them.
    if (at.n > 0) own.observed.addResult('~state', at.state)
    const context = Object.assign(contextOf(own), { stop: (result: unknown) => new Stopped(result) })
    const { state } = at
    const next = await enterScope(own, async () => await body(state as never, context as unknown as LoopContext))
    if (next instanceof Stopped) {
      scope.observed.join(`${id}.${at.n}`, [own.observed.here()])
      return next.result
    }
    at = await boundary(run, scope, id, { n: at.n + 1, state: next })
  }
}

/** Passes the boundary between two iterations. `to` is null while the boundary is only read from history. */
function boundary(run: BranchingRun, scope: Scope, id: string, to: Boundary | null): Promise<Boundary> {
  // Code that reaches a boundary after its cancellation continues into the next iteration, and a replay must do the
  // same.
  const isCancelDelivered = run.code.cancelled !== null
  return run.code.execution.ask<Boundary>(scope, id, {
    kind: 'loop',
    start: () => {
      if (!to) return
      const took = run.code.signals.takenBelow(`${id}.${to.n - 1}`)
      run.spawn(() =>
        run.recorder.record('loop', { id, n: to.n, state: to.state, took, ...(isCancelDelivered && { told: true }) }),
      )
    },
    onItem: (command, item: Item) => {
      if (item.kind !== 'loop') return
      run.code.execution.passIteration(id, item.n)
      run.code.saga.settle(`${id}.`)
      run.recorder.checkpointIfDue()
      if (command.cancelled && !item.told) command.reject(run.code.cancelError())
      else command.resolve({ n: item.n, state: item.state })
    },
  })
}
