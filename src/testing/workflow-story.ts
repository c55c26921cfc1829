// Given, when, then: a workflow as a story. Steps answer as the story defines, everything else is real: the engine, its
// compensations, its timers in virtual time. A test compares the list of events.

import type { Duration } from '../core/duration.ts'
import type { Branch, LoopContext, StepCall, StepOptions, WorkflowContext } from '../layers/workflow/context.ts'
import { type WorkflowDefinition, workflow } from '../layers/workflow/definition.ts'
import type { KitOptions } from './test-kit.ts'
import { type KitArguments, WorkflowKit } from './workflow.ts'

/** The answer of a step: a value, an error to throw, or a function that decides. Other steps run as usual. */
export type Answers = Readonly<Record<string, unknown>>

export interface StoryOutcome<Output> {
  readonly result: Output | undefined
  readonly error: Error | null
  /** Each call in order: 'charge', 'charge failed', 'undo charge'. */
  readonly happened: readonly string[]
  readonly status: string
}

/**
 * @example const told = await story(checkout, order).when({ ship: new Error('no truck') }).signal('decision', 'ship').outcome()
 */
export function story<Input, Output>(
  definition: WorkflowDefinition<Input, Output>,
  input: Input,
): Story<Input, Output> {
  return new Story(definition, input)
}

export class Story<Input, Output> {
  readonly #definition: WorkflowDefinition<Input, Output>
  readonly #input: Input
  readonly #events: {
    readonly after: Duration
    readonly act: 'signal' | 'cancel'
    readonly name: string
    readonly value: unknown
  }[] = []
  #answers: Answers = {}

  constructor(definition: WorkflowDefinition<Input, Output>, input: Input) {
    this.#definition = definition
    this.#input = input
  }

  /** Sets the answers of steps. */
  when(answers: Answers): this {
    this.#answers = { ...this.#answers, ...answers }
    return this
  }

  /** Sends a signal, after that much time. */
  signal(name: string, value?: unknown, after: Duration = 0): this {
    this.#events.push({ after, act: 'signal', name, value })
    return this
  }

  cancelled(reason = 'cancelled', after: Duration = 0): this {
    this.#events.push({ after, act: 'cancel', name: reason, value: undefined })
    return this
  }

  /** Runs the story to its end; the options may add crashes. */
  async outcome(options: KitOptions = {}): Promise<StoryOutcome<Output>> {
    const happened: string[] = []
    const kit = new WorkflowKit(options)
    const { name, options: own, run: code } = this.#definition
    const scripted = workflow<Input, Output>(
      name,
      (ctx, input) => code(scriptedContext(ctx, this.#answers, happened), input),
      own,
    )
    try {
      const run = await kit.run(scripted, ...([this.#input, { id: 'story' }] as unknown as KitArguments<Input>))
      for (const [i, { after, act, name: what, value }] of this.#events.entries()) {
        await kit.advance(after)
        await kit.survive(() =>
          act === 'signal'
            ? kit.handle(run).signal(what, value, { key: `story-${i}` })
            : kit.handle(run).cancel({ reason: what }),
        )
      }
      const outcome = await kit.result(run).then(
        (result) => ({ result, error: null }),
        (error: Error) => ({ result: undefined, error }),
      )
      return { ...outcome, happened, status: (await kit.handle(run).status()).status }
    } finally {
      await kit.close()
    }
  }
}

/** The context of the run, with steps that answer from the story and record the events. */
function scriptedContext(ctx: WorkflowContext, answers: Answers, happened: string[]): WorkflowContext {
  const wrap =
    (branch: Branch<unknown>): Branch<unknown> =>
    (own) =>
      branch(scriptedContext(own, answers, happened))
  const wrapAll = (branches: readonly Branch<unknown>[] | Readonly<Record<string, Branch<unknown>>>) =>
    Array.isArray(branches)
      ? branches.map(wrap)
      : Object.fromEntries(Object.entries(branches).map(([key, branch]) => [key, wrap(branch)]))
  return Object.assign(Object.create(ctx), {
    step: (name: string, call: (step: StepCall) => unknown, options: StepOptions<unknown> = {}) => {
      const { compensate } = options
      const answered = (step: StepCall) => answer(name, call, step, answers, happened)
      if (!compensate) return ctx.step(name, answered, options)
      return ctx.step(name, answered, {
        ...options,
        compensate: (result: unknown, step: StepCall) => {
          happened.push(`undo ${name}`)
          return Object.hasOwn(answers, name) ? undefined : compensate(result, step)
        },
      })
    },
    parallel: (branches: never) => ctx.parallel(wrapAll(branches) as never),
    race: (branches: never) => ctx.race(wrapAll(branches) as never),
    loop: (state: unknown, body: (state: unknown, own: LoopContext) => unknown) =>
      ctx.loop(state, (now, own) => body(now, scriptedContext(own, answers, happened) as LoopContext) as never),
  }) as WorkflowContext
}

async function answer(
  name: string,
  call: (step: StepCall) => unknown,
  step: StepCall,
  answers: Answers,
  happened: string[],
): Promise<unknown> {
  try {
    const scripted = Object.hasOwn(answers, name) ? answers[name] : call
    if (scripted instanceof Error) throw scripted
    const value = await (typeof scripted === 'function' ? scripted(step) : scripted)
    happened.push(name)
    return value
  } catch (error) {
    happened.push(`${name} failed`)
    throw error
  }
}
