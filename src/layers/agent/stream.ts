// Streamed answers that survive a disconnect: pieces are entries, written a few at a time, and a reader has a position.
// It reads the rest from history and then follows new pieces, from this process or any other; nothing is generated
// twice.

import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { historyMark, type StoreIdentity } from '../../core/identity.ts'
import { checkObject } from '../../core/options.ts'
import { noteStreamed } from '../../engine/branch/consumers.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { Engine } from '../../engine/model/definition.ts'
import { checkFolding } from '../../engine/model/definition.ts'
import type { CallHost } from './calls.ts'
import type { AgentSpec } from './spec.ts'
import { entry, messagesOfTurn, place, type SessionState } from './state.ts'

const pieceLength = 512
const pauseMs = 25

export class StreamWriter {
  readonly #host: CallHost
  readonly #id: string
  readonly #attempt: number
  #text: string
  #pending = ''
  #writing: Promise<unknown> = Promise.resolve()
  #isScheduled = false
  #isAbandoned = false
  #failure: unknown = null

  /** `begun` is the attempt to write, with its existing text if it is continued. */
  constructor(host: CallHost, id: string, begun: { readonly attempt: number; readonly text: string }) {
    const { attempt, text } = begun
    this.#host = host
    this.#id = id
    this.#attempt = attempt
    this.#text = text
    if (attempt > 1 && text === '') this.#write([entry('stream.restarted', { id, attempt })])
  }

  async add(text: string): Promise<void> {
    if (this.#failure) throw this.#failure
    this.#text += text
    this.#pending += text
    if (this.#pending.length >= pieceLength) this.#flush()
    else if (!this.#isScheduled) {
      this.#isScheduled = true
      this.#host.engine.clock.after(pauseMs, () => {
        this.#isScheduled = false
        this.#flush()
      })
    }
  }

  /** Returns the whole text. Pending pieces are written with the answer. */
  async end(): Promise<string> {
    this.#pending = ''
    await this.#writing
    if (this.#failure) throw this.#failure
    return this.#text
  }

  /** The attempt has failed: no piece of it is written after the record of the failure. */
  async abandon(): Promise<void> {
    this.#isAbandoned = true
    await this.#writing
  }

  #flush(): void {
    if (this.#pending === '' || this.#isAbandoned) return
    const text = this.#pending
    this.#pending = ''
    this.#write([entry('chunk', { id: this.#id, attempt: this.#attempt, text })])
  }

  #write(entries: Parameters<CallHost['open']['write']>[0]): void {
    this.#writing = this.#writing
      .then(() => this.#host.open.write(entries))
      .catch((error) => {
        this.#failure ??= error
      })
  }
}

/**
 * A reader's position in a streamed turn; opaque. It is valid for this turn of this session in this history. After a
 * restore, a rollback, or a new session under the same id it is refused with POSITION_GONE, and the turn must be read
 * from its start.
 */
export type StreamPosition = string

export type StreamEvent =
  | { readonly kind: 'text'; readonly text: string; readonly position: StreamPosition }
  /** The answer restarted: discard its earlier text. */
  | { readonly kind: 'restarted'; readonly position: StreamPosition }
  | { readonly kind: 'end'; readonly outcome: string }

/** The model call in the turn, and its attempt: after a crash of the writer, the answer restarts. */
interface Reached {
  readonly call: string
  readonly attempt: number
  readonly offset: number
}

type Found =
  | { readonly kind: 'text'; readonly text: string; readonly reached: Reached }
  | { readonly kind: 'restarted'; readonly reached: Reached }
  | { readonly kind: 'end'; readonly outcome: string }

/**
 * Yields the text of a turn, from a position until the turn ends. Throws POSITION_GONE if the position belongs to
 * another history, or the history was replaced meanwhile: discard the text of the turn, and read it from its start.
 * @example for await (const event of readTurn(rp, support, 'ticket-42', { turn: 3, after: lastPosition })) …
 */
export async function* readTurn<Data>(
  rp: Engine,
  definition: AgentSpec<Data>,
  id: string,
  options: { readonly turn: number; readonly after?: StreamPosition; readonly signal?: AbortSignal },
): AsyncGenerator<StreamEvent> {
  const engine = hostOf(rp)
  checkFolding(definition)
  checkObject('the options of readTurn()', options)
  const replica = await engine.follow({ prefix: definition.prefix, fold: definition.fold }, id)
  let wake: () => void = () => undefined
  const stop = replica.watch(() => wake())
  const abort = () => wake()
  options.signal?.addEventListener('abort', abort)
  const { identity, hash } = engine
  // Signed with its content, so that a forged position, or one of another turn, is refused as well.
  const sign = (store: StoreIdentity, payload: string) =>
    historyMark(hash, store, [replica.origin, { identity: payload, generation: options.turn }])
  try {
    const store = await identity.current()
    const history = sign(store, '')
    let at: Reached | null = null
    if (options.after !== undefined) {
      const [, payload = '', mark] = /^s1\.([\w-]+)\.(\w+)$/.exec(options.after) ?? []
      if (payload === '' || mark !== sign(store, payload)) throw gone(replica.timeline)
      at = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Reached
    }
    const position = (reached: Reached): StreamPosition => {
      const payload = Buffer.from(JSON.stringify(reached)).toString('base64url')
      return `s1.${payload}.${sign(store, payload)}`
    }
    // Records, before the reader receives it, how far it has read, for the consumer check of rollbacks: at the first
    // piece and at the end.
    let isNoted = false
    const streamed = async (isLast: boolean) => {
      if (isNoted && !isLast) return
      isNoted = true
      const ended = replica.state.turns.get(place(options.turn))?.endedSeq
      const seq = Math.min(replica.coordinate.seq, ended ?? Number.POSITIVE_INFINITY)
      await noteStreamed(engine.kernel, timelineId(replica.timeline), replica.origin, seq)
    }
    for (;;) {
      const changed = new Promise<void>((resolve) => {
        wake = resolve
      })
      if (sign(identity.known ?? store, '') !== history) throw gone(replica.timeline)
      for (const event of eventsAfter(replica.state, options.turn, at)) {
        if (event.kind === 'end') {
          if (at) await streamed(true)
          yield event
          return
        }
        const { reached, ...rest } = event
        await streamed(event.kind === 'restarted')
        yield { ...rest, position: position(reached) }
        at = reached
      }
      if (options.signal?.aborted) return
      await changed
    }
  } finally {
    stop()
    options.signal?.removeEventListener('abort', abort)
    replica.close()
  }
}

function gone(timeline: string): RepriseError {
  const what = `the position does not belong to this history of ${timeline}: read the turn from its start`
  const hint = 'Drop the text received so far, and stream the turn without a position.'
  return new RepriseError('POSITION_GONE', what, { timeline }, undefined, hint)
}

/** All events of the turn's model answers after the position. */
function* eventsAfter(state: SessionState<unknown>, turn: number, after: Reached | null): Generator<Found> {
  let at = after
  for (const { call, attempt, text } of textsOf(state, turn)) {
    if (at && call < at.call) continue
    const isSame = at?.call === call
    if (isSame && attempt !== at!.attempt) {
      at = { call, attempt, offset: 0 }
      yield { kind: 'restarted', reached: at }
    }
    const offset = at?.call === call ? at.offset : 0
    if (text.length <= offset) continue
    at = { call, attempt, offset: text.length }
    yield { kind: 'text', text: text.slice(offset), reached: at }
  }
  const record = state.turns.get(place(turn))
  if (record?.endedSeq != null) yield { kind: 'end', outcome: record.outcome ?? 'done' }
  else if (state.turn === turn && state.status === 'waiting') yield { kind: 'end', outcome: 'waiting' }
}

function textsOf(
  state: SessionState<unknown>,
  turn: number,
): { readonly call: string; readonly attempt: number; readonly text: string }[] {
  let index = 0
  const texts: { call: string; attempt: number; text: string }[] = []
  for (const message of messagesOfTurn(state, turn)) {
    if (message.turn !== turn || message.role !== 'assistant') continue
    const text = typeof message.content === 'string' ? message.content : JSON.stringify(message.content)
    texts.push({ call: place(turn, index), attempt: message.attempt ?? 1, text })
    index += 1 + (message.requests?.length ?? 0)
  }
  for (const [call, { attempt, text }] of state.streams.entries({ prefix: `${place(turn)}.` })) {
    texts.push({ call, attempt, text })
  }
  return texts
}
