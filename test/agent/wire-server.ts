// A local HTTP server with the wire formats of model services and their checks: a conversation that they would refuse is
// refused with 400. Its answers are scripted in one vocabulary for both formats.

import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Answer {
  readonly text?: string
  readonly thinking?: string
  readonly calls?: readonly { readonly id: string; readonly name: string; readonly json: string }[]
  /** Answered instead, with this header. */
  readonly status?: number
  readonly retryAfter?: string
  /** The connection ends after this many events. */
  readonly cutAfter?: number
  /** An error in the stream after this many events. */
  readonly errorAfter?: number
}

// biome-ignore lint/suspicious/noExplicitAny: bodies of two services, looked at as they are
export type Body = any

export interface WireServer {
  readonly url: string
  readonly requests: { readonly body: Body; readonly headers: IncomingHttpHeaders }[]
  close(): Promise<void>
}

export async function startWireServer(
  kind: 'openai' | 'anthropic',
  script: (body: Body, count: number) => Answer,
): Promise<WireServer> {
  const requests: { body: Body; headers: IncomingHttpHeaders }[] = []
  const server = createServer((request, response) => {
    let text = ''
    request.on('data', (piece) => {
      text += piece
    })
    request.on('end', () => {
      const body = JSON.parse(text)
      requests.push({ body, headers: request.headers })
      const fault = kind === 'openai' ? openAIFault(body) : anthropicFault(body)
      const answer = fault ? { status: 400 } : script(body, requests.length)
      if (answer.status) {
        if (answer.retryAfter) response.setHeader('retry-after', answer.retryAfter)
        response.statusCode = answer.status
        response.end(JSON.stringify({ error: { message: fault ?? 'scripted' } }))
      } else if (body.stream)
        void sendEvents(response, answer, kind === 'openai' ? chatEvents(answer) : messageEvents(answer))
      else response.end(JSON.stringify(kind === 'openai' ? chatBody(answer) : messageBody(answer)))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${kind === 'openai' ? '/v1' : ''}`
  return { url, requests, close: () => new Promise((resolve) => server.close(() => resolve())) }
}

async function sendEvents(response: ServerResponse, answer: Answer, events: readonly string[]): Promise<void> {
  response.setHeader('content-type', 'text/event-stream')
  for (const [i, event] of events.entries()) {
    if (i === answer.cutAfter) return void response.destroy()
    if (i === answer.errorAfter) {
      const error = { type: 'overloaded_error', message: 'too many of you' }
      return void response.end(`event: error\ndata: ${JSON.stringify({ type: 'error', error })}\n\n`)
    }
    // In two halves, so that no reader may count on whole events.
    response.write(event.slice(0, 9))
    await new Promise((resolve) => setImmediate(resolve))
    response.write(event.slice(9))
  }
  response.end()
}

const words = (text: string) => text.split(/(?<=\S )/).filter((word) => word !== '')
const halves = (text: string) => [text.slice(0, 3), text.slice(3)]

function chatEvents({ text = '', calls = [] }: Answer): string[] {
  const event = (choices: object[], more: object = {}) => `data: ${JSON.stringify({ id: 'c', choices, ...more })}\n\n`
  const delta = (part: object, finish_reason: string | null = null) => event([{ index: 0, delta: part, finish_reason }])
  return [
    delta({ role: 'assistant', content: '' }),
    ...words(text).map((content) => delta({ content })),
    ...calls.flatMap(({ id, name, json }, index) => [
      delta({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }),
      ...halves(json).map((part) => delta({ tool_calls: [{ index, function: { arguments: part } }] })),
    ]),
    delta({}, calls.length > 0 ? 'tool_calls' : 'stop'),
    event([], { usage: { prompt_tokens: 100, completion_tokens: 20, prompt_tokens_details: { cached_tokens: 40 } } }),
    'data: [DONE]\n\n',
  ]
}

function chatBody({ text, calls = [] }: Answer): object {
  const tool_calls = calls.map(({ id, name, json }) => ({ id, type: 'function', function: { name, arguments: json } }))
  const message = { role: 'assistant', content: text ?? null, ...(calls.length > 0 && { tool_calls }) }
  return {
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: { prompt_tokens: 100, completion_tokens: 20, prompt_tokens_details: { cached_tokens: 40 } },
  }
}

function messageEvents({ text = '', thinking, calls = [] }: Answer): string[] {
  const event = (type: string, more: object) => `event: ${type}\r\ndata: ${JSON.stringify({ type, ...more })}\r\n\r\n`
  let index = -1
  const block = (content_block: object, deltas: readonly object[]) => {
    index += 1
    const at = index
    return [
      event('content_block_start', { index: at, content_block }),
      ...deltas.map((delta) => event('content_block_delta', { index: at, delta })),
      event('content_block_stop', { index: at }),
    ]
  }
  return [
    event('message_start', {
      message: { id: 'm', usage: { input_tokens: 60, cache_read_input_tokens: 40, output_tokens: 1 } },
    }),
    event('ping', {}),
    ...(thinking ? block({ type: 'thinking', thinking: '' }, [{ type: 'thinking_delta', thinking }]) : []),
    ...(text
      ? block(
          { type: 'text', text: '' },
          words(text).map((word) => ({ type: 'text_delta', text: word })),
        )
      : []),
    ...calls.flatMap(({ id, name, json }) =>
      block(
        { type: 'tool_use', id, name, input: {} },
        halves(json).map((part) => ({ type: 'input_json_delta', partial_json: part })),
      ),
    ),
    event('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 20 } }),
    event('message_stop', {}),
  ]
}

function messageBody({ text, thinking, calls = [] }: Answer): object {
  const content = [
    ...(thinking ? [{ type: 'thinking', thinking }] : []),
    ...(text ? [{ type: 'text', text }] : []),
    ...calls.map(({ id, name, json }) => ({ type: 'tool_use', id, name, input: JSON.parse(json) })),
  ]
  return {
    content,
    stop_reason: 'end_turn',
    usage: { input_tokens: 60, cache_read_input_tokens: 40, output_tokens: 20 },
  }
}

/** Every call has a result with its id directly after the message that requests it. */
function openAIFault({ messages, tools = [] }: Body): string | null {
  for (const tool of tools)
    if (tool.type !== 'function' || !tool.function.parameters) return 'a tool without parameters'
  let open = new Set<string>()
  for (const message of messages) {
    if (message.role === 'tool') {
      if (!open.delete(message.tool_call_id)) return `nobody asked for ${message.tool_call_id}`
      if (typeof message.content !== 'string') return 'the result of a tool is text'
      continue
    }
    if (open.size > 0) return `not answered: ${[...open]}`
    if (message.role === 'assistant' && message.content === null && !message.tool_calls) return 'an empty message'
    open = new Set((message.tool_calls ?? []).map((call: Body) => call.id))
  }
  return open.size > 0 ? `not answered: ${[...open]}` : null
}

/** Roles take turns, the user first; results come first in the message behind their calls; no space at the very end. */
function anthropicFault({ messages, max_tokens, tools = [] }: Body): string | null {
  if (!(max_tokens > 0)) return 'max_tokens is missing'
  for (const tool of tools) if (!tool.input_schema) return 'a tool without input_schema'
  let open = new Set<string>()
  for (const [i, { role, content }] of messages.entries()) {
    if (role !== (i % 2 === 0 ? 'user' : 'assistant')) return `message ${i} is of the wrong role`
    if (content.length === 0) return `message ${i} is empty`
    for (const block of content) {
      if (block.type === 'text' && block.text.trim() === '') return 'a text is blank'
      if (block.type === 'tool_result' && !open.delete(block.tool_use_id))
        return `nobody asked for ${block.tool_use_id}`
      if (block.type === 'tool_use' && !/^[a-zA-Z0-9_-]+$/.test(block.id)) return `the id ${block.id} is not valid`
      if (block.type === 'tool_use' && typeof block.input !== 'object') return 'an input is no object'
    }
    if (role === 'user' && open.size > 0) return `not answered: ${[...open]}`
    open = new Set(content.filter((block: Body) => block.type === 'tool_use').map((block: Body) => block.id))
  }
  const last = messages.at(-1)
  return last.role === 'assistant' && /\s$/.test(last.content.at(-1).text) ? 'the end is a space' : null
}
