// A model behind any service with OpenAI's chat completions: OpenAI itself, and compatible ones (vLLM, Ollama,
// llama.cpp, gateways). Streams, tool calls and usage. No package needed.

import { RepriseError } from '../../../core/errors.ts'
import { checkGivenOptions } from '../../../core/options.ts'
import type { LanguageModel, ModelAnswer, ModelCall, ModelPart, ToolRequest } from '../message.ts'
import {
  cutOff,
  type HttpModelOptions,
  httpModelOptions,
  parseArgs,
  post,
  readEvents,
  streamError,
  type TokenCounts,
  usageOf,
} from './http.ts'
import { type SessionTimeline, transcript } from './transcript.ts'

interface ChatUsage {
  readonly prompt_tokens?: number
  readonly completion_tokens?: number
  /** Part of `prompt_tokens`. */
  readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null
}

interface ChatCall {
  readonly index?: number
  readonly id?: string
  readonly function?: { readonly name?: string; readonly arguments?: string }
}

interface ChatChunk {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null; readonly tool_calls?: readonly ChatCall[] }
    readonly message?: { readonly content?: string | null; readonly tool_calls?: readonly ChatCall[] }
    readonly finish_reason?: string | null
  }[]
  readonly usage?: ChatUsage | null
  readonly error?: unknown
}

/**
 * A model over chat completions, of OpenAI or of any compatible service.
 * @example agent('support', { model: openAIModel({ model: 'gpt-5', apiKey: process.env.OPENAI_API_KEY }) })
 */
export function openAIModel<Data = unknown>(options: HttpModelOptions): LanguageModel<Data> {
  checkGivenOptions('openAIModel', options, httpModelOptions)
  const url = `${(options.url ?? 'https://api.openai.com/v1').replace(/\/$/, '')}/chat/completions`
  const send = async (call: ModelCall<Data>): Promise<Response> => {
    if (call.isContinued) {
      throw new RepriseError(
        'INVALID_ARGUMENT',
        "chat completions cannot continue a truncated answer: use modelInDoubt: 'retry'",
      )
    }
    const headers = {
      ...(options.apiKey !== undefined && { authorization: `Bearer ${options.apiKey}` }),
      'idempotency-key': call.key,
      ...options.headers,
    }
    return await post(url, headers, requestOf(call, options), call.signal, options.fetch)
  }
  return options.stream === false
    ? async (call) => wholeAnswer((await (await send(call)).json()) as ChatChunk, options)
    : (call) => streamAnswer(() => send(call), options)
}

function requestOf(call: ModelCall<unknown>, options: HttpModelOptions): object {
  const { settings, toolDefinitions } = call
  const system = settings.prompt === undefined ? [] : [{ role: 'system', content: settings.prompt }]
  const isStream = options.stream !== false
  return {
    model: settings.model ?? options.model,
    messages: [...system, ...transcript(call.messages).flatMap(toChat)],
    ...(toolDefinitions.length > 0 && {
      tools: toolDefinitions.map((definition) => ({ type: 'function', function: definition })),
    }),
    ...(isStream && { stream: true, stream_options: { include_usage: true } }),
    ...options.parameters,
    ...settings.parameters,
  }
}

function toChat(line: SessionTimeline): object[] {
  if (line.kind === 'user') {
    // A list is content parts in the service's own format.
    const content = Array.isArray(line.content) ? line.content : textOfUser(line.content)
    return [{ role: 'user', content }]
  }
  const { text, calls } = line
  const tool_calls = calls.map(({ id, tool, args }) => ({
    id,
    type: 'function',
    function: { name: tool, arguments: JSON.stringify(args) },
  }))
  return [
    { role: 'assistant', content: text === '' ? null : text, ...(calls.length > 0 && { tool_calls }) },
    ...calls.map(({ id, result }) => ({ role: 'tool', tool_call_id: id, content: result })),
  ]
}

function textOfUser(content: unknown): string {
  return typeof content === 'string' ? content : JSON.stringify(content ?? '')
}

function wholeAnswer(body: ChatChunk, options: HttpModelOptions): ModelAnswer {
  if (body.error !== undefined) throw streamError(body.error)
  const message = body.choices?.[0]?.message
  if (!message) throw streamError({ message: 'the answer has no message', type: 'server_error' })
  return { content: message.content ?? '', ...rest(message.tool_calls ?? [], body.usage ?? null, options) }
}

async function* streamAnswer(
  send: () => Promise<Response>,
  options: HttpModelOptions,
): AsyncGenerator<ModelPart, void> {
  const calls: { id?: string; name: string; args: string }[] = []
  let usage: ChatUsage | null = null
  let isWhole = false
  for await (const data of readEvents(await send())) {
    if (data === '[DONE]') {
      isWhole = true
      break
    }
    const chunk = JSON.parse(data) as ChatChunk
    if (chunk.error !== undefined) throw streamError(chunk.error)
    if (chunk.usage) usage = chunk.usage
    const choice = chunk.choices?.[0]
    if (choice?.finish_reason) isWhole = true
    if (choice?.delta?.content) yield { text: choice.delta.content }
    for (const part of choice?.delta?.tool_calls ?? []) addPiece(calls, part)
  }
  if (!isWhole) throw cutOff()
  const whole = calls.map(({ id, name, args }) => ({
    ...(id !== undefined && { id }),
    function: { name, arguments: args },
  }))
  yield rest(whole, usage, options)
}

/** A call arrives in pieces: its name first, then parts of its arguments. */
function addPiece(calls: { id?: string; name: string; args: string }[], part: ChatCall): void {
  const at = part.index ?? Math.max(0, calls.length - 1)
  const call = calls[at] ?? { name: '', args: '' }
  calls[at] = call
  if (part.id) call.id = part.id
  call.name += part.function?.name ?? ''
  call.args += part.function?.arguments ?? ''
}

function rest(calls: readonly ChatCall[], usage: ChatUsage | null, options: HttpModelOptions) {
  const requests = calls.filter(Boolean).map(
    (call): ToolRequest => ({
      ...(call.id !== undefined && { id: call.id }),
      tool: call.function?.name ?? '',
      args: parseArgs(call.function?.arguments ?? ''),
    }),
  )
  return {
    ...(requests.length > 0 && { requests }),
    ...(usage && { usage: usageOf(countsOf(usage), options.price) }),
  }
}

function countsOf({ prompt_tokens = 0, completion_tokens = 0, prompt_tokens_details }: ChatUsage): TokenCounts {
  const cacheRead = Math.min(prompt_tokens, prompt_tokens_details?.cached_tokens ?? 0)
  return { input: prompt_tokens - cacheRead, output: completion_tokens, cacheRead, cacheWrite: 0, cacheWriteHour: 0 }
}
