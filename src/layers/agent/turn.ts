// A turn: asks the model, makes the calls it wants, asks again, until it wants none. What comes next is a function of the
// state alone, so a turn that was cut off anywhere goes on exactly where its history ends.

import { getEffect } from '../../core/effects.ts'
import { abortError, type CallHost, callTool, entry, fail, intend, messageOf } from './calls.ts'
import type { ModelInDoubt } from './definition.ts'
import type { Message, Model, ModelAnswer, ModelCall, ModelPart, ToolRequest } from './message.ts'
import { type CallRecord, place, type SessionState, type Waiting } from './state.ts'
import { StreamWriter } from './stream.ts'
import { allowedTools } from './tool.ts'

export type NextStep =
  | { readonly kind: 'model'; readonly id: string; readonly index: number }
  | { readonly kind: 'tool'; readonly id: string; readonly request: ToolRequest }
  | { readonly kind: 'end' }

export function messagesOfTurn(state: Readonly<SessionState<unknown>>, turn: number): Message[] {
  const found: Message[] = []
  for (const message of state.messages.values({ reverse: true })) {
    if (message.turn < turn) break
    if (message.turn === turn) found.push(message)
  }
  return found.reverse()
}

/** The model's calls and the tools' are numbered in the order in which they are asked for. */
export function nextStep(state: SessionState<unknown>): NextStep {
  const { turn } = state
  let index = 0
  let asked: { readonly first: number; readonly requests: readonly ToolRequest[] } | null = null
  const answered = new Set<string>()
  for (const message of messagesOfTurn(state, turn)) {
    if (message.answers !== undefined) answered.add(message.answers)
    if (message.role !== 'assistant') continue
    const requests = message.requests ?? []
    asked = { first: index + 1, requests }
    index += 1 + requests.length
  }
  if (!asked) return { kind: 'model', id: place(turn, 0), index: 0 }
  for (const [i, request] of asked.requests.entries()) {
    const id = place(turn, asked.first + i)
    if (!answered.has(id) && !answered.has(`${id}+`)) return { kind: 'tool', id, request }
  }
  return asked.requests.length === 0 ? { kind: 'end' } : { kind: 'model', id: place(turn, index), index }
}

export interface TurnHost<Data> extends CallHost {
  readonly model: Model<Data> | undefined
  readonly modelInDoubt: ModelInDoubt
  readonly settings: ModelCall<Data>['settings']
  readonly signal: AbortSignal | undefined
}

/** One step of the turn under way; a waiting one needs a person first. */
export async function takeStep<Data>(
  host: TurnHost<Data>,
  model: Model<Data>,
  step: Exclude<NextStep, { kind: 'end' }>,
): Promise<Waiting | null> {
  if (step.kind === 'model') return await callModel(host, model, step.id)
  const { tool, args } = step.request
  const outcome = await callTool(host, step.id, host.open.state.turn, tool, args, host.signal)
  return outcome.kind === 'waiting' ? outcome.waiting : null
}

async function callModel<Data>(host: TurnHost<Data>, model: Model<Data>, id: string): Promise<Waiting | null> {
  const state = host.open.state as SessionState<Data>
  const { turn } = state
  const call = { id, turn, tool: 'model', kind: 'model' as const, args: null, digest: id, attempt: 1 }
  const record = state.calls.get(id)
  const isCut = record !== undefined && getEffect(host.open.ledger, id)?.outcome === null
  if (isCut && host.modelInDoubt === 'hold' && record.state !== 'approved') return await holdModel(host, record)
  const before = isCut ? state.streams.get(id) : undefined
  const { key, attempt } = await intend(host, { ...call, state: 'intended' }, 'none')
  const request: ModelCall<Data> = {
    messages: [...state.messages.values()],
    data: state.data,
    plan: state.plan,
    notes: [...state.notes.values()],
    settings: host.settings,
    tools: allowedTools(host.tools, host.settings),
    key,
    attempt,
    partial: before?.text ?? '',
    signal: host.signal,
  }
  // A continued answer stays the attempt that it began as: whoever reads along notices nothing.
  const begun = before && host.modelInDoubt === 'continue' ? before : null
  try {
    const made = model(request)
    const answer = isStream(made) ? await readStream(host, id, attempt, begun, made) : joined(begun, await made)
    const shown = begun ? { attempt: begun.attempt } : {}
    await host.open.write([
      { type: '$effect.done', data: { id } },
      entry('answered', { id, answer: plain(answer), ...shown }),
    ])
    return null
  } catch (error) {
    // Given up half-way: it stays in doubt, and is asked again under the same key.
    if (host.signal?.aborted) throw abortError(host.signal, error)
    if (!host.open.broken) await fail(host, id, messageOf(error))
    throw error
  }
}

async function holdModel(host: CallHost, record: CallRecord): Promise<Waiting> {
  const waiting: Waiting = {
    kind: 'in-doubt',
    reason: 'the model was asked, and its answer was cut off',
    call: record.id,
    tool: 'model',
  }
  const held = [entry('called', { ...record, state: 'waiting' }), entry('interrupted', waiting)]
  await host.open.write(held, { status: 'waiting' })
  return waiting
}

/** Pieces are written as they come, a few at a time: whoever reads along, or comes back, gets them from history. */
async function readStream(
  host: CallHost,
  id: string,
  attempt: number,
  begun: { readonly attempt: number; readonly text: string } | null,
  parts: AsyncIterable<ModelPart>,
): Promise<ModelAnswer> {
  const writer = new StreamWriter(host, id, begun ?? { attempt, text: '' })
  let rest: Omit<Partial<ModelAnswer>, 'content'> = {}
  for await (const part of parts) {
    if ('text' in part) await writer.add(part.text)
    else rest = { ...rest, ...part }
  }
  return { ...rest, content: await writer.end() }
}

function joined(begun: { readonly text: string } | null, answer: ModelAnswer): ModelAnswer {
  if (!begun || typeof answer.content !== 'string') return answer
  return { ...answer, content: begun.text + answer.content }
}

function isStream(made: unknown): made is AsyncIterable<ModelPart> {
  return typeof made === 'object' && made !== null && Symbol.asyncIterator in made
}

/** Only what an answer is made of; a model may hand over more. */
function plain(answer: ModelAnswer): ModelAnswer {
  const { content, requests, usage, note, plan } = answer
  return {
    content,
    ...(requests !== undefined && { requests }),
    ...(usage !== undefined && { usage }),
    ...(note !== undefined && { note }),
    ...(plan !== undefined && { plan }),
  }
}
