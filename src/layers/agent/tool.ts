// Tools declare their effects: read-only ones have none, idempotent ones may be repeated with the same key,
// compensatable ones have a compensation, and irreversible ones are listed before a rollback.

import { RepriseError } from '../../core/errors.ts'
import { checkOptions, checkValues, namesOf } from '../../core/options.ts'
import { type CallPolicy, checkCallPolicy } from '../../core/retry/call-policy.ts'
import { patientRetry, type RetryPolicy, resolveRetry } from '../../core/retry/retry.ts'
import { checkFunctions } from '../../core/synchronous.ts'
import type { Logged, LogPlace } from '../../engine/base/log.ts'
import type { Probed } from '../../engine/history/effects.ts'
import { type Checked, checkWith, jsonSchemaOf, type StandardSchema } from '../../engine/model/schema.ts'

export interface ToolContext extends Logged {
  /** The same for every attempt. Pass it to the outside system. */
  readonly key: string
  readonly attempt: number
  /** The id of the session's timeline. */
  readonly session: string
  readonly turn: number
  /** The name of the tool. */
  readonly tool: string
  readonly signal: AbortSignal | undefined
}

export const toolPlace: LogPlace = {
  fields: ({ session, turn, tool, attempt }: Pick<ToolContext, 'session' | 'turn' | 'tool' | 'attempt'>) => ({
    session,
    turn,
    tool,
    attempt,
  }),
}

/**
 * Limits of its calls. A tool that is neither read-only nor idempotent is called once unless it sets `retry`: its
 * failure is reported to the model. All sessions in this process share the rate limit and breaker.
 */
export interface ToolCommon<Args, Result> extends CallPolicy {
  readonly description?: string
  /** The schema of the arguments, by any Standard Schema (zod, valibot, …). Violations are reported to the model. */
  readonly input?: StandardSchema<unknown, Args>
  /** The same as JSON Schema, for the model. Default: derived from `input` if its library supports it. */
  readonly parameters?: Readonly<Record<string, unknown>>
  /** May run in parallel with other tools of the same answer. Default: true for read-only tools. */
  readonly parallel?: boolean
  run(args: Args, context: ToolContext): Promise<Result> | Result
  /** Queries the outside for the outcome of a call that a crash left unknown. */
  probe?(key: string, args: Args): Promise<Probed<Result>>
  /**
   * Without a probe: call again with the same key, or wait for a person. Default: 'retry' for read-only and idempotent
   * tools, else 'hold'.
   */
  readonly inDoubt?: 'retry' | 'hold'
  /** A person must approve the call first. */
  readonly approve?: boolean | ((args: Args) => boolean)
  /** Throws, or returns the corrected arguments. Called after `input`. */
  check?(args: unknown): Args
}

export interface ToolCompensation<Args, Result> {
  /** Undoes the call. After a crash it is repeated with the same key, so it must be harmless to repeat. */
  compensate(args: Args, result: Result, context: { readonly key: string }): Promise<unknown> | unknown
  /** Retry policy of the compensation. Default: 10 attempts. */
  readonly compensateRetry?: RetryPolicy
}

export interface NoToolCompensation {
  readonly compensate?: undefined
  readonly compensateRetry?: undefined
}

export type ToolKind = Tool['kind']

/** A compensatable tool must have a compensation, an idempotent one may have one, and the others have none. */
export type Tool<Args = unknown, Result = unknown> = ToolCommon<Args, Result> &
  (
    | ({ readonly kind: 'compensatable' | 'idempotent' } & ToolCompensation<Args, Result>)
    | ({ readonly kind: 'idempotent' | 'read-only' | 'irreversible' } & NoToolCompensation)
  )

const known = namesOf<AnyTool>()(
  'kind description input parameters parallel run compensate compensateRetry probe inDoubt approve check retry timeout rate breaker',
)

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
}

/** Also called for tools that were written without tool(), so that a mistake shows where the agent is defined. */
export function checkTool(definition: AnyTool): void {
  checkFunctions('tool', definition, ['run'], ['compensate', 'probe'])
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

/** The arguments as the tool receives them, or the reason why they are invalid. */
export async function checkArgs(tool: AnyTool, args: unknown): Promise<Checked<unknown>> {
  const checked = tool.input ? await checkWith(tool.input, args) : { isValid: true as const, value: args }
  if (!checked.isValid || !tool.check) return checked
  try {
    return { isValid: true, value: tool.check(checked.value) }
  } catch (error) {
    return { isValid: false, why: error instanceof Error ? error.message : String(error) }
  }
}

/** A tool as it is described to a model. */
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

/** The names of the tools that a model may call. */
export function allowedTools(tools: Tools, settings: { readonly tools?: readonly string[] }): string[] {
  return Object.keys(tools).filter((name) => settings.tools === undefined || settings.tools.includes(name))
}
