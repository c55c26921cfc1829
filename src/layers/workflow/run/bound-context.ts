// Binds the context to a run: every method finds the branch that called it and passes the command on.

import { type Duration, toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import type { Limits } from '../../../core/limits.ts'
import { aFunction, checkOptions, checkValues, namesOf } from '../../../core/options.ts'
import { checkAttributes } from '../../../core/store/argument-checks.ts'
import type { Attribute } from '../../../core/store/ports.ts'
import { checkFunction, checkFunctionMap } from '../../../core/synchronous.ts'
import { type LogPlace, logPlace } from '../../../engine/base/log.ts'
import { checkDefinition, runs } from '../../../engine/model/definition.ts'
import type { Recallable } from '../../../engine/model/memo-protocol.ts'
import { splitArguments } from '../../../engine/model/run-arguments.ts'
import { askChild, askStart, type ParentRun } from '../commands/children.ts'
import { type BranchingRun, loop, parallel, race } from '../commands/flow.ts'
import { askMemo, askNamedMemo, type SharingRun } from '../commands/memo.ts'
import type { Queries } from '../commands/queries.ts'
import type { Saga } from '../commands/saga.ts'
import { askStep, noStepOptions } from '../commands/steps.ts'
import { askTransaction, type TransactionRun } from '../commands/transaction.ts'
import { askSleep, type Signals } from '../commands/waits.ts'
import type {
  AnyWorkflow,
  ChildOptions,
  RaceOptions,
  StepOptions,
  StepSettings,
  TransactionOptions,
  WorkflowContext,
} from '../context.ts'
import { messageName } from '../messages.ts'
import { tolerated } from './command.ts'
import { ContinueAsNew } from './ending.ts'
import type { Recorder } from './recorder.ts'
import { commandName, currentPlace, leaveScope, type Scope } from './scope.ts'

/** The run as the context uses it: all kinds of commands, queries and updates. */
export interface BoundRun extends SharingRun, TransactionRun, ParentRun, BranchingRun {
  readonly definition: AnyWorkflow
  readonly kernel: TransactionRun['kernel'] & SharingRun['kernel'] & ParentRun['kernel'] & { readonly limits: Limits }
  readonly code: SharingRun['code'] &
    BranchingRun['code'] & { readonly saga: Saga; readonly signals: Signals; readonly queries: Queries }
  readonly open: SharingRun['open'] & ParentRun['open']
  readonly host: SharingRun['host'] & TransactionRun['host'] & ParentRun['host']
  readonly tenure: SharingRun['tenure']
  readonly recorder: Recorder
}

/** `scope` is the scope that received the context; code that passes the context to another branch is detected there. */
export function contextOf(run: BoundRun, scope: Scope): WorkflowContext {
  return new BoundContext(new Binding(run, scope)) as unknown as WorkflowContext
}

/** A memo as a step with a name of its own, for graphs (dag.ts). */
export interface NamedMemos extends WorkflowContext {
  memoStep<Args extends readonly unknown[], Result>(
    name: string,
    definition: Recallable<Args, Result>,
    args: Args,
    options: StepSettings<Result>,
  ): Promise<Result>
}

class Binding {
  readonly run: BoundRun
  readonly execution: BoundRun['code']['execution']
  readonly scope: Scope

  constructor(run: BoundRun, scope: Scope) {
    this.run = run
    this.execution = run.code.execution
    this.scope = scope
  }

  /** The scope of the calling branch. */
  here(what: string): Scope {
    const place = currentPlace()
    if (place?.step) {
      throw new RepriseError('INVALID_ARGUMENT', `ctx.${what} was called inside a step: steps do not nest`, {
        call: what,
      })
    }
    return place?.scope?.run === this.execution ? place.scope : this.scope
  }

  readonly again = (scope: Scope): WorkflowContext => contextOf(this.run, scope)
}

// biome-ignore lint/suspicious/noExplicitAny: WorkflowContext has the types; these methods only pass their arguments on.
type Method = (...args: any[]) => unknown

type Named = string | { readonly name: string }

const knownSignal = new Set(['timeout', 'otherwise'])
const knownUpdate = new Set(['validate'])
const knownRace = namesOf<RaceOptions>()('losers')
const knownChild = namesOf<ChildOptions>()('id whenCancelled whenUndone attributes timeout')

const childValues = { whenCancelled: ['cancel', 'abandon'], whenUndone: ['keep', 'undo'] }

function checkedChild(where: string, options: ChildOptions): ChildOptions {
  checkOptions(where, options, knownChild)
  checkValues(where, options, childValues)
  return options
}

/** Created on first access: a run uses a few of the many methods, and code may destructure them from the context. */
const methods: Readonly<Record<string, (bound: Binding) => Method>> = {
  step: (bound) =>
    direct((name, call, options: StepOptions<unknown> = noStepOptions) =>
      askStep(bound.run, bound.here('step'), name, call, options),
    ),
  memoStep: (bound) =>
    direct((name, definition: Recallable<readonly unknown[], unknown>, args, options) =>
      askNamedMemo(bound.run, bound.here('memo'), name, definition, args, options),
    ),
  memo: (bound) =>
    direct((definition: Recallable<readonly unknown[], unknown>, ...args: readonly unknown[]) =>
      askMemo(bound.run, bound.here('memo'), definition, args),
    ),
  transaction: (bound) =>
    tolerant((name, call, options: TransactionOptions<unknown> = {}) =>
      askTransaction(bound.run, bound.here('transaction'), name, call, options),
    ),
  sleep: (bound) =>
    tolerant((duration: Duration) => {
      const ms = toMs(duration, 'sleep')
      return askSleep(bound.run, bound.here('sleep'), (now) => now + ms)
    }),
  sleepUntil: (bound) =>
    tolerant((when: Date | number) => {
      const at = Number(when)
      if (!Number.isFinite(at)) throw new RepriseError('INVALID_ARGUMENT', 'sleepUntil() needs a Date or milliseconds')
      return askSleep(bound.run, bound.here('sleepUntil'), () => at)
    }),
  signal: (bound) =>
    tolerant((signal: Named, options: { timeout?: Duration } = {}) => {
      checkOptions('signal', options, knownSignal)
      return bound.run.code.signals.ask(bound.here('signal'), messageName(signal), options)
    }),
  child: (bound) =>
    tolerant((definition: AnyWorkflow, ...given: readonly unknown[]) => {
      checkDefinition(definition, runs, 'ctx.child()')
      const [input, options] = splitArguments('child', definition, given)
      return askChild(
        bound.run,
        bound.here('child'),
        definition,
        input,
        checkedChild('child', (options ?? {}) as ChildOptions),
      )
    }),
  start: (bound) =>
    tolerant((definition: AnyWorkflow, ...given: readonly unknown[]) => {
      checkDefinition(definition, runs, 'ctx.start()')
      const [input, options] = splitArguments('start', definition, given)
      return askStart(
        bound.run,
        bound.here('start'),
        definition,
        input,
        checkedChild('start', (options ?? {}) as ChildOptions),
      )
    }),
  parallel: (bound) =>
    tolerant((branches) => {
      checkFunctionMap('parallel()', branches)
      const scope = bound.here('parallel')
      return bound.execution.given(scope, parallel(bound.run, scope, branches, bound.again))
    }),
  race: (bound) =>
    tolerant((branches, options: RaceOptions = {}) => {
      checkOptions('race', options, knownRace)
      checkValues('race', options, { losers: ['keep', 'undo'] })
      checkFunctionMap('race()', branches)
      if (Object.keys(branches).length === 0) {
        throw new RepriseError(
          'INVALID_ARGUMENT',
          'race() needs at least one branch: without a branch, it never ends',
          {},
        )
      }
      const scope = bound.here('race')
      return bound.execution.given(scope, race(bound.run, scope, branches, options, bound.again))
    }),
  loop: (bound) =>
    tolerant((state, body) => {
      checkFunction(body, 'loop()')
      const scope = bound.here('loop')
      return bound.execution.given(scope, loop(bound.run, scope, state, body, bound.again))
    }),
  patch: (bound) => (name: string) => patch(bound.run, bound.here('patch'), name),
  continueAsNew: () => (input) => {
    throw new ContinueAsNew(input)
  },
  now: (bound) => () => bound.execution.time,
  random: (bound) => () => bound.here('random').random(),
  uuid: (bound) => () => bound.here('uuid').uuid(),
  onQuery: (bound) => (query: Named, handler) => bound.run.code.queries.onQuery(messageName(query), handler),
  onUpdate:
    (bound) =>
    (update: Named, call, options: { validate?: (args: never) => void } = {}) => {
      checkOptions('onUpdate', options, knownUpdate)
      checkFunction(call, `onUpdate ${messageName(update)}`)
      checkValues('onUpdate', options, { validate: [aFunction] })
      return bound.run.code.queries.onUpdate(messageName(update), { call, validate: options.validate })
    },
  heartbeat: () => async (details?: unknown) => {
    const step = currentPlace()?.step
    if (!step) throw new RepriseError('INVALID_ARGUMENT', 'ctx.heartbeat must be called inside a step')
    await step.heartbeat(details)
  },
  attributes: (bound) => (values: Readonly<Record<string, Attribute | null>>) => {
    checkAttributes(values, bound.run.kernel.limits)
    if (bound.execution.isAtEnd) bound.run.recorder.attributesNext(values)
  },
}

// A symbol instead of a private field: code may wrap its context, and objects that inherit from it must work too.
const binding = Symbol('binding')

/** A replay does not write lines again. A step's call runs once, so its lines are written even during a replay. */
const runPlace: LogPlace = {
  fields(context: Pick<WorkflowContext, 'id' | 'workflow' | 'isReplaying'>) {
    const step = currentPlace()?.step
    if (!step && context.isReplaying) return null
    const of = { workflow: context.workflow, run: context.id }
    if (!step) return of
    const { name, attempt, isUndo } = step
    return {
      ...of,
      ...(name !== undefined && { step: name }),
      ...(attempt !== undefined && { attempt }),
      ...(isUndo && { compensates: true }),
    }
  },
  // A logger may write to a file or read the clock, which workflow code may not.
  around: leaveScope,
}

class BoundContext {
  readonly id: string
  readonly workflow: string
  readonly [binding]: Binding

  constructor(bound: Binding) {
    this.id = bound.run.id
    this.workflow = bound.run.definition.name
    this[binding] = bound
  }

  get [logPlace](): LogPlace {
    return runPlace
  }

  get isReplaying(): boolean {
    return !this[binding].execution.isAtEnd
  }

  get cancelled(): boolean {
    return this[binding].run.code.cancelled !== null
  }

  static {
    for (const [name, make] of Object.entries(methods)) {
      const keep = (context: object, value: unknown) =>
        Object.defineProperty(context, name, { value, enumerable: true, writable: true, configurable: true })
      Object.defineProperty(BoundContext.prototype, name, {
        get(this: BoundContext) {
          const method = make(this[binding])
          keep(this, method)
          return method
        },
        set(this: BoundContext, value: unknown) {
          keep(this, value)
        },
      })
    }
  }
}

/** Misuse rejects instead of throwing: awaiting code sees no difference, and other code continues. */
function direct(call: (...args: never[]) => Promise<unknown>): Method {
  return (...args) => {
    try {
      return (call as Method)(...args)
    } catch (error) {
      return tolerated(Promise.reject(error))
    }
  }
}

/** Like `direct`, for calls of more than one command: an unobserved rejection does not end the process. */
function tolerant(call: (...args: never[]) => Promise<unknown>): Method {
  const attempt = direct(call)
  return (...args) => tolerated(attempt(...args) as Promise<unknown>)
}

/**
 * Returns true for runs that reach this point for the first time, false for runs that passed it with the old code. The
 * first decision in a scope holds for that scope and the scopes below it.
 */
function patch(run: BoundRun, scope: Scope, name: string): boolean {
  const known = scope.patchDecision(name)
  if (known !== undefined) return known
  const id = scope.path === '' ? `~patch:${commandName(name)}` : `${scope.path}/~patch:${commandName(name)}`
  if (Object.hasOwn(run.state.patches, id)) return scope.decidePatch(name, true)
  if (!run.code.execution.isAtEnd) return scope.decidePatch(name, false)
  run.recorder.alongNext({ type: 'patched', data: { id } })
  return scope.decidePatch(name, true)
}
