// The words of a session: messages, model calls and their answers, usage. Plain data, so that any model can be behind it.

import type { ToolDefinition } from './tool.ts'

export interface ToolRequest {
  /** The model's own id for the call, if it gives one. */
  readonly id?: string
  readonly tool: string
  readonly args: unknown
}

export interface Message {
  readonly role: 'user' | 'assistant' | 'tool' | 'agent'
  readonly content: unknown
  readonly turn: number
  /** What an assistant asks for. */
  readonly requests?: readonly ToolRequest[]
  /** Which request a tool message answers, by its place in the turn. */
  readonly answers?: string
  readonly isError?: boolean
  /** Which attempt of the model gave it, if it was not the first. */
  readonly attempt?: number
  /** Who sent it, in a group. */
  readonly from?: string
}

export interface Usage {
  /** All of them, those of the prompt cache too. */
  readonly inputTokens: number
  readonly outputTokens: number
  /** Input tokens that came from the service's prompt cache, and those written to it; left out: none. */
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

/** Only those that are not 0. */
function cachedTokens(a: Usage, b: Partial<Usage> | undefined, sign: 1 | -1): Partial<Usage> {
  const read = (a.cacheReadTokens ?? 0) + sign * (b?.cacheReadTokens ?? 0)
  const written = (a.cacheWriteTokens ?? 0) + sign * (b?.cacheWriteTokens ?? 0)
  return { ...(read !== 0 && { cacheReadTokens: read }), ...(written !== 0 && { cacheWriteTokens: written }) }
}

/** A call that is almost one that stands already: ask a person, go on in a fork, or make it as a new one. */
export type SimilarCalls = 'conflict' | 'fork' | 'new'

/**
 * A model call that a crash cut off: ask again under the same key and let the answer begin anew, ask with what was
 * streamed so far (`partial`) for the rest only, or hold for a person.
 */
export type ModelInDoubt = 'retry' | 'continue' | 'hold'

/** Of settings, wherever they are given. */
export const settingValues = { similarCalls: ['conflict', 'fork', 'new'] }

/** What may be changed when a session goes on from an earlier turn, so that it does not fail the same way again. */
export interface Settings {
  readonly prompt?: string
  readonly model?: string
  readonly parameters?: Readonly<Record<string, unknown>>
  /** Names of the tools that may be used; all if left out. */
  readonly tools?: readonly string[]
  /** What to do with a call that is almost one that stands already. */
  readonly similarCalls?: SimilarCalls
}

export interface ModelCall<Data> {
  readonly messages: readonly Message[]
  readonly data: Data
  readonly plan: unknown
  readonly notes: readonly string[]
  readonly settings: Settings
  readonly tools: readonly string[]
  /** The same tools with what a model is told about them. */
  readonly toolDefinitions: readonly ToolDefinition[]
  /** The same when the call is made again after a crash: hand it to the provider as the idempotency key. */
  readonly key: string
  readonly attempt: number
  /** What an earlier attempt had streamed before it was cut off. */
  readonly partial: string
  /** The answer is put behind `partial` (`modelInDoubt: 'continue'`): give the rest only. */
  readonly isContinued: boolean
  readonly signal: AbortSignal | undefined
}

export interface ModelAnswer {
  readonly content: unknown
  readonly requests?: readonly ToolRequest[]
  readonly usage?: Partial<Usage>
  /** Reasoning that is kept as a note. */
  readonly note?: string
  /** A new plan, if the model made one. */
  readonly plan?: unknown
}

/** A streamed answer: text in pieces, and at any time the rest of it. */
export type ModelPart = { readonly text: string } | Omit<Partial<ModelAnswer>, 'content'>

export type Model<Data> = (call: ModelCall<Data>) => Promise<ModelAnswer> | ModelAnswer | AsyncIterable<ModelPart>
