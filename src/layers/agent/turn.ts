// A turn: calls the model, then the tools that it requests, and repeats until it requests none. The next step is a
// function of the state alone, so an interrupted turn resumes exactly where its history ends.

import { isReprise } from '../../core/errors.ts'
import { getEffect } from '../../core/history/effects.ts'
import { checkList, checkObject, checkText } from '../../core/options.ts'
import { CallWatch } from './call-watch.ts'
import {
  abortError,
  type CallHost,
  callTool,
  digestOf,
  fail,
  intend,
  messageOf,
  postpone,
  showCall,
  throwIfAborted,
  untilDue,
} from './calls.ts'
import { type ContextOptions, contextOf, summaryReaches, summaryRequest, summaryText, tokensOf } from './context.ts'
import { waits } from './due.ts'
import type { LanguageModel, Message, ModelAnswer, ModelCall, ModelInDoubt, ModelPart, ToolRequest } from './message.ts'
import { type AwaitedDecision, type CallRecord, entry, messagesOfTurn, place, type SessionState } from './state.ts'
import { StreamWriter } from './stream.ts'
import { allowedTools, retriesInDoubt, toolDefinitions } from './tool.ts'

interface RequestedCall {
  readonly id: string
  readonly request: ToolRequest
}

export type NextStep =
  | { readonly kind: 'model'; readonly id: string; readonly index: number }
  /** Calls without a result, in order. */
  | { readonly kind: 'tools'; readonly calls: readonly RequestedCall[] }
  | { readonly kind: 'end' }

/** Model and tool calls are numbered in the order in which they are requested. */
export function nextStep(state: SessionState<unknown>): NextStep {
  const { turn } = state
  let index = 0
  let latest: { readonly first: number; readonly requests: readonly ToolRequest[] } | null = null
  const answered = new Set<string>()
  for (const message of messagesOfTurn(state, turn)) {
    if (message.answers !== undefined) answered.add(message.answers)
    if (message.role !== 'assistant') continue
    const requests = message.requests ?? []
    latest = { first: index + 1, requests }
    index += 1 + requests.length
  }
  if (!latest) return { kind: 'model', id: place(turn, 0), index: 0 }
  const { first, requests } = latest
  const calls = requests
    .map((request, i) => ({ id: place(turn, first + i), request }))
    .filter(({ id }) => !answered.has(id) && !answered.has(`${id}+`))
  if (calls.length > 0) return { kind: 'tools', calls }
  return requests.length === 0 ? { kind: 'end' } : { kind: 'model', id: place(turn, index), index }
}

export interface TurnHost<Data> extends CallHost {
  readonly model: LanguageModel<Data> | undefined
  readonly modelInDoubt: ModelInDoubt
  readonly context: ContextOptions<Data> | undefined
  readonly settings: ModelCall<Data>['settings']
  readonly signal: AbortSignal | undefined
}

/** Takes one step of the current turn; a waiting turn needs a person first. */
export async function takeStep<Data>(
  host: TurnHost<Data>,
  model: LanguageModel<Data>,
  step: Exclude<NextStep, { kind: 'end' }>,
): Promise<AwaitedDecision | null> {
  if (step.kind === 'model') return await callModel(host, model, step.id)
  const { turn } = host.open.state
  const outcomes = await Promise.allSettled(
    together(host, step.calls).map(({ id, request: { tool, args } }) =>
      callTool(host, id, turn, tool, args, host.signal),
    ),
  )
  // All calls have ended, so the failure of one does not lose the outcome of another.
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  const waiting = outcomes.flatMap((each) =>
    each.status === 'fulfilled' && each.value.kind === 'waiting' ? [each.value.waiting] : [],
  )
  return waiting[0] ?? null
}

/** The first call, and the following ones that may run in parallel with it and with each other. */
function together(host: CallHost, calls: readonly RequestedCall[]): readonly RequestedCall[] {
  const end = calls.findIndex(({ id, request }) => !mayRunBeside(host, id, request.tool))
  return calls.slice(0, end < 0 ? calls.length : Math.max(1, end))
}

/** False if the call may need a person's decision: a session waits for one decision at a time. */
function mayRunBeside(host: CallHost, id: string, name: string): boolean {
  const tool = Object.hasOwn(host.tools, name) ? host.tools[name]! : undefined
  if (!tool || !(tool.parallel ?? tool.kind === 'read-only') || tool.approve) return false
  if (tool.kind !== 'read-only' && host.open.state.standing.some((one) => one.tool === name)) return false
  const record = host.open.state.calls.get(id)
  if (record === undefined || record.retryAt !== undefined) return true
  return record.state === 'intended' && !tool.probe && retriesInDoubt(tool)
}

async function callModel<Data>(
  host: TurnHost<Data>,
  model: LanguageModel<Data>,
  id: string,
): Promise<AwaitedDecision | null> {
  const tooLarge = await fitContext(host, model, id)
  if (tooLarge) return tooLarge
  return await repeatCall<Data, ModelAnswer>(host, id, {
    hold: (record) => (host.modelInDoubt === 'hold' ? holdModel(host, record) : null),
    async make(isCut) {
      const intended = await intendModel(host, id, isCut)
      return {
        answer: () => askModel(host, model, intended),
        write: (answer) => writeAnswer(host, intended, answer),
      }
    },
  })
}

/** One call of a model: `make` records its intent. */
interface RepeatedCall<Answer> {
  /** Waits for a person, if the call's outcome is unknown and the agent wants that. */
  hold(record: CallRecord): Promise<AwaitedDecision | null> | null
  make(isCut: boolean): Promise<{ answer(): Promise<Answer>; write(answer: Answer): Promise<unknown> }>
}

/** Makes the call until it succeeds, as often as the agent's policy allows. */
async function repeatCall<Data, Answer>(
  host: TurnHost<Data>,
  id: string,
  { hold, make }: RepeatedCall<Answer>,
): Promise<AwaitedDecision | null> {
  const guard = host.guards.model
  const call = {}
  for (;;) {
    await untilDue(host, id, host.signal)
    const record = host.open.state.calls.get(id)
    const isCut = record !== undefined && getEffect(host.open.ledger, id)?.outcome === null
    const held = isCut && record.state !== 'approved' ? hold(record) : null
    if (held) return await held
    await guard.enter(host.engine.clock, call, host.signal)
    let made: Awaited<ReturnType<typeof make>>
    try {
      throwIfAborted(host.signal)
      made = await make(isCut)
    } catch (error) {
      guard.left(call)
      throw error
    }
    let answer: Answer
    try {
      answer = await made.answer()
      guard.succeeded()
    } catch (error) {
      // The call was aborted midway: it stays in doubt, and is repeated under the same key.
      if (host.signal?.aborted) throw abortError(host.signal, error)
      if (host.open.broken) throw error
      if (await postpone(host, guard, call, id, error)) continue
      await fail(host, id, messageOf(error))
      throw error
    } finally {
      guard.left(call)
    }
    await made.write(answer)
    return null
  }
}

/** Summarizes older turns until the next call has at most the agent's number of tokens. Otherwise a person decides. */
async function fitContext<Data>(
  host: TurnHost<Data>,
  model: LanguageModel<Data>,
  id: string,
): Promise<AwaitedDecision | null> {
  const { context, open, settings, tools } = host
  if (!context || open.state.overruled === open.state.turn) return null
  const call = { settings, toolDefinitions: toolDefinitions(tools, allowedTools(tools, settings)) }
  const needed = () => tokensOf(context, call, contextOf(open.state))
  const reaches = context.summarize === false ? [] : summaryReaches(open.state, context)
  for (const through of reaches) {
    if (needed() <= context.tokensMax) return null
    await summarize(host, context.summarize || model, `${id}s${through}`, through)
  }
  const tokens = needed()
  if (tokens <= context.tokensMax) return null
  const reason = `the model call needs about ${tokens} tokens of at most ${context.tokensMax}`
  const waiting: AwaitedDecision = { kind: 'handover', reason }
  await open.write([entry('interrupted', waiting)], waits)
  return waiting
}

/** The request repeats the beginning of earlier ones, tools included, so that the service's prompt cache serves it. */
async function summarize<Data>(
  host: TurnHost<Data>,
  model: LanguageModel<Data>,
  id: string,
  through: number,
): Promise<void> {
  const { state } = host.open
  const request: Message = { role: 'user', content: summaryRequest, turn: through }
  const messages = [...contextOf(state, through), request]
  const digest = digestOf(host.engine, 'summary', messages)
  const call = { id, turn: state.turn, tool: 'summary', kind: 'model' as const, args: { through }, digest, attempt: 1 }
  await repeatCall<Data, { readonly content: string; readonly usage: ModelAnswer['usage'] }>(host, id, {
    // A summary has no effect outside: it is always repeated.
    hold: () => null,
    async make() {
      const intended = await intend(host, { ...call, state: 'intended' }, 'none')
      return {
        async answer() {
          const ask = { ...intended, id, partial: '', begun: null }
          const answer = await askModel(host, model, ask, { messages, isShown: false })
          return { content: summaryText(answer), usage: answer.usage }
        },
        write: ({ content, usage }) =>
          host.open.write([
            { type: '$effect.done', data: { id } },
            entry('summarized', { id, through, content, ...(usage && { usage }) }),
          ]),
      }
    },
  })
}

/** A model call whose intent is recorded. */
interface IntendedCall {
  readonly id: string
  readonly key: string
  readonly attempt: number
  /** The text that an earlier attempt had streamed before it was interrupted. */
  readonly partial: string
  /** The earlier attempt, if this one continues it. */
  readonly begun: { readonly attempt: number; readonly text: string } | null
}

async function intendModel<Data>(host: TurnHost<Data>, id: string, isCut: boolean): Promise<IntendedCall> {
  const { state } = host.open
  const digest = questionDigest(host)
  const call = { id, turn: state.turn, tool: 'model', kind: 'model' as const, args: null, digest, attempt: 1 }
  const before = isCut ? state.streams.get(id) : undefined
  const { key, attempt } = await intend(host, { ...call, state: 'intended' }, 'none')
  // A continued answer keeps its attempt number, so a reader of the stream sees no restart.
  const begun = before && host.modelInDoubt === 'continue' ? before : null
  return { id, key, attempt, partial: before?.text ?? '', begun }
}

/** The digest of the question as it is sent: another question at the same position has another key. */
function questionDigest<Data>({ engine, open, tools, settings }: TurnHost<Data>): string {
  const { data, plan, notes } = open.state
  // The attempt that returned a message is not part of the conversation.
  const sent = contextOf(open.state).map(({ attempt: _, ...message }) => message)
  const definitions = JSON.stringify(toolDefinitions(tools, allowedTools(tools, settings)))
  return digestOf(engine, 'model', [sent, data, plan, [...notes.values()], settings, definitions])
}

/** An answer that cannot be stored is a failure of the model; a failure of the store is not. */
async function writeAnswer(host: CallHost, { id, begun }: IntendedCall, answer: ModelAnswer): Promise<void> {
  try {
    await host.open.write([
      { type: '$effect.done', data: { id } },
      entry('answered', { id, answer: plain(answer), ...(begun && { attempt: begun.attempt }) }),
    ])
  } catch (error) {
    if (isReprise(error, 'UNSERIALIZABLE', 'LIMIT_EXCEEDED', 'INVALID_ARGUMENT')) await fail(host, id, messageOf(error))
    throw error
  }
}

async function askModel<Data>(
  host: TurnHost<Data>,
  model: LanguageModel<Data>,
  intended: IntendedCall,
  sent: { readonly messages: readonly Message[]; readonly isShown: boolean } | null = null,
): Promise<ModelAnswer> {
  const { id, key, attempt, partial, begun } = intended
  const state = host.open.state as SessionState<Data>
  const names = allowedTools(host.tools, host.settings)
  const { timeoutMs } = host.guards.model
  const trace = showCall(host, 'model call', timeoutMs)
  const watch = new CallWatch(host.engine.clock, timeoutMs, host.signal, () => trace.alive())
  try {
    const made = model({
      messages: sent?.messages ?? contextOf(state as SessionState<unknown>),
      data: state.data,
      plan: state.plan,
      notes: [...state.notes.values()],
      settings: host.settings,
      tools: names,
      toolDefinitions: toolDefinitions(host.tools, names),
      key,
      attempt,
      partial,
      isContinued: begun !== null,
      signal: watch.signal,
    })
    if (!isStream(made)) return joined(begun, await watch.wait(made))
    const writer =
      sent?.isShown === false ? new TextCollector() : new StreamWriter(host, id, begun ?? { attempt, text: '' })
    return await readStream(writer, made, watch)
  } finally {
    trace.end()
    watch.end()
  }
}

async function holdModel(host: CallHost, record: CallRecord): Promise<AwaitedDecision> {
  const waiting: AwaitedDecision = {
    kind: 'in-doubt',
    reason: 'the model was called, but its answer was cut off',
    call: record.id,
    tool: 'model',
  }
  const held = [entry('called', { ...record, state: 'waiting' }), entry('interrupted', waiting)]
  await host.open.write(held, waits)
  return waiting
}

/** Pieces are written as they arrive, a few at a time, so that readers, also after a reconnect, find them in history. */
async function readStream(
  writer: Pick<StreamWriter, 'add' | 'end' | 'abandon'>,
  parts: AsyncIterable<ModelPart>,
  watch: CallWatch,
): Promise<ModelAnswer> {
  let rest: Omit<Partial<ModelAnswer>, 'content'> = {}
  const iterator = parts[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = await watch.wait(iterator.next())
      if (next.done) break
      watch.alive()
      if ('text' in next.value) await writer.add(next.value.text)
      else rest = { ...rest, ...next.value }
    }
  } catch (error) {
    // Not awaited: a silent stream may never answer.
    void Promise.resolve(iterator.return?.()).catch(() => undefined)
    await writer.abandon()
    throw error
  }
  return { ...rest, content: await writer.end() }
}

/** The pieces of an answer that no reader sees. */
class TextCollector {
  #text = ''

  async add(text: string): Promise<void> {
    this.#text += text
  }

  async end(): Promise<string> {
    return this.#text
  }

  async abandon(): Promise<void> {}
}

function joined(begun: { readonly text: string } | null, answer: ModelAnswer): ModelAnswer {
  if (!begun || typeof answer?.content !== 'string') return answer
  return { ...answer, content: begun.text + answer.content }
}

function isStream(made: unknown): made is AsyncIterable<ModelPart> {
  return typeof made === 'object' && made !== null && Symbol.asyncIterator in made
}

/** A model is user code: a missing answer, or a request that names no tool, would be lost in silence. */
function checkAnswer(answer: ModelAnswer): void {
  checkObject('the answer of a model', answer)
  const { requests } = answer
  if (requests === undefined) return
  checkList('the requests in the answer of a model', requests)
  for (const request of requests) {
    checkObject('a request in the answer of a model', request)
    checkText('the tool in a request of a model', request.tool)
  }
}

/** Only the fields of an answer; a model may return more. */
function plain(answer: ModelAnswer): ModelAnswer {
  checkAnswer(answer)
  const { content, requests, usage, note, plan } = answer
  return {
    content,
    ...(requests !== undefined && { requests }),
    ...(usage !== undefined && { usage }),
    ...(note !== undefined && { note }),
    ...(plan !== undefined && { plan }),
  }
}
