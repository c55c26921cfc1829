// The stream of one client: offers of the version that it should have, one after another, each under a nonce, and its answers.
// An offer is in history before it is told, so any process can take the answer. What has not been answered is told again to
// whoever goes on with the stream.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { unlessAborted } from '../../engine/base/aborting.ts'
import { whileAwaited } from '../../engine/base/stay-alive.ts'
import { newId } from '../../engine/storage/kernel.ts'
import { idsOf } from './model.ts'
import type { OpenConfig } from './open-config.ts'
import { isCounted } from './rules/rollout.ts'
import { isOfHistory } from './rules/state.ts'
import { decideAnswer, decideOffer, heldText, heldVersion, joinEntry } from './rules/stream.ts'

/** One version for one client. */
export interface Offer<Value> {
  readonly version: number
  /** Answer with it. */
  readonly nonce: string
  /** A client that has this version in force gives it back as `has` when it joins again. */
  readonly held: string
  readonly value: Value
}

export interface AnswerReceipt {
  /** False: it was not an answer to the offer that waits for one, and changed nothing. */
  readonly isTaken: boolean
  /** Why it was ignored. */
  readonly why: string | null
}

export interface ClientOptions {
  /**
   * What the client has: `held` of the offer, or the number of its version. Left out, it has none, and is offered one in any
   * case; so is one whose version is of another history. A number is believed only where the store never went back.
   */
  readonly has?: number | string
  /**
   * Goes on with this stream instead of a new one, in this process or another. STREAM_REPLACED if it is over; POSITION_GONE if
   * it is of another history: join anew.
   */
  readonly stream?: string
}

export interface NextOptions {
  readonly signal?: AbortSignal
  /** Null after this time if there is nothing to offer; without it, an offer is waited for as long as it takes. */
  readonly wait?: Duration
}

const knownNext = namesOf<NextOptions>({ signal: true, wait: true })

export class ClientStream<Value = unknown> implements AsyncIterable<Offer<Value>> {
  readonly client: string
  /** Nonces are made from it; another process can go on with it. Another one after the store went back. */
  get stream(): string {
    return this.#stream
  }

  #stream: string
  readonly #config: OpenConfig
  /** The last nonce that was told here. */
  #told: string | null = null
  #isClosed = false
  #wake: (() => void) | null = null
  readonly #unattend: () => void
  /** @internal */
  onClosed: (() => void) | null = null

  /** Nothing more is told here: it was closed, or the engine was. */
  get isClosed(): boolean {
    return this.#isClosed || this.#config.isClosed
  }

  /** @internal */
  constructor(config: OpenConfig, client: string, stream: string) {
    this.client = client
    this.#stream = stream
    this.#config = config
    this.#unattend = config.attend(client, () => this.#wake?.())
  }

  /** @internal A new stream; the one that the client had before is over. */
  static async join<Value>(
    config: OpenConfig,
    client: string,
    has: number | string | undefined,
  ): Promise<ClientStream<Value>> {
    await config.refresh()
    const known = has === undefined ? null : heldVersion(has, (version) => config.digestOf(version), config.history)
    const stream = await begin(config, client, known ?? undefined, has !== undefined && known === null)
    return new ClientStream<Value>(config, client, stream)
  }

  /** @internal Goes on with a stream, and shows that the client is there. */
  static async resume<Value>(config: OpenConfig, client: string, stream: string): Promise<ClientStream<Value>> {
    await config.refresh()
    if (!isOfHistory(stream, config.history)) throw goneStream(client, stream)
    const record = config.clients.get(client)
    // One that was away for too long is as good as forgotten, whether anybody has noted it yet or not.
    const isThere = record?.stream === stream && record.isOpen && isCounted(record, config.now, config.forgetAfterMs)
    if (!isThere) throw replaced(client, stream)
    if (config.now - record.seenAt > config.forgetAfterMs / 4) {
      await config.change({
        client,
        decide: () => ({ entries: [{ type: 'seen', data: { clients: [client] } }], result: undefined }),
      })
    }
    return new ClientStream<Value>(config, client, stream)
  }

  /** The next offer, when there is one. Null: it was closed, or the engine was. STREAM_REPLACED: the client is elsewhere. */
  async next(options: NextOptions = {}): Promise<Offer<Value> | null> {
    checkOptions('next', options, knownNext)
    const { signal, wait } = options
    const { clock } = this.#config.engine.kernel
    const until = wait === undefined ? Number.POSITIVE_INFINITY : clock.elapsed() + toMs(wait, 'wait')
    const offer = this.#next(until, () => signal?.aborted !== true)
    return await whileAwaited(unlessAborted(offer, signal, `stream of ${this.client}`), clock)
  }

  /** The client has this version in force. Durable when it resolves. */
  ack(nonce: string): Promise<AnswerReceipt> {
    return this.#answer(nonce, null)
  }

  /** The client refuses the version; the one that it had stays in force. It is not offered again on this stream. */
  nack(nonce: string, reason: string): Promise<AnswerReceipt> {
    return this.#answer(nonce, String(reason))
  }

  /** The client leaves: it counts until it has been away for too long. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.detach()
    const { client, stream } = this
    await this.#config.change({
      client,
      decide: (clients) => {
        const record = clients.get(client)
        const isMine = record?.stream === stream && record.isOpen
        return { entries: isMine ? [{ type: 'left', data: { client, stream } }] : [], result: undefined }
      },
    })
  }

  /** Ends it here only: another process may go on with it. */
  detach(): void {
    this.#isClosed = true
    this.#unattend()
    this.#wake?.()
    this.onClosed?.()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Offer<Value>> {
    for (;;) {
      const offer = await this.next()
      if (!offer) return
      yield offer
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #next(until: number, isWanted: () => boolean): Promise<Offer<Value> | null> {
    const config = this.#config
    const { clock } = config.engine.kernel
    const { client } = this
    while (!this.#isClosed && !config.isClosed && isWanted()) {
      const rung = new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      if (!isOfHistory(this.#stream, config.history)) this.#stream = await begin(config, client, undefined, true)
      const stream = this.#stream
      const target = config.targetOf(client)
      const digest = target ? config.digestOf(target.version) : undefined
      const due = decideOffer(config.clients, client, stream, target?.version ?? null, undefined, digest)
      if (due === 'replaced') throw replaced(client, stream)
      const offered = config.clients.get(client)?.offered
      if (offered && target && offered.version === target.version && offered.nonce !== this.#told) {
        // The entries of this offer were read after the last look at the identity, so the store may have gone back in between.
        await config.engine.kernel.identity.current()
        if (!isOfHistory(stream, config.history)) continue
        this.#told = offered.nonce
        const held = heldText(target.version, digest ?? '', config.history)
        return { version: target.version, nonce: offered.nonce, held, value: target.value as Value }
      }
      if (!due) {
        const leftMs = until - clock.elapsed()
        if (leftMs <= 0) return null
        const cancel = leftMs === Number.POSITIVE_INFINITY ? () => {} : clock.after(leftMs, () => this.#wake?.())
        await rung
        cancel()
      } else {
        await this.#offer(target!.version).catch((error) => {
          if (!config.isClosed) throw error
        })
      }
    }
    return null
  }

  /** Decided again on the state of now: another process may have gone on with this stream, or ended it. */
  async #offer(version: number): Promise<void> {
    const { client, stream } = this
    const digest = this.#config.digestOf(version)
    await this.#config.change({
      client,
      decide: (clients) => {
        const entry = decideOffer(clients, client, stream, version, undefined, digest)
        return { entries: entry === null || entry === 'replaced' ? [] : [entry], result: undefined }
      },
    })
  }

  #answer(nonce: string, nack: string | null): Promise<AnswerReceipt> {
    return answer(this.#config, this.client, nonce, nack)
  }
}

/** An answer, wherever the stream is served. */
export async function answer(
  config: OpenConfig,
  client: string,
  nonce: string,
  nack: string | null,
): Promise<AnswerReceipt> {
  config.check()
  return await config.change<AnswerReceipt>({
    client,
    decide: (clients) => {
      const { stream } = clients.get(client) ?? {}
      if (stream !== undefined && !isOfHistory(stream, config.history)) {
        return { entries: [], result: { isTaken: false, why: 'the stream is of another history: join anew' } }
      }
      const decided = decideAnswer(clients, { client, nonce: String(nonce), nack })
      if (decided.is === 'ignored') return { entries: [], result: { isTaken: false, why: decided.why } }
      return { entries: decided.is === 'taken' ? [decided.entry] : [], result: { isTaken: true, why: null } }
    },
  })
}

/** A new stream, under the mark of the history of now; the one that the client had before is over. */
async function begin(config: OpenConfig, client: string, has: number | undefined, isOther: boolean): Promise<string> {
  const { kernel } = config.engine
  const stream = `${newId(kernel.random)}.${config.history.mark}`
  const entry = joinEntry(client, stream, has, config.versions.latest?.version ?? 0, isOther)
  await config.change({ client, decide: () => ({ entries: [entry], result: undefined }) })
  if (isOther) {
    const what = `client ${client} held a version or a stream of another history: it is offered the version of now`
    kernel.events.emit('report', { kind: 'resync', timeline: idsOf(config.name).versions, what, data: { client } })
  }
  return stream
}

function goneStream(client: string, stream: string): RepriseError {
  const what = `the stream of ${client} is of another history, since the store was restored or the configuration made anew: join again`
  return new RepriseError('POSITION_GONE', what, { client, stream })
}

function replaced(client: string, stream: string): RepriseError {
  const what = `the stream of ${client} is over: it joined again, left, or was forgotten`
  return new RepriseError('STREAM_REPLACED', what, { client, stream })
}
