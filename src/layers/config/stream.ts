// The stream of one client: offers of its target version, one after another, each under a nonce, and its replies. An offer is
// in history before it is sent, so any process can accept the reply. An offer without a reply is sent again when the stream
// is resumed.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { unlessAborted } from '../../engine/base/abortable-wait.ts'
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
  /** The reply must carry it. */
  readonly nonce: string
  /** A client that has this version in force sends it as `has` when it rejoins. */
  readonly held: string
  readonly value: Value
}

export interface AnswerReceipt {
  /** False: it was not a reply to the pending offer, and changed nothing. */
  readonly isTaken: boolean
  /** The reason why it was ignored. */
  readonly why: string | null
}

export interface ClientOptions {
  /**
   * The client's version: `held` of the offer, or the version number. A client whose version belongs to another history is
   * offered one in any case. A number is used only if the store was never restored. Default: none, so the client receives an
   * offer.
   */
  readonly has?: number | string
  /**
   * Resumes this stream instead of opening a new one, in this process or another. STREAM_REPLACED if it has ended;
   * POSITION_GONE if it belongs to another history: join again.
   */
  readonly stream?: string
}

export interface NextOptions {
  readonly signal?: AbortSignal
  /** Resolves with null after this time if there is no offer. Default: no limit. */
  readonly wait?: Duration
}

const knownNext = namesOf<NextOptions>()('signal wait')

export class ClientStream<Value = unknown> implements AsyncIterable<Offer<Value>> {
  readonly client: string
  /** Part of each nonce; another process can resume the stream by it. Changes when the store was restored. */
  get stream(): string {
    return this.#stream
  }

  #stream: string
  readonly #config: OpenConfig
  /** The last nonce returned here. */
  #reportedNonce: string | null = null
  #isClosed = false
  #wake: (() => void) | null = null
  readonly #unattend: () => void
  /** @internal */
  onClosed: (() => void) | null = null

  /** True if the stream or the engine was closed: no further offers are returned here. */
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

  /** @internal Opens a new stream; the client's previous one ends. */
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

  /** @internal Resumes a stream, and marks the client as seen. */
  static async resume<Value>(config: OpenConfig, client: string, stream: string): Promise<ClientStream<Value>> {
    await config.refresh()
    if (!isOfHistory(stream, config.history)) throw goneStream(client, stream)
    const record = config.clients.get(client)
    // A client that was absent for too long is treated as removed, even before its removal is recorded.
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

  /**
   * Resolves with the next offer. Null: the stream or the engine was closed. STREAM_REPLACED: the client has joined
   * elsewhere.
   */
  async next(options: NextOptions = {}): Promise<Offer<Value> | null> {
    checkOptions('next', options, knownNext)
    const { signal, wait } = options
    const { clock } = this.#config.engine
    const until = wait === undefined ? Number.POSITIVE_INFINITY : clock.elapsed() + toMs(wait, 'wait')
    const offer = this.#next(until, () => signal?.aborted !== true)
    return await whileAwaited(unlessAborted(offer, signal, `stream of ${this.client}`), clock)
  }

  /** The client has this version in force. Resolves when that is durable. */
  ack(nonce: string): Promise<AnswerReceipt> {
    return this.#answer(nonce, null)
  }

  /** The client refuses the version; its previous one stays in force. The version is not offered again on this stream. */
  nack(nonce: string, reason: string): Promise<AnswerReceipt> {
    return this.#answer(nonce, String(reason))
  }

  /** The client leaves: it is counted until it has been absent for too long. */
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

  /** Ends the stream in this process only: another one may resume it. */
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
    const { clock } = config.engine
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
      if (offered && target && offered.version === target.version && offered.nonce !== this.#reportedNonce) {
        // This offer was read after the last check of the identity, so the store may have been restored in between.
        await config.engine.identity.current()
        if (!isOfHistory(stream, config.history)) continue
        this.#reportedNonce = offered.nonce
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

  /** Decided again on the current state: another process may have resumed or ended this stream. */
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

/** Applies a reply, whichever process serves the stream. */
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
        return { entries: [], result: { isTaken: false, why: 'the stream belongs to another history: join again' } }
      }
      const decided = decideAnswer(clients, { client, nonce: String(nonce), nack })
      if (decided.is === 'ignored') return { entries: [], result: { isTaken: false, why: decided.why } }
      return { entries: decided.is === 'taken' ? [decided.entry] : [], result: { isTaken: true, why: null } }
    },
  })
}

/** Opens a new stream under the mark of the current history; the client's previous one ends. */
async function begin(config: OpenConfig, client: string, has: number | undefined, isOther: boolean): Promise<string> {
  const { kernel } = config.engine
  const stream = `${newId(kernel.random)}.${config.history.mark}`
  const entry = joinEntry(client, stream, has, config.versions.latest?.version ?? 0, isOther)
  await config.change({ client, decide: () => ({ entries: [entry], result: undefined }) })
  if (isOther) {
    const what = `client ${client} had a version or a stream of another history: it receives the current version`
    kernel.events.emit('report', { kind: 'resync', timeline: idsOf(config.name).versions, what, data: { client } })
  }
  return stream
}

function goneStream(client: string, stream: string): RepriseError {
  const what = `the stream of ${client} belongs to another history: the store was restored, or the configuration was created again; join again`
  const hint = 'Join again without the former stream; the client keeps its version until a newer one arrives.'
  return new RepriseError('POSITION_GONE', what, { client, stream }, undefined, hint)
}

function replaced(client: string, stream: string): RepriseError {
  const what = `the stream of ${client} has ended: it joined again, left, or was forgotten`
  return new RepriseError('STREAM_REPLACED', what, { client, stream })
}
