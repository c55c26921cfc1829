// A model behind Anthropic's Messages API, or a compatible service: streams, tool calls, usage, and continuation of an
// interrupted answer. No package needed. Thinking is kept as a note; its blocks are not sent back.

import { type Allowed, checkGivenOptions, checkValues } from '../../../core/options.ts'
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

export interface AnthropicModelOptions extends HttpModelOptions {
  /** The maximum length of an answer, which the API requires. Default: 4096. */
  readonly maxTokens?: number
  /** The version of the API. */
  readonly version?: string
  /**
   * Marks the prompt, the tools and the end of the conversation for the prompt cache, so that the next call reads them at a
   * tenth of the price: for five minutes after the last use ('5m'), or for an hour ('1h'). Default: '5m'.
   */
  readonly promptCache?: '5m' | '1h' | false
}

interface Block {
  readonly type: string
  readonly text?: string
  readonly thinking?: string
  readonly id?: string
  readonly name?: string
  readonly input?: unknown
}

interface Tokens {
  readonly input_tokens?: number
  readonly output_tokens?: number
  readonly cache_creation_input_tokens?: number
  readonly cache_read_input_tokens?: number
  /** `cache_creation_input_tokens` by cache lifetime. */
  readonly cache_creation?: { readonly ephemeral_1h_input_tokens?: number } | null
}

interface Event {
  readonly type: string
  readonly index?: number
  readonly message?: { readonly usage?: Tokens }
  readonly content_block?: Block
  readonly delta?: {
    readonly type?: string
    readonly text?: string
    readonly partial_json?: string
    readonly thinking?: string
  }
  readonly usage?: Tokens
  readonly error?: unknown
}

const known = new Set([...httpModelOptions, 'maxTokens', 'version', 'promptCache'])
const values: Readonly<Record<string, readonly Allowed[]>> = {
  promptCache: ['5m', '1h', ['false', (value) => value === false]],
}

/**
 * A model over Anthropic's Messages API.
 * @example agent('support', { model: anthropicModel({ model: 'claude-sonnet-4-5', apiKey: process.env.ANTHROPIC_API_KEY }) })
 */
export function anthropicModel<Data = unknown>(options: AnthropicModelOptions): LanguageModel<Data> {
  checkGivenOptions('anthropicModel', options, known)
  checkValues('anthropicModel', options, values)
  const url = `${(options.url ?? 'https://api.anthropic.com').replace(/\/$/, '')}/v1/messages`
  const send = async (call: ModelCall<Data>): Promise<Response> => {
    const headers = {
      ...(options.apiKey !== undefined && { 'x-api-key': options.apiKey }),
      'anthropic-version': options.version ?? '2023-06-01',
      'idempotency-key': call.key,
      ...options.headers,
    }
    return await post(url, headers, requestOf(call, options), call.signal, options.fetch)
  }
  return options.stream === false
    ? async (call) => wholeAnswer((await (await send(call)).json()) as WholeBody, call, options)
    : (call) => streamAnswer(() => send(call), call, options)
}

type WholeBody = { readonly content?: readonly Block[]; readonly usage?: Tokens; readonly error?: unknown }

function requestOf(call: ModelCall<unknown>, options: AnthropicModelOptions): object {
  const { settings, toolDefinitions } = call
  const { promptCache = '5m' } = options
  const tools = toolDefinitions.map(({ name, description, parameters }) => ({
    name,
    description,
    input_schema: parameters,
  }))
  const system = settings.prompt === undefined ? [] : [{ type: 'text', text: settings.prompt }]
  const messages = messagesOf(call)
  if (promptCache !== false) {
    for (const blocks of [tools, system, ...turnEnds(messages, call)]) markLast(blocks, promptCache)
  }
  return {
    model: settings.model ?? options.model,
    max_tokens: options.maxTokens ?? 4096,
    ...(system.length > 0 && { system: promptCache === false ? settings.prompt : system }),
    messages,
    ...(tools.length > 0 && { tools }),
    ...(options.stream !== false && { stream: true }),
    ...options.parameters,
    ...settings.parameters,
  }
}

/**
 * The last two messages of the user: this call writes the cache up to the last one, and reads what the call before it wrote
 * up to the other. The service looks back only about twenty blocks from a mark. A truncated answer at the end is not marked.
 */
function turnEnds(messages: readonly WireMessage[], call: ModelCall<unknown>): object[][] {
  const users = messages.filter(({ role }) => role === 'user').slice(-2)
  return call.messages.length === 0 ? [] : users.map(({ content }) => content)
}

/** Empty text blocks must not be marked. */
function markLast(blocks: object[], ttl: '5m' | '1h'): void {
  const last = blocks.at(-1)
  if (!last || ('text' in last && last.text === '') || 'cache_control' in last) return
  blocks[blocks.length - 1] = { ...last, cache_control: { type: 'ephemeral', ...(ttl === '1h' && { ttl }) } }
}

interface WireMessage {
  readonly role: 'user' | 'assistant'
  readonly content: object[]
}

/** Roles must alternate: consecutive messages of one role are merged. */
function messagesOf(call: ModelCall<unknown>): WireMessage[] {
  const messages: WireMessage[] = []
  const add = (role: WireMessage['role'], blocks: object[]) => {
    const last = messages.at(-1)
    if (last?.role === role) last.content.push(...blocks)
    else if (blocks.length > 0) messages.push({ role, content: blocks })
  }
  for (const line of transcript(call.messages)) {
    if (line.kind === 'user') add('user', userBlocks(line.content))
    else {
      add('assistant', assistantBlocks(line))
      add('user', resultBlocks(line))
    }
  }
  // The service continues the last message; it refuses one that ends in whitespace.
  const begun = call.isContinued ? call.partial.trimEnd() : ''
  if (begun !== '') add('assistant', [{ type: 'text', text: begun }])
  return messages
}

function userBlocks(content: unknown): object[] {
  if (Array.isArray(content)) return content as object[]
  return [{ type: 'text', text: typeof content === 'string' ? content : JSON.stringify(content ?? '') }]
}

function assistantBlocks({ text, calls }: Extract<SessionTimeline, { kind: 'assistant' }>): object[] {
  const texts = text.trim() === '' ? [] : [{ type: 'text', text: text.trimEnd() }]
  return [
    ...texts,
    ...calls.map(({ id, tool, args }) => ({
      type: 'tool_use',
      id: wireId(id),
      name: tool,
      input: args,
    })),
  ]
}

function resultBlocks({ calls }: Extract<SessionTimeline, { kind: 'assistant' }>): object[] {
  return calls.map(({ id, result, isError }) => ({
    type: 'tool_result',
    tool_use_id: wireId(id),
    content: result,
    ...(isError && { is_error: true }),
  }))
}

/** Ids from another service may contain characters that this one refuses. */
function wireId(id: string): string {
  return id.replace(/[^A-Za-z0-9_-]/g, '_')
}

function wholeAnswer(body: WholeBody, call: ModelCall<unknown>, options: AnthropicModelOptions): ModelAnswer {
  if (body.error !== undefined) throw streamError(body.error)
  const blocks = body.content ?? []
  const text = blocks.map((block) => block.text ?? '').join('')
  const note = blocks.map((block) => block.thinking ?? '').join('')
  const requests = blocks.flatMap((block): ToolRequest[] =>
    block.type === 'tool_use' ? [{ id: block.id!, tool: block.name!, args: block.input ?? {} }] : [],
  )
  return { content: afterPartial(call, text), ...rest(requests, note, body.usage ?? {}, options) }
}

async function* streamAnswer(
  send: () => Promise<Response>,
  call: ModelCall<unknown>,
  options: AnthropicModelOptions,
): AsyncGenerator<ModelPart, void> {
  const calls = new Map<number, { readonly id: string; readonly tool: string; args: string }>()
  let tokens: Tokens = {}
  let note = ''
  let isWhole = false
  let isFirst = true
  for await (const data of readEvents(await send())) {
    const event = JSON.parse(data) as Event
    const { index = 0, delta, content_block: block } = event
    if (event.type === 'error') throw streamError(event.error)
    if (event.type === 'message_stop') isWhole = true
    tokens = { ...tokens, ...event.message?.usage, ...event.usage }
    if (block?.type === 'tool_use') calls.set(index, { id: block.id!, tool: block.name!, args: '' })
    if (delta?.partial_json !== undefined) calls.get(index)!.args += delta.partial_json
    note += delta?.thinking ?? ''
    if (!delta?.text) continue
    const text = isFirst ? afterPartial(call, delta.text) : delta.text
    isFirst = false
    if (text !== '') yield { text }
  }
  if (!isWhole) throw cutOff()
  const requests = [...calls.values()].map(({ id, tool, args }): ToolRequest => ({ id, tool, args: parseArgs(args) }))
  yield rest(requests, note, tokens, options)
}

/** Trims the start of the continuation if the partial text ends in whitespace, which the request trimmed. */
function afterPartial({ isContinued, partial }: ModelCall<unknown>, text: string): string {
  return isContinued && partial !== partial.trimEnd() ? text.trimStart() : text
}

function rest(requests: readonly ToolRequest[], note: string, tokens: Tokens, options: AnthropicModelOptions) {
  return {
    ...(requests.length > 0 && { requests }),
    ...(note !== '' && { note }),
    usage: usageOf(countsOf(tokens), options.price, cachedShares),
  }
}

/** Anthropic's prices of cached tokens as shares of the input price, the same for all its models. */
const cachedShares = { read: 0.1, write: 1.25, writeHour: 2 }

function countsOf(tokens: Tokens): TokenCounts {
  const written = tokens.cache_creation_input_tokens ?? 0
  const cacheWriteHour = Math.min(written, tokens.cache_creation?.ephemeral_1h_input_tokens ?? 0)
  return {
    input: tokens.input_tokens ?? 0,
    output: tokens.output_tokens ?? 0,
    cacheRead: tokens.cache_read_input_tokens ?? 0,
    cacheWrite: written - cacheWriteHour,
    cacheWriteHour,
  }
}
