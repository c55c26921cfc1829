// What workflow code is given: the context. Everything it does to the world goes through here and is recorded; the rest
// of the code may run any number of times.

import type { CallPolicy } from '../../core/calls/call-policy.ts'
import type { RetryPolicy } from '../../core/calls/retry.ts'
import type { Duration } from '../../core/duration.ts'
import type { Attribute, Sql } from '../../core/store/ports.ts'
import type { Nothing } from '../../core/synchronous.ts'
import type { Recallable } from '../../engine/model/memo-protocol.ts'
import type { QueryDefinition, SignalDefinition, UpdateDefinition } from './messages.ts'
import type { WorkflowOptions } from './options.ts'

/** What the call of a step is given. */
export interface StepCall {
  /** The same for every attempt, also after a crash, a takeover or a restore: hand it to the outside system. */
  readonly key: string
  /** 1 for the first attempt. */
  readonly attempt: number
  /** Fires on timeout, cancellation, and when this process must stop. */
  readonly signal: AbortSignal
  /** The details of the last heartbeat of an earlier attempt. */
  readonly details: unknown
  /** Of this attempt, as W3C Trace Context writes it, where it is traced (reprise/otel): hand it to programs elsewhere. */
  readonly traceparent?: string | undefined
  /** Says that it is alive; with details, a later attempt can go on from there. */
  heartbeat(details?: unknown): Promise<void>
}

/** What an undo is given that is registered before the call. */
export interface UndoCall extends StepCall {
  /** The key that the calls of the step itself had: by it the outside can tell whether there is anything to undo. */
  readonly stepKey: string
}

/** What a probe found out: it happened (with what result), or it did not. */
export type Probed<T> = { readonly happened: true; readonly result: T } | { readonly happened: false }

/** Its rate limit and breaker are shared by all runs of the workflow in this process, by the name of the step. */
export interface StepSettings<T> extends CallPolicy {
  /** An attempt that gives no heartbeat for this long has failed. */
  readonly heartbeatTimeout?: Duration
  /**
   * After a crash that left the outcome unknown: call again with the same key ('retry', the default, at one commit per
   * step), leave it to a person ('hold'), or ask the outside (a function). The last two record the intent first.
   */
  readonly inDoubt?: 'retry' | 'hold' | ((key: string) => Promise<Probed<T>> | Probed<T>)
  /**
   * What the call is about to do, as a plain value: its key is then derived from this and the step's name. Default: from the
   * run's input and everything that the code observed before the step.
   */
  readonly input?: unknown
}

export interface WithCompensate<T> {
  /** Undoes it; called in reverse order if the run fails, is cancelled or is rolled back. */
  readonly compensate: (result: T, call: StepCall) => unknown
  readonly undo?: undefined
  /** For the compensation: 10 attempts, 1 second to 1 minute apart, if left out. */
  readonly compensateRetry?: RetryPolicy
}

export interface WithUndo<T> {
  readonly compensate?: undefined
  /**
   * As `compensate`, registered before the call instead of after its success: also due if the step failed or timed out,
   * because it may have happened all the same. It must do no harm if nothing happened.
   */
  readonly undo: (call: UndoCall, result: T | undefined) => unknown
  readonly compensateRetry?: RetryPolicy
}

export interface WithoutUndo {
  readonly compensate?: undefined
  readonly undo?: undefined
  readonly compensateRetry?: undefined
}

/** A step is undone by `compensate` or by `undo`, or not at all. */
export type StepOptions<T> = StepSettings<T> & (WithCompensate<T> | WithUndo<T> | WithoutUndo)

export type TransactionOptions<T> = { readonly retry?: RetryPolicy } & (WithCompensate<T> | WithoutUndo)

export interface ChildOptions {
  /** Its id; derived from this run's if left out. */
  readonly id?: string
  /** When this run is cancelled or fails: cancel the child (default) or leave it alone. */
  readonly whenCancelled?: 'cancel' | 'abandon'
  /**
   * When this run is undone after the child completed: let what the child did stand (default), or undo the child too, in its
   * place in the reverse order.
   */
  readonly whenUndone?: 'keep' | 'undo'
  readonly attributes?: Readonly<Record<string, Attribute>>
  readonly timeout?: Duration
}

export interface RaceOptions {
  /** What the losers have done by then: it stands until the run is undone (default), or is undone before the race is over. */
  readonly losers?: 'keep' | 'undo'
}

export type Branch<T> = (ctx: WorkflowContext) => Promise<T> | T

declare const stopped: unique symbol
/** What ends a loop: made by `ctx.stop`. */
export interface Stop<R> {
  readonly [stopped]: R
}

export interface LoopContext extends WorkflowContext {
  /** Return this from the body to end the loop with a result. */
  stop<R>(result: R): Stop<R>
}

export interface WorkflowContext {
  /** The id of the run. */
  readonly id: string
  readonly workflow: string
  /** True while recorded history is replayed: for logs that should appear once. */
  readonly isReplaying: boolean
  /** Fires when the run is cancelled or its deadline passes. */
  readonly cancelled: boolean

  /** @example await ctx.step('charge', ({ key }) => bank.charge(100, { idempotencyKey: key })) */
  step<T>(name: string, call: (step: StepCall) => Promise<T> | T, options?: StepOptions<T>): Promise<T>
  /**
   * The result of a memo for these arguments: shared with other runs by what it was computed from, and recorded here like the
   * result of a step. @example const thumbnail = await ctx.memo(thumbnails, 'cat.png')
   */
  memo<Args extends readonly unknown[], Result>(definition: Recallable<Args, Result>, ...args: Args): Promise<Result>
  /** The user's SQL in the same transaction as the entry: both or neither. */
  transaction<T>(
    name: string,
    call: (db: Sql, step: { readonly key: string }) => Promise<T> | T,
    options?: TransactionOptions<T>,
  ): Promise<T>
  sleep(duration: Duration): Promise<void>
  sleepUntil(when: Date | number): Promise<void>
  /** The next signal of that name. Rejects with TIMEOUT when it runs out, or gives `otherwise` if that is there. */
  signal<T>(signal: SignalDefinition<T>, options?: { readonly timeout?: Duration }): Promise<T>
  signal<T, O>(
    signal: SignalDefinition<T>,
    options: { readonly timeout?: Duration; readonly otherwise: O },
  ): Promise<T | O>
  signal<T = unknown>(name: string, options?: { readonly timeout?: Duration; readonly otherwise?: T }): Promise<T>
  /** Starts a child and waits for its result. */
  child<Input, Output>(definition: WorkflowCode<Input, Output>, ...given: ChildArguments<Input>): Promise<Output>
  /** Starts a child that lives on its own; gives its id. */
  start<Input, Output>(definition: WorkflowCode<Input, Output>, ...given: ChildArguments<Input>): Promise<string>
  /** Branches with a scope each: they interleave as they like, now and in every replay. */
  parallel<const B extends readonly Branch<unknown>[]>(
    branches: B,
  ): Promise<{ -readonly [K in keyof B]: Awaited<ReturnType<B[K]>> }>
  parallel<const B extends Readonly<Record<string, Branch<unknown>>>>(
    branches: B,
  ): Promise<{ -readonly [K in keyof B]: Awaited<ReturnType<B[K]>> }>
  parallel<T>(branches: readonly Branch<T>[]): Promise<T[]>
  /** The first branch to settle wins; the others are abandoned. With names, `winner` tells what `value` is. */
  race<const B extends readonly Branch<unknown>[]>(
    branches: B,
    options?: RaceOptions,
  ): Promise<Awaited<ReturnType<B[number]>>>
  race<const B extends Readonly<Record<string, Branch<unknown>>>>(
    branches: B,
    options?: RaceOptions,
  ): Promise<{ [K in keyof B]: { readonly winner: K; readonly value: Awaited<ReturnType<B[K]>> } }[keyof B]>
  race<T>(branches: readonly Branch<T>[], options?: RaceOptions): Promise<T>
  /** True for runs that reach this point for the first time with this code; false for those that passed it before. */
  patch(name: string): boolean
  /** Endless work with bounded history: replay starts at the last iteration. */
  loop<S, R = never>(state: S, body: (state: S, ctx: LoopContext) => Promise<S | Stop<R>> | S | Stop<R>): Promise<R>
  /** Starts over with new input and an empty history. */
  continueAsNew(input: unknown): never
  /** Milliseconds since 1970, as recorded. */
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
  /** Inside the call of a step: says that it is alive. */
  heartbeat(details?: unknown): Promise<void>
  /** Searchable attributes; null removes one. Written with the next entry. */
  attributes(values: Readonly<Record<string, Attribute | null>>): void
}

/** The input must be given where its type says so. */
export type ChildArguments<Input> = undefined extends Input
  ? [input?: Input, options?: ChildOptions]
  : [input: Input, options?: ChildOptions]

export type WorkflowFunction<Input, Output> = (ctx: WorkflowContext, input: Input) => Promise<Output> | Output

/** What a run executes: a definition, as far as runs and their children are concerned. */
export interface WorkflowCode<Input = unknown, Output = unknown> {
  readonly kind: 'workflow'
  readonly name: string
  readonly prefix: string
  readonly run: WorkflowFunction<Input, Output>
  readonly options: WorkflowOptions
}

// biome-ignore lint/suspicious/noExplicitAny: definitions of all inputs and outputs are kept together.
export type AnyWorkflow = WorkflowCode<any, any>
