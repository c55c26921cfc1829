// The context of workflow code. Every effect goes through it and is recorded; the rest of the code may run any number of
// times.

import type { Duration } from '../../core/duration.ts'
import type { CallPolicy } from '../../core/retry/call-policy.ts'
import type { RetryPolicy } from '../../core/retry/retry.ts'
import type { Attribute, Sql } from '../../core/store/ports.ts'
import type { Nothing } from '../../core/synchronous.ts'
import type { Logged } from '../../engine/base/log.ts'
import type { Probed } from '../../engine/history/effects.ts'
import type { Recallable } from '../../engine/model/memo-protocol.ts'
import type { RunArguments } from '../../engine/model/run-arguments.ts'
import type { QueryDefinition, SignalDefinition, UpdateDefinition } from './messages.ts'
import type { WorkflowOptions } from './options.ts'

/** The argument of a step's call. */
export interface StepCall {
  /** The same for every attempt, also after a crash, a takeover or a restore. Pass it to the outside system. */
  readonly key: string
  /** 1 for the first attempt. */
  readonly attempt: number
  /** Fires on timeout, cancellation, and when this process must stop. */
  readonly signal: AbortSignal
  /** The details of the last heartbeat of an earlier attempt. */
  readonly details: unknown
  /** The attempt's traceparent (W3C Trace Context) if the run is traced (reprise/otel). Pass it to other programs. */
  readonly traceparent?: string | undefined
  /** Reports that the attempt is alive. A later attempt can resume from `details`. */
  heartbeat(details?: unknown): Promise<void>
}

/** The argument of an `undo`, which is registered before the call. */
export interface UndoCall extends StepCall {
  /** The key of the step's own calls. The outside system can check by it whether there is anything to undo. */
  readonly stepKey: string
}

/** All runs of the workflow in this process share the rate limit and breaker, by the name of the step. */
export interface StepSettings<T> extends CallPolicy {
  /** An attempt without a heartbeat for this long fails. */
  readonly heartbeatTimeout?: Duration
  /**
   * Policy after a crash that left the outcome unknown: call again with the same key ('retry'), wait for a person
   * ('hold'), or query the outside (a function). The last two record the intent first; 'retry' costs one commit per
   * step. Default: 'retry'.
   */
  readonly inDoubt?: 'retry' | 'hold' | ((key: string) => Promise<Probed<T>> | Probed<T>)
  /**
   * The content of the call, as a plain value: the key is derived from it and the step's name. Default: the key is
   * derived from the run's input and everything that the code observed before the step.
   */
  readonly input?: unknown
  /**
   * The names of the steps whose results the call uses: `run.rerun` of another step keeps this one. Of several with one name,
   * the last one before the call counts; an empty list: only the run's input. Default: every outcome that the code could
   * have observed before the step.
   */
  readonly after?: readonly string[]
}

export interface WithCompensate<T> {
  /** Undoes the step. Called in reverse order if the run fails, is cancelled or is rolled back. */
  readonly compensate: (result: T, call: StepCall) => unknown
  readonly undo?: undefined
  /** Retry policy of the compensation. Default: 10 attempts, 1 second to 1 minute apart. */
  readonly compensateRetry?: RetryPolicy
}

export interface WithUndo<T> {
  readonly compensate?: undefined
  /**
   * Like `compensate`, but registered before the call instead of after its success. Also called if the step failed or
   * timed out, because the call may still have happened. It must be harmless if nothing happened.
   */
  readonly undo: (call: UndoCall, result: T | undefined) => unknown
  readonly compensateRetry?: RetryPolicy
}

export interface WithoutUndo {
  readonly compensate?: undefined
  readonly undo?: undefined
  readonly compensateRetry?: undefined
}

/** A step has `compensate`, `undo`, or neither. */
export type StepOptions<T> = StepSettings<T> & (WithCompensate<T> | WithUndo<T> | WithoutUndo)

export type TransactionOptions<T> = {
  readonly retry?: RetryPolicy
  /** As for a step. */
  readonly after?: readonly string[]
} & (WithCompensate<T> | WithoutUndo)

export interface ChildOptions {
  /** The id of the child. Default: derived from this run's id. */
  readonly id?: string
  /** Policy when this run is cancelled or fails: cancel the child, or let it continue. Default: 'cancel'. */
  readonly whenCancelled?: 'cancel' | 'abandon'
  /**
   * Policy when this run is undone after the child completed: keep the child's effects, or undo the child too, at its
   * place in the reverse order. Default: 'keep'.
   */
  readonly whenUndone?: 'keep' | 'undo'
  readonly attributes?: Readonly<Record<string, Attribute>>
  readonly timeout?: Duration
}

export interface RaceOptions {
  /**
   * Policy for the completed steps of losing branches: keep them until the run is undone, or undo them before the race
   * is over. Default: 'keep'.
   */
  readonly losers?: 'keep' | 'undo'
}

export type Branch<T> = (ctx: WorkflowContext) => Promise<T> | T

declare const stopped: unique symbol
/** Ends a loop; made by `ctx.stop`. */
export interface Stop<R> {
  readonly [stopped]: R
}

export interface LoopContext extends WorkflowContext {
  /** Return this from the body to end the loop with a result. */
  stop<R>(result: R): Stop<R>
}

export interface WorkflowContext extends Logged {
  /** The id of the run. */
  readonly id: string
  readonly workflow: string
  /** True while recorded history is replayed. Use it for log lines that should appear once. */
  readonly isReplaying: boolean
  /** True once the run is cancelled or its deadline has passed. */
  readonly cancelled: boolean

  /** @example await ctx.step('charge', ({ key }) => bank.charge(100, { idempotencyKey: key })) */
  step<T>(name: string, call: (step: StepCall) => Promise<T> | T, options?: StepOptions<T>): Promise<T>
  /**
   * The result of a memo for these arguments. It is shared with other runs, keyed by its inputs, and recorded here like
   * the result of a step. @example const thumbnail = await ctx.memo(thumbnails, 'cat.png')
   */
  memo<Args extends readonly unknown[], Result>(definition: Recallable<Args, Result>, ...args: Args): Promise<Result>
  /** Runs the user's SQL in the same transaction as the entry: both commit, or neither. */
  transaction<T>(
    name: string,
    call: (db: Sql, step: { readonly key: string }) => Promise<T> | T,
    options?: TransactionOptions<T>,
  ): Promise<T>
  sleep(duration: Duration): Promise<void>
  sleepUntil(when: Date | number): Promise<void>
  /** Waits for the next signal of that name. On timeout it returns `otherwise` if set, else rejects with TIMEOUT. */
  signal<T>(signal: SignalDefinition<T>, options?: { readonly timeout?: Duration }): Promise<T>
  signal<T, O>(
    signal: SignalDefinition<T>,
    options: { readonly timeout?: Duration; readonly otherwise: O },
  ): Promise<T | O>
  signal<T = unknown>(name: string, options?: { readonly timeout?: Duration; readonly otherwise?: T }): Promise<T>
  /** Starts a child and waits for its result. */
  child<Input, Output>(definition: WorkflowCode<Input, Output>, ...given: ChildArguments<Input>): Promise<Output>
  /** Starts a detached child and returns its id. */
  start<Input, Output>(definition: WorkflowCode<Input, Output>, ...given: ChildArguments<Input>): Promise<string>
  /** Runs branches concurrently, each in its own scope. They interleave freely, and a replay repeats the recorded order. */
  parallel<const B extends readonly Branch<unknown>[]>(
    branches: B,
  ): Promise<{ -readonly [K in keyof B]: Awaited<ReturnType<B[K]>> }>
  parallel<const B extends Readonly<Record<string, Branch<unknown>>>>(
    branches: B,
  ): Promise<{ -readonly [K in keyof B]: Awaited<ReturnType<B[K]>> }>
  parallel<T>(branches: readonly Branch<T>[]): Promise<T[]>
  /**
   * The first branch to settle wins; the others are abandoned. With named branches, `winner` names the branch that
   * returned `value`.
   */
  race<const B extends readonly Branch<unknown>[]>(
    branches: B,
    options?: RaceOptions,
  ): Promise<Awaited<ReturnType<B[number]>>>
  race<const B extends Readonly<Record<string, Branch<unknown>>>>(
    branches: B,
    options?: RaceOptions,
  ): Promise<{ [K in keyof B]: { readonly winner: K; readonly value: Awaited<ReturnType<B[K]>> } }[keyof B]>
  race<T>(branches: readonly Branch<T>[], options?: RaceOptions): Promise<T>
  /** True for runs that reach this point for the first time with this code; false for runs that passed it earlier. */
  patch(name: string): boolean
  /** A loop with bounded history: a replay starts at the last iteration. */
  loop<S, R = never>(state: S, body: (state: S, ctx: LoopContext) => Promise<S | Stop<R>> | S | Stop<R>): Promise<R>
  /** Starts over with new input and an empty history. */
  continueAsNew(input: unknown): never
  /** Workflow time in milliseconds since 1970, as recorded. */
  now(): number
  random(): number
  uuid(): string
  onQuery<Args extends readonly unknown[], Result>(
    query: QueryDefinition<Args, Result>,
    handler: (...args: NoInfer<Args>) => NoInfer<Result>,
  ): void
  onQuery(name: string, handler: (...args: never[]) => unknown): void
  onUpdate<Args, Result>(
    update: UpdateDefinition<Args, Result>,
    handler: (args: NoInfer<Args>) => Promise<NoInfer<Result>> | NoInfer<Result>,
    options?: { readonly validate?: (args: NoInfer<Args>) => Nothing },
  ): void
  onUpdate<Args, Result>(
    name: string,
    handler: (args: Args) => Promise<Result> | Result,
    options?: { readonly validate?: (args: Args) => Nothing },
  ): void
  /** Inside the call of a step: reports that the attempt is alive. */
  heartbeat(details?: unknown): Promise<void>
  /** Sets searchable attributes; null removes one. They are written with the next entry. */
  attributes(values: Readonly<Record<string, Attribute | null>>): void
}

export type ChildArguments<Input> = RunArguments<Input, ChildOptions>

export type WorkflowFunction<Input, Output> = (ctx: WorkflowContext, input: Input) => Promise<Output> | Output

/** The parts of a definition that runs and their children use. */
export interface WorkflowCode<Input = unknown, Output = unknown> {
  readonly kind: 'workflow'
  readonly name: string
  readonly prefix: string
  /** Whether its function declares an input. Null: unknown. */
  readonly takesInput?: boolean | 'unused' | null
  readonly run: WorkflowFunction<Input, Output>
  readonly options: WorkflowOptions
}

// biome-ignore lint/suspicious/noExplicitAny: definitions of all inputs and outputs are kept together.
export type AnyWorkflow = WorkflowCode<any, any>
