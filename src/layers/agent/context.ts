// The messages as a model call sends them: all of the session, or the last summary and the messages after it. A summary
// is a recorded call. The messages that it replaces stay in the session and in its history.

import { checkOptions, checkValues, namesOf } from '../../core/options.ts'
import { checkFunctions } from '../../core/synchronous.ts'
import type { LanguageModel, Message, ModelAnswer, ModelCall } from './message.ts'
import { textOf } from './models/transcript.ts'
import type { SessionState } from './state.ts'

export interface ContextOptions<Data = unknown> {
  /**
   * The most input tokens of one model call. A call that needs more first summarizes the older turns; if that is not enough,
   * the session is handed over to a person, and the model is not called.
   */
  readonly tokensMax: number
  /** The number of turns before the current one that are sent in full while they fit. Default: 2. */
  readonly keepTurns?: number
  /** Answers the request for a summary, which is the last message. False: nothing is summarized. Default: the agent's model. */
  readonly summarize?: LanguageModel<Data> | false
  /** Counts the tokens of a text. Default: a third of its length, which is more than most tokenizers count. */
  readonly tokens?: (text: string) => number
}

const known = namesOf<ContextOptions>()('tokensMax keepTurns summarize tokens')
const atLeastOne = ['a whole number of at least 1', (n: unknown) => Number.isSafeInteger(n) && Number(n) >= 1] as const
const notNegative = ['a whole number of at least 0', (n: unknown) => Number.isSafeInteger(n) && Number(n) >= 0] as const

export function checkContext(name: string, options: ContextOptions<never> | undefined): void {
  if (options === undefined) return
  const what = `context of agent ${name}`
  checkOptions(what, options, known)
  checkValues(what, { tokensMax: options.tokensMax ?? null }, { tokensMax: [atLeastOne] })
  checkValues(what, options, { keepTurns: [notNegative] })
  checkFunctions(what, options, [], ['tokens', ...(options.summarize === false ? [] : ['summarize'])])
}

/** The last message of the request for a summary. */
export const summaryRequest =
  'Summarize the conversation so far for yourself: it replaces these messages in later requests. Keep every fact, decision, ' +
  'open question, name, number and identifier that later steps may need. Answer with the summary only, and call no tool.'

/** The conversation as a model call sends it. `through`: only its turns up to this one. */
export function contextOf(
  { summary, messages }: Pick<SessionState<unknown>, 'summary' | 'messages'>,
  through = Number.POSITIVE_INFINITY,
): readonly Message[] {
  const after = summary?.through ?? -1
  const sent = [...messages.values()].filter(({ turn }) => turn > after && turn <= through)
  if (!summary) return sent
  return [
    { role: 'user', content: `Summary of the conversation so far:\n${summary.content}`, turn: summary.through },
    ...sent,
  ]
}

export function tokensOf(
  { tokens = (text) => Math.ceil(text.length / 3) }: Pick<ContextOptions, 'tokens'>,
  { settings, toolDefinitions }: Pick<ModelCall<unknown>, 'settings' | 'toolDefinitions'>,
  messages: readonly Message[],
): number {
  let sum = tokens(settings.prompt ?? '') + (toolDefinitions.length > 0 ? tokens(written(toolDefinitions)) : 0)
  for (const { content, requests } of messages) {
    sum += tokens(typeof content === 'string' ? content : written(content))
    if (requests) sum += tokens(written(requests))
  }
  return sum
}

/** The turns through which a summary may reach, the shortest first. Empty: nothing is left to summarize. */
export function summaryReaches(
  { turn, summary }: SessionState<unknown>,
  { keepTurns = 2 }: Pick<ContextOptions, 'keepTurns'>,
): number[] {
  const reaches = [turn - 1 - keepTurns, turn - 1].filter((through) => through > (summary?.through ?? 0))
  return [...new Set(reaches)]
}

/** The text of a summary. An empty one would lose the conversation. */
export function summaryText({ content }: ModelAnswer): string {
  const text = textOf(content).trim()
  if (text === '') throw new Error('the summary is empty')
  return text
}

function written(value: unknown): string {
  return JSON.stringify(value, (_key, part) => (typeof part === 'bigint' ? String(part) : part)) ?? ''
}
