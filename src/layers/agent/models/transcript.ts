// A session's messages in the form that the adapters need: each request has its own id, each result has that id, and
// the results directly follow the requests.

import type { Message, ToolRequest } from '../message.ts'
import { place } from '../state.ts'

export type SessionTimeline =
  | { readonly kind: 'user'; readonly content: unknown }
  | { readonly kind: 'assistant'; readonly text: string; readonly calls: readonly TranscriptCall[] }

export interface TranscriptCall {
  readonly id: string
  readonly tool: string
  readonly args: object
  readonly result: string
  readonly isError: boolean
}

export function transcript(messages: readonly Message[]): SessionTimeline[] {
  const answers = new Map<string, Message>()
  for (const message of messages) {
    // A call that was made in place of a similar one has a "+" after its id.
    if (message.answers !== undefined) answers.set(message.answers.replace(/\++$/, ''), message)
  }
  const lines: SessionTimeline[] = []
  let turn = -1
  let index = 0
  for (const message of messages) {
    if (message.turn !== turn) {
      turn = message.turn
      index = 0
    }
    if (message.role === 'user') lines.push({ kind: 'user', content: message.content })
    else if (message.role === 'agent') {
      lines.push({ kind: 'user', content: `${message.from ?? 'another agent'}: ${textOf(message.content)}` })
    } else if (message.role === 'assistant') {
      const { requests = [] } = message
      const first = index + 1
      index += 1 + requests.length
      const calls = requests.map((request, i) => callOf(request, place(turn, first + i), answers))
      const text = textOf(message.content)
      // Services refuse a message without text and without calls.
      if (text !== '' || calls.length > 0) lines.push({ kind: 'assistant', text, calls })
    }
  }
  return lines
}

function callOf(request: ToolRequest, at: string, answers: ReadonlyMap<string, Message>): TranscriptCall {
  const { id = `call_${at.replace('.', '_')}`, tool } = request
  const args = objectOf(request.args)
  const answer = answers.get(at)
  // Every request must have a result.
  if (!answer) return { id, tool, args, result: 'it was not called', isError: true }
  return { id, tool, args, result: textOf(answer.content), isError: answer.isError ?? false }
}

/** Services accept only an object here, even if the model wrote another value. */
function objectOf(args: unknown): object {
  return typeof args === 'object' && args !== null && !Array.isArray(args) ? args : { value: args ?? null }
}

export function textOf(content: unknown): string {
  if (content === null || content === undefined) return ''
  return typeof content === 'string' ? content : JSON.stringify(content)
}
