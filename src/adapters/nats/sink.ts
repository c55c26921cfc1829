// Writes results to a JetStream stream, exactly once. They are stored in the checkpoint and published after it in atomic
// batches, each of which starts with a header that names it. A publisher first checks whether the stream already has the
// batch, and publishes on the condition that nothing was added since: of two publishers, one wins and the other finds it.

import { DeliverPolicy, RetentionPolicy } from '@nats-io/jetstream'
import type { MsgHdrs } from '@nats-io/transport-node'
import { headers as newHeaders } from '@nats-io/transport-node'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, checkValues } from '../../core/options.ts'
import { refuseThenable } from '../../core/synchronous.ts'
import type { Batch } from '../../layers/pipeline/batch.ts'
import {
  type CutId,
  type Prepared,
  type Sink,
  type SinkContext,
  type SinkWriter,
  Waiting,
} from '../../layers/pipeline/sink.ts'
import {
  accessTo,
  checkConnecting,
  codeOf,
  connectingNames,
  type NatsAccess,
  type NatsConnecting,
  watchFetch,
  whileAway,
  wrongLastSequence,
} from './connecting.ts'

export interface NatsOut {
  readonly subject: string
  readonly value: Uint8Array | string
  readonly headers?: Readonly<Record<string, string>>
}

export type NatsSinkOptions<T> = NatsConnecting & NatsWriting<T>

/** The messages and their stream. */
export interface NatsWriting<T> {
  /** It must have `allow_atomic` (server version 2.12 or later) and keep messages by limits. */
  readonly stream: string
  /** The message of a result. A text is the subject of a message with the JSON of the result. */
  readonly message: string | ((value: T) => NatsOut)
  /**
   * False: without atomic batches, each message with an id. Then a result is stored once if a crash ends within the stream's
   * `duplicate_window`, and possibly twice after that. Default: true.
   */
  readonly atomic?: boolean
  /** If the stream no longer shows whether it had the results of the last checkpoint. Default: 'fail'. */
  readonly unknown?: 'fail' | 'publish' | 'skip'
}

const known = new Set([...connectingNames, 'stream', 'message', 'atomic', 'unknown'])
const partHeader = 'Reprise-Part'
/** How long one request for messages waits at the server. */
const lookMs = 1000
/** The server's limit is 1,000. */
const batchMessages = 900
/** Number of attempts to publish a batch while others add messages between the check and the publish. */
const attemptsMax = 1000

interface Kept {
  readonly checkpoint: number
  /** The last sequence of the stream when the messages were prepared: they are stored after it. */
  readonly after: number
  readonly messages: readonly NatsOut[]
}

/** @example totals.to('totals', natsSink<Total>({ servers, stream: 'TOTALS', message: 'totals' })) */
export function natsSink<T>(options: NatsSinkOptions<T>): Sink<T> {
  checkOptions('natsSink', options, known)
  checkValues('natsSink', options, { unknown: ['fail', 'publish', 'skip'] })
  checkConnecting('natsSink', options)
  const { stream, message, atomic = true } = options
  if (!stream || !message) throw new RepriseError('INVALID_ARGUMENT', 'natsSink needs { stream, message }')
  return {
    async open(context, listed) {
      const access = await accessTo(options)
      try {
        const readInfo = () => access.manager.streams.info(stream)
        const { config } = await whileAway(options, `inspect ${stream}`, readInfo)
        if (atomic && config.allow_atomic !== true) {
          const what = `the stream ${stream} does not accept atomic batches: set allow_atomic (a server of version 2.12 or later), or use { atomic: false } and be exactly once only within its duplicate_window`
          throw new RepriseError('INVALID_ARGUMENT', what, { stream })
        }
        if (atomic && config.retention !== RetentionPolicy.Limits) {
          const what = `the stream ${stream} removes messages once they are read, so published messages cannot be recognised after a crash: use { atomic: false }`
          throw new RepriseError('INVALID_ARGUMENT', what, { stream })
        }
        const writer = new NatsWriter<T>(access, options, context)
        await writer.commit(listed)
        return writer
      } catch (error) {
        await access.close()
        throw error
      }
    },
  }
}

class NatsWriter<T> implements SinkWriter {
  readonly #access: NatsAccess
  readonly #options: NatsSinkOptions<T>
  readonly #name: string
  readonly #waiting = new Waiting<T>()
  #isClosed = false

  constructor(access: NatsAccess, options: NatsSinkOptions<T>, { pipeline, name }: SinkContext) {
    this.#access = access
    this.#options = options
    this.#name = `${pipeline}/${name}`
  }

  get pending(): number {
    return this.#waiting.count
  }

  write(batch: Batch): void {
    this.#waiting.add(batch.values)
  }

  cut({ checkpoint }: CutId): () => Promise<Prepared> {
    const values = this.#waiting.cut()
    return async () => {
      if (values.length === 0) return null
      const messages = values.map((value) => this.#messageOf(value))
      const after = await this.#whileAway(() => this.#lastSeq())
      return { checkpoint, after, messages } satisfies Kept
    }
  }

  async commit(prepared: Prepared): Promise<void> {
    this.#waiting.settle()
    if (prepared === null || prepared === undefined) return
    const kept = prepared as Kept
    if (!Array.isArray(kept.messages)) {
      throw new RepriseError('INVALID_ARGUMENT', 'the messages of the checkpoint were prepared by another kind of sink')
    }
    // Messages that are already stored are found, or recognised by their id: the publication can be repeated.
    await this.#whileAway(() => (this.#options.atomic === false ? this.#publishWithIds(kept) : this.#publishOnce(kept)))
  }

  rejoin(): void {
    this.#waiting.rejoin()
  }

  close(): Promise<void> {
    this.#isClosed = true
    return this.#access.close()
  }

  #whileAway<R>(work: () => Promise<R>): Promise<R> {
    return whileAway(this.#options, `publish to ${this.#options.stream}`, work, () => this.#isClosed)
  }

  #messageOf(value: T): NatsOut {
    const { message } = this.#options
    if (typeof message === 'string') return { subject: message, value: JSON.stringify(value) }
    const made = message(value)
    refuseThenable(made, 'message of natsSink()', 'use call() before the sink')
    return made
  }

  async #publishWithIds({ checkpoint, messages }: Kept): Promise<void> {
    for (let at = 0; at < messages.length; at += batchMessages) {
      await Promise.all(
        messages.slice(at, at + batchMessages).map(async ({ subject, value, headers }, i) => {
          const msgID = `${this.#name}/${checkpoint}/${at + i}`
          await this.#access.js.publish(subject, value, { msgID, ...(headers && { headers: headersOf(headers) }) })
        }),
      )
    }
  }

  async #publishOnce({ checkpoint, after, messages }: Kept): Promise<void> {
    let seen = after
    const there = new Set<string>()
    for (let at = 0; at < messages.length; at += batchMessages) {
      const part = `${this.#name}/${checkpoint}/${at}`
      for (let attempt = 1; ; attempt++) {
        const looked = await this.#look(seen, there)
        if (looked === null) return
        seen = looked
        if (there.has(part)) break
        const last = await this.#tryBatch(messages.slice(at, at + batchMessages), part, seen)
        if (last !== null) {
          seen = last
          break
        }
        if (attempt < attemptsMax) continue
        const what = `other clients keep publishing to the stream ${this.#options.stream}: no gap was found for a batch of ${this.#name} found no gap`
        throw new RepriseError('CONTENDED', what, { stream: this.#options.stream })
      }
    }
  }

  /** Collects the parts after this sequence, and returns the last sequence checked. Null: unknown, and parts are skipped. */
  async #look(after: number, there: Set<string>): Promise<number | null> {
    const { stream, unknown = 'fail' } = this.#options
    const { state } = await this.#access.manager.streams.info(stream)
    if (state.last_seq <= after) return state.last_seq
    if (state.first_seq > after + 1 && unknown !== 'publish') {
      if (unknown === 'skip') return null
      const what = `the stream ${stream} begins at ${state.first_seq}: results after ${after} may have been published and removed since`
      const hint =
        "Set { unknown: 'publish' } on the sink to publish them, perhaps twice, or { unknown: 'skip' } to omit them."
      throw new RepriseError('POSITION_GONE', what, { stream, after }, undefined, hint)
    }
    if (state.messages === 0) return state.last_seq
    const consumer = await this.#access.js.consumers.get(stream, {
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: Math.max(after + 1, state.first_seq),
      headers_only: true,
    })
    for (let seen = after; seen < state.last_seq; ) {
      const before = seen
      const fetched = await consumer.fetch({ max_messages: 1000, expires: lookMs })
      const endWatch = watchFetch(fetched, lookMs)
      for await (const { seq, headers, info } of fetched) {
        seen = info.pending === 0 ? Math.max(seq, state.last_seq) : seq
        const part = headers?.get(partHeader)
        if (part) there.add(part)
        if (seen >= state.last_seq) break
      }
      endWatch()
      // All other messages before the last one were removed.
      if (seen === before) break
    }
    await consumer.delete().catch(() => undefined)
    return state.last_seq
  }

  /** The sequence of the batch's last message; null: another writer published first. */
  async #tryBatch(messages: readonly NatsOut[], part: string, lastSequence: number): Promise<number | null> {
    const { js } = this.#access
    const [first, ...rest] = messages
    const marked = headersOf(first!.headers ?? {})
    marked.set(partHeader, part)
    const expect = { lastSequence }
    try {
      if (rest.length === 0) return (await js.publish(first!.subject, first!.value, { headers: marked, expect })).seq
      const batch = await js.startBatch(first!.subject, first!.value, { headers: marked, expect })
      for (const { subject, value, headers } of rest.slice(0, -1)) {
        batch.add(subject, value, { ...(headers && { headers: headersOf(headers) }) })
      }
      const { subject, value, headers } = rest.at(-1)!
      return (await batch.commit(subject, value, { ...(headers && { headers: headersOf(headers) }) })).seq
    } catch (error) {
      if (codeOf(error) === wrongLastSequence) return null
      throw error
    }
  }

  async #lastSeq(): Promise<number> {
    return (await this.#access.manager.streams.info(this.#options.stream)).state.last_seq
  }
}

function headersOf(given: Readonly<Record<string, string>>): MsgHdrs {
  const made = newHeaders()
  for (const [name, value] of Object.entries(given)) made.set(name, value)
  return made
}
