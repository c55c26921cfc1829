// A scripted model server on loopback that speaks the chat completions protocol, streams included, and counts requests.

import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pause } from '../support/until.ts'

export interface ScriptedAnswer {
  readonly text?: string
  readonly calls?: readonly { readonly id: string; readonly name: string; readonly args: unknown }[]
}

export interface ModelServer {
  readonly url: string
  requests: number
  close(): Promise<void>
}

interface ChatRequest {
  readonly stream?: boolean
  readonly messages: readonly { readonly role: string; readonly content: unknown }[]
}

export async function startModelServer(script: (request: ChatRequest) => ScriptedAnswer): Promise<ModelServer> {
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (piece) => {
      body += piece
    })
    request.on('end', () => {
      made.requests += 1
      const parsed = JSON.parse(body) as ChatRequest
      const answer = script(parsed)
      if (parsed.stream) void stream(response, answer)
      else whole(response, answer)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const made: ModelServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests: 0,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  }
  return made
}

const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
const common = { id: 'c1', created: 1, model: 'scripted' }

function toolCalls(answer: ScriptedAnswer) {
  return (answer.calls ?? []).map(({ id, name, args }, index) => ({
    index,
    id,
    type: 'function',
    function: { name, arguments: JSON.stringify(args) },
  }))
}

function whole(response: ServerResponse, answer: ScriptedAnswer): void {
  const calls = toolCalls(answer)
  const message = { role: 'assistant', content: answer.text ?? null, ...(calls.length > 0 && { tool_calls: calls }) }
  const choices = [{ index: 0, message, finish_reason: calls.length > 0 ? 'tool_calls' : 'stop' }]
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ ...common, object: 'chat.completion', choices, usage }))
}

async function stream(response: ServerResponse, answer: ScriptedAnswer): Promise<void> {
  response.setHeader('content-type', 'text/event-stream')
  const send = (delta: object, finish: string | null = null) => {
    const choices = [{ index: 0, delta, finish_reason: finish }]
    response.write(`data: ${JSON.stringify({ ...common, object: 'chat.completion.chunk', choices })}\n\n`)
  }
  for (const word of (answer.text ?? '').split(/(?<= )/)) {
    send({ role: 'assistant', content: word })
    await pause(2)
  }
  const calls = toolCalls(answer)
  if (calls.length > 0) send({ tool_calls: calls })
  send({}, calls.length > 0 ? 'tool_calls' : 'stop')
  response.write(`data: ${JSON.stringify({ ...common, object: 'chat.completion.chunk', choices: [], usage })}\n\n`)
  response.end('data: [DONE]\n\n')
}
