// Tools declare what they do to the world: read-only ones leave no trace, idempotent ones may be repeated with the same
// key, compensatable ones bring the way to undo them, irreversible ones are named before anything is rolled back.

import { type CallPolicy, callPolicyNames, checkCallPolicy } from '../../core/calls/call-policy.ts'
import { patientRetry, type RetryPolicy, resolveRetry } from '../../core/calls/retry.ts'
import { RepriseError } from '../../core/errors.ts'
import { aFunction, checkOptions, checkValues } from '../../core/options.ts'
import type { Probed } from '../../engine/history/effects.ts'
import { type Checked, checkWith, jsonSchemaOf, type StandardSchema } from '../../engine/model/schema.ts'

export interface ToolContext {
  /** The same for every attempt: hand it to the outside system. */
  readonly key: string
  readonly attempt: number
  /** The id of the session's timeline. */
  readonly session: string
  readonly turn: number
  /** The name of the tool. */
  readonly tool: string
  readonly signal: AbortSignal | undefined
}

/**
 * Its calls are bounded as all others are. A tool that is neither read-only nor idempotent is called once unless it has a
 * `retry` of its own: its failure is told to the model. Rate limit and breaker are shared by all sessions in this process.
 */
export interface ToolCommon<Args, Result> extends CallPolicy {
  readonly description?: string
  /** What the arguments must be, by any Standard Schema (zod, valibot, …). What is wrong is told to the model. */
  readonly input?: StandardSchema<unknown, Args>
  /** The same as JSON Schema, for the model; `input` says it by itself if its library can. */
  readonly parameters?: Readonly<Record<string, unknown>>
  /** May run beside other tools of the same answer. If left out: read-only ones do. */
  readonly parallel?: boolean
  run(args: Args, context: ToolContext): Promise<Result> | Result
  /** Asks the outside what became of a call whose outcome a crash left unknown. */
  probe?(key: string, args: Args): Promise<Probed<Result>>
  /** Without a probe: call again with the same key, or hold for a person. 'hold' unless read-only or idempotent. */
  readonly inDoubt?: 'retry' | 'hold'
  /** A person has to approve the call first. */
  readonly approve?: boolean | ((args: Args) => boolean)
  /** Throws, or gives the arguments as they should be; after `input`, if there is one. */
  check?(args: unknown): Args
}

export interface ToolCompensation<Args, Result> {
  /** Undoes it. Called with the same key after a crash, so it must be harmless to repeat. */
  compensate(args: Args, result: Result, context: { readonly key: string }): Promise<unknown> | unknown
  /** For the compensation: 10 attempts if left out. */
  readonly compensateRetry?: RetryPolicy
}

export interface NoToolCompensation {
  readonly compensate?: undefined
  readonly compensateRetry?: undefined
}

export type ToolKind = Tool['kind']

/** A compensatable tool must have a compensation, an idempotent one may; where nothing can be undone there is none. */
export type Tool<Args = unknown, Result = unknown> = ToolCommon<Args, Result> &
  (
    | ({ readonly kind: 'compensatable' | 'idempotent' } & ToolCompensation<Args, Result>)
    | ({ readonly kind: 'idempotent' | 'read-only' | 'irreversible' } & NoToolCompensation)
  )

const known = new Set([
  ...[
    'kind',
    'description',
    'input',
    'parameters',
    'parallel',
    'run',
    'compensate',
    'compensateRetry',
    'probe',
    'inDoubt',
  ],
  ...['approve', 'check', ...callPolicyNames],
])

/**
 * @example
 * tool({
 *   kind: 'compensatable',
 *   run: (a: { cents: number }, { key }) => bank.refund(a.cents, key),
 *   compensate: (a, r) => bank.undo(r.id),
 * })
 */
export function tool<Args, Result>(definition: Tool<Args, Result>): Tool<Args, Result> {
  checkTool(definition)
  return definition
}

const values = {
  kind: ['read-only', 'idempotent', 'compensatable', 'irreversible'],
  inDoubt: ['retry', 'hold'],
  run: [aFunction],
  compensate: [aFunction],
}

/** Also for tools that were written without tool(): the mistake shows where the agent is defined. */
export function checkTool(definition: AnyTool): void {
  checkValues('tool', definition, values)
  const { kind, compensate, compensateRetry }: { kind: ToolKind; compensate?: unknown; compensateRetry?: unknown } =
    definition
  if (kind === 'compensatable' && !compensate) {
    throw new RepriseError('INVALID_ARGUMENT', 'a compensatable tool must have a compensation')
  }
  if (compensateRetry && !compensate) {
    throw new RepriseError('INVALID_ARGUMENT', 'a tool with compensateRetry must have a compensation')
  }
  if (compensate && (kind === 'read-only' || kind === 'irreversible')) {
    throw new RepriseError('INVALID_ARGUMENT', `a tool that is ${kind} must not have a compensation`)
  }
  checkOptions('tool', definition, known)
  checkCallPolicy(definition)
  resolveRetry(definition.compensateRetry, patientRetry)
}

export function retriesInDoubt(of: Tool): boolean {
  return (of.inDoubt ?? (of.kind === 'read-only' || of.kind === 'idempotent' ? 'retry' : 'hold')) === 'retry'
}

// biome-ignore lint/suspicious/noExplicitAny: tools of any arguments go into one record
export type AnyTool = Tool<any, any>
export type Tools = Readonly<Record<string, AnyTool>>

/** The arguments as the tool gets them, or what is wrong with them. */
export async function checkArgs(tool: AnyTool, args: unknown): Promise<Checked<unknown>> {
  const checked = tool.input ? await checkWith(tool.input, args) : { isValid: true as const, value: args }
  if (!checked.isValid || !tool.check) return checked
  try {
    return { isValid: true, value: tool.check(checked.value) }
  } catch (error) {
    return { isValid: false, why: error instanceof Error ? error.message : String(error) }
  }
}

/** A tool as a model is told about it. */
export interface ToolDefinition {
  readonly name: string
  readonly description: string
  /** JSON Schema of the arguments. */
  readonly parameters: Readonly<Record<string, unknown>>
}

export function toolDefinitions(tools: Tools, names: readonly string[]): ToolDefinition[] {
  return names.map((name) => {
    const { description = '', parameters, input } = tools[name]!
    return { name, description, parameters: parameters ?? (input && jsonSchemaOf(input)) ?? { type: 'object' } }
  })
}

/** The names that a model may ask for. */
export function allowedTools(tools: Tools, settings: { readonly tools?: readonly string[] }): string[] {
  return Object.keys(tools).filter((name) => settings.tools === undefined || settings.tools.includes(name))
}
