// The context bound to a run: every method finds the branch it was called in and passes the command on.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Attribute } from '../../core/ports.ts'
import type { ChildOptions, StepOptions, TransactionOptions, WorkflowContext } from './context.ts'
import type { AnyWorkflow } from './definition.ts'
import { ContinueAsNew } from './ending.ts'
import { loop, parallel, race } from './flow.ts'
import type { Instance } from './instance.ts'
import { commandName, currentScope, currentStep, type Scope } from './scope.ts'
import { askStep } from './steps.ts'
import { askTransaction } from './transaction.ts'
import { askChild, askSleep, askStart } from './waits.ts'

/** `scope` is where the context was given out; code that hands it to another branch is found there. */
export function contextOf(run: Instance, scope: Scope): WorkflowContext {
  const { execution } = run
  const here = (what: string): Scope => {
    if (currentStep()) {
      throw new RepriseError('INVALID_ARGUMENT', `ctx.${what} was called inside a step: steps do not nest`, {
        call: what,
      })
    }
    const current = currentScope()
    return current?.run === execution ? current : scope
  }
  const again = (own: Scope) => contextOf(run, own)
  const context = {
    id: run.id,
    workflow: run.definition.name,
    get isReplaying() {
      return !execution.isAtEnd
    },
    get cancelled() {
      return run.cancelled !== null
    },
    step: async (name: string, call: never, options: StepOptions<unknown> = {}) =>
      await askStep(run, here('step'), name, call, options),
    transaction: async (name: string, call: never, options: TransactionOptions<unknown> = {}) =>
      await askTransaction(run, here('transaction'), name, call, options),
    sleep: async (duration: Duration) => {
      const ms = toMs(duration, 'sleep')
      await askSleep(run, here('sleep'), (now) => now + ms)
    },
    sleepUntil: async (when: Date | number) => {
      const at = Number(when)
      if (!Number.isFinite(at)) throw new RepriseError('INVALID_ARGUMENT', 'sleepUntil takes a date or milliseconds')
      await askSleep(run, here('sleepUntil'), () => at)
    },
    signal: async (name: string, options: { timeout?: Duration } = {}) =>
      await run.signals.ask(here('signal'), name, options),
    child: async (definition: AnyWorkflow, input: unknown, options: ChildOptions = {}) =>
      await askChild(run, here('child'), definition, input, options),
    start: async (definition: AnyWorkflow, input: unknown, options: ChildOptions = {}) =>
      await askStart(run, here('start'), definition, input, options),
    parallel: (branches: never) => parallel(run, here('parallel'), branches, again),
    race: (branches: never) => race(run, here('race'), branches, again),
    loop: (state: unknown, body: never) => loop(run, here('loop'), state, body, again),
    patch: (name: string) => patch(run, here('patch'), name),
    continueAsNew(input: unknown): never {
      throw new ContinueAsNew(input)
    },
    now: () => execution.time,
    random: () => here('random').random(),
    uuid: () => uuidOf(here('uuid')),
    onQuery: (name: string, handler: (...args: never[]) => unknown) => run.queries.onQuery(name, handler),
    onUpdate: (name: string, call: (args: never) => unknown, options: { validate?: (args: never) => void } = {}) =>
      run.queries.onUpdate(name, { call, validate: options.validate }),
    heartbeat: async (details?: unknown) => {
      const step = currentStep()
      if (!step) throw new RepriseError('INVALID_ARGUMENT', 'ctx.heartbeat is for inside a step')
      await step.heartbeat(details)
    },
    attributes: (values: Readonly<Record<string, Attribute | null>>) => {
      if (execution.isAtEnd) run.recorder.attributesNext(values)
    },
  }
  for (const name of lateMethods) context[name] = tolerant(context[name] as never) as never
  return context as unknown as WorkflowContext
}

const lateMethods = [
  'step',
  'transaction',
  'sleep',
  'sleepUntil',
  'signal',
  'child',
  'start',
  'parallel',
  'race',
  'loop',
] as const

/** Code may start something and never look at it: a failure that nobody awaits must not end the process. */
function tolerant(call: (...args: unknown[]) => Promise<unknown>): (...args: unknown[]) => Promise<unknown> {
  return (...args) => {
    const promise = call(...args)
    promise.catch(() => undefined)
    return promise
  }
}

/**
 * The new way for runs that come here for the first time, the old way for those that were here before. The first answer
 * in a scope stays for that scope and those below it.
 */
function patch(run: Instance, scope: Scope, name: string): boolean {
  const known = scope.patchDecision(name)
  if (known !== undefined) return known
  const id = scope.path === '' ? `~patch:${commandName(name)}` : `${scope.path}/~patch:${commandName(name)}`
  if (Object.hasOwn(run.state.patches, id)) return scope.decidePatch(name, true)
  if (!run.execution.isAtEnd) return scope.decidePatch(name, false)
  run.recorder.alongNext({ type: 'patched', data: { id } })
  return scope.decidePatch(name, true)
}

/** Version 4 in form; its chance comes from the branch, so it is the same in every replay. */
export function uuidOf(scope: Scope): string {
  let text = ''
  for (let i = 0; i < 32; i++) text += Math.floor(scope.random() * 16).toString(16)
  const variant = (8 + Math.floor(scope.random() * 4)).toString(16)
  return `${text.slice(0, 8)}-${text.slice(8, 12)}-4${text.slice(13, 16)}-${variant}${text.slice(17, 20)}-${text.slice(20)}`
}
