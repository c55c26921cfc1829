// The vocabulary of a session: messages, model calls and their answers, usage. It is plain data, independent of the
// model.

import type { ToolDefinition } from './tool.ts'

export interface ToolRequest {
  /** The model's own id for the call, if it has one. */
  readonly id?: string
  readonly tool: string
  readonly args: unknown
}

export interface Message {
  readonly role: 'user' | 'assistant' | 'tool' | 'agent'
  readonly content: unknown
  readonly turn: number
  /** The tool calls that an assistant message requests. */
  readonly requests?: readonly ToolRequest[]
  /** The request that a tool message answers, by its position in the turn. */
  readonly answers?: string
  readonly isError?: boolean
  /** The attempt of the model that returned it, if not the first. */
  readonly attempt?: number
  /** The sender, in a group. */
  readonly from?: string
}

export interface Usage {
  /** All input tokens, including those of the prompt cache. */
  readonly inputTokens: number
  readonly outputTokens: number
  /** Input tokens that were read from the service's prompt cache, and those written to it. Default: none. */
  readonly cacheReadTokens?: number
  readonly cacheWriteTokens?: number
  /** In the currency of your choice. */
  readonly cost: number
}

export const noUsage: Usage = { inputTokens: 0, outputTokens: 0, cost: 0 }

export function addUsage(a: Usage, b: Partial<Usage> | undefined): Usage {
  return {
    inputTokens: a.inputTokens + (b?.inputTokens ?? 0),
    outputTokens: a.outputTokens + (b?.outputTokens ?? 0),
    cost: a.cost + (b?.cost ?? 0),
    ...cachedTokens(a, b, 1),
  }
}

export function lessUsage(a: Usage, b: Usage): Usage {
  return {
    inputTokens: a.inputTokens - b.inputTokens,
    outputTokens: a.outputTokens - b.outputTokens,
    cost: a.cost - b.cost,
    ...cachedTokens(a, b, -1),
  }
}

/** Only counts that are not 0. */
function cachedTokens(a: Usage, b: Partial<Usage> | undefined, sign: 1 | -1): Partial<Usage> {
  const read = (a.cacheReadTokens ?? 0) + sign * (b?.cacheReadTokens ?? 0)
  const written = (a.cacheWriteTokens ?? 0) + sign * (b?.cacheWriteTokens ?? 0)
  return { ...(read !== 0 && { cacheReadTokens: read }), ...(written !== 0 && { cacheWriteTokens: written }) }
}

/**
 * Policy for a call that is similar to one that was not undone: wait for a person, continue in a fork, or make it as a
 * new call.
 */
export type SimilarCalls = 'conflict' | 'fork' | 'new'

/**
 * Policy for a model call that a crash interrupted: call again under the same key and restart the answer, call with the
 * streamed text (`partial`) and request only the rest, or wait for a person.
 */
export type ModelInDoubt = 'retry' | 'continue' | 'hold'

/** Allowed values of settings. */
export const settingValues = { similarCalls: ['conflict', 'fork', 'new'] }

/** Settings that may change when a session resumes from an earlier turn, so that it does not fail in the same way again. */
export interface Settings {
  readonly prompt?: string
  readonly model?: string
  readonly parameters?: Readonly<Record<string, unknown>>
  /** The names of the tools that may be used. Default: all. */
  readonly tools?: readonly string[]
  /** Policy for a call that is similar to one that was not undone. */
  readonly similarCalls?: SimilarCalls
}

export interface ModelCall<Data> {
  readonly messages: readonly Message[]
  readonly data: Data
  readonly plan: unknown
  readonly notes: readonly string[]
  readonly settings: Settings
  readonly tools: readonly string[]
  /** The same tools with their descriptions for the model. */
  readonly toolDefinitions: readonly ToolDefinition[]
  /** The same when the call is repeated after a crash. Pass it to the provider as the idempotency key. */
  readonly key: string
  readonly attempt: number
  /** The text that an earlier attempt had streamed before it was interrupted. */
  readonly partial: string
  /** The answer is appended to `partial` (`modelInDoubt: 'continue'`): return only the rest. */
  readonly isContinued: boolean
  readonly signal: AbortSignal | undefined
}

export interface ModelAnswer {
  readonly content: unknown
  readonly requests?: readonly ToolRequest[]
  readonly usage?: Partial<Usage>
  /** Reasoning, kept as a note. */
  readonly note?: string
  /** A new plan, if the model made one. */
  readonly plan?: unknown
}

/** A streamed answer: text in pieces, and at any point the other fields. */
export type ModelPart = { readonly text: string } | Omit<Partial<ModelAnswer>, 'content'>

export type LanguageModel<Data> = (
  call: ModelCall<Data>,
) => Promise<ModelAnswer> | ModelAnswer | AsyncIterable<ModelPart>
