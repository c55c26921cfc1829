// Branches, races and loops: how code divides and repeats. Each branch and each iteration is a scope of its own.

import type { Branch, LoopContext, WorkflowContext } from './context.ts'
import type { Item } from './entries.ts'
import type { Instance } from './instance.ts'
import { commandName, enterScope, type Scope } from './scope.ts'

type Branches = readonly Branch<unknown>[] | Readonly<Record<string, Branch<unknown>>>

export async function parallel(
  run: Instance,
  scope: Scope,
  branches: Branches,
  contextOf: (scope: Scope) => WorkflowContext,
) {
  const started = fanOut(run, scope, scope.next('~all'), branches, contextOf)
  const values = await Promise.all(started.map(({ promise }) => promise))
  return Array.isArray(branches) ? values : Object.fromEntries(started.map(({ name }, i) => [name, values[i]]))
}

export async function race(
  run: Instance,
  scope: Scope,
  branches: Branches,
  contextOf: (scope: Scope) => WorkflowContext,
) {
  const started = fanOut(run, scope, scope.next('~race'), branches, contextOf)
  try {
    const first = await Promise.race(
      started.map(({ name, promise, scope: own }) => promise.then((value) => ({ winner: name, value, own }))),
    )
    return Array.isArray(branches) ? first.value : { winner: first.winner, value: first.value }
  } finally {
    for (const { scope: own, isSettled } of started) if (!isSettled()) run.execution.abandon(own, 'another branch won')
  }
}

function fanOut(
  run: Instance,
  scope: Scope,
  id: string,
  branches: Branches,
  contextOf: (scope: Scope) => WorkflowContext,
) {
  return Object.entries(branches).map(([name, branch]: [string, Branch<unknown>]) => {
    const own = run.execution.scope(scope, `${id}.${commandName(name)}`)
    let isSettled = false
    const promise = enterScope(own, async () => await branch(contextOf(own)))
    const settled = () => {
      isSettled = true
    }
    promise.then(settled, settled)
    return { name, scope: own, promise, isSettled: () => isSettled }
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
  run: Instance,
  scope: Scope,
  initial: unknown,
  body: (state: never, ctx: LoopContext) => unknown,
  contextOf: (scope: Scope) => WorkflowContext,
): Promise<unknown> {
  const id = scope.next('~loop')
  let at: Boundary = { n: 0, state: initial }
  // A boundary in history: all before it is done, and its outcomes are gone.
  if (run.execution.expects('loop', id)) at = await boundary(run, scope, id, null)
  for (;;) {
    const own = run.execution.scope(scope, `${id}.${at.n}`)
    const context = Object.assign(contextOf(own), { stop: (result: unknown) => new Stopped(result) })
    const { state } = at
    const next = await enterScope(own, async () => await body(state as never, context as unknown as LoopContext))
    if (next instanceof Stopped) return next.result
    at = await boundary(run, scope, id, { n: at.n + 1, state: next })
  }
}

/** The step over a boundary; `to` is null while it is only read from history. */
function boundary(run: Instance, scope: Scope, id: string, to: Boundary | null): Promise<Boundary> {
  // Asked for after the code was told of a cancellation: it goes on all the same, and must do so in a replay.
  const told = run.cancelled !== null
  return run.execution.ask<Boundary>(scope, id, {
    kind: 'loop',
    start: () => {
      if (!to) return
      const took = run.signals.takenBelow(`${id}.${to.n - 1}`)
      run.spawn(() => run.record('loop', { id, n: to.n, state: to.state, took, ...(told && { told }) }))
    },
    onItem: (command, item: Item) => {
      if (item.kind !== 'loop') return
      run.execution.passIteration(id, item.n)
      run.saga.settle(`${id}.`)
      run.checkpointIfDue()
      if (command.cancelled && !item.told) command.reject(run.cancelError())
      else command.resolve({ n: item.n, state: item.state })
    },
  })
}
