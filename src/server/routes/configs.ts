// Pushed configuration over HTTP: versions are set, and each client receives its offers as server-sent events or by long
// polling, and replies with the nonce. A stream is not bound to a server: the server that receives the next request continues
// it.

import { isReprise, RepriseError } from '../../core/errors.ts'
import { type ConfigDefinition, isConfig } from '../../layers/config/definition.ts'
import type { ConfigHandle } from '../../layers/config/handle.ts'
import type { ClientStream } from '../../layers/config/stream.ts'
import { plain } from '../../operations/json.ts'
import { mayReach } from '../access.ts'
import { type ByteSource, Reply } from '../reply.ts'
import type { Call, Route } from '../route.ts'
import type { Schema } from '../schema.ts'
import { missing } from '../scope-filter.ts'
import * as shapes from '../shapes.ts'

const longestWaitMs = 25_000
const heartbeatMs = 15_000

const version: Schema = { type: 'integer', minimum: 1 }
const share: Schema = { type: 'number', minimum: 0, maximum: 1 }
const has = {
  ...version,
  description: 'the version that the client has (default: none)',
}
const held: Schema = { ...shapes.text, minLength: 1, description: '`held` of the offer that the client has in force' }
const stream: Schema = { ...shapes.text, minLength: 1, description: 'resumes this stream (default: a new one)' }
const waitMs: Schema = { type: 'integer', minimum: 0, maximum: longestWaitMs, default: 0 }
const durationMs: Schema = { type: 'integer', minimum: 0, maximum: 31_536_000_000 }
const rollout = shapes.named(
  'Rollout',
  shapes.object({
    stages: { type: 'array', items: share, minItems: 1, maxItems: 100 },
    ...{ share, holdMs: durationMs, pauseAbove: share, withdrawAbove: share, stageTimeoutMs: durationMs },
  }),
)
const tally = { fleet: shapes.count, clients: shapes.count, acked: shapes.count, nacked: shapes.count, share }

export const configRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/v1/configs',
    id: 'listConfigs',
    tag: 'configs',
    summary: 'Configurations that the server has the definition of',
    role: 'read',
    answer: shapes.answer({ items: shapes.list(shapes.answer({ config: shapes.text })) }),
    call: ({ server, principal }) => ({
      items: server.definitions
        .filter(isConfig)
        .filter(({ name }) => mayReach(principal, idOf(name)))
        .map(({ name }) => ({ config: name })),
    }),
  },
  {
    method: 'GET',
    path: '/v1/configs/{config}',
    id: 'showConfig',
    tag: 'configs',
    summary:
      'The newest version, the version of each client, refusals with their reasons, and the progress of a rollout',
    role: 'read',
    answer: shapes.answer({
      ...{ config: shapes.text, latest: { type: 'integer', nullable: true }, value: shapes.any },
      ...{ lastGood: { type: 'integer', nullable: true }, rollout: { type: 'object', nullable: true } },
      ...{ clients: shapes.count, inForce: shapes.list(shapes.any), refused: shapes.list(shapes.any) },
    }),
    async call(call) {
      const push = await opened(call, idOf(call.params.config!))
      const latest = await push.latest()
      return { config: push.name, ...(await push.status()), value: latest?.value ?? null }
    },
  },
  {
    method: 'PUT',
    path: '/v1/configs/{config}',
    id: 'setConfig',
    tag: 'configs',
    summary:
      'Set a new version: for every client at once, or in stages with `rollout`, which a worker of the configuration runs',
    role: 'write',
    body: shapes.object({ value: shapes.any, rollout }, ['value']),
    answer: shapes.answer({ version }),
    once: 'engine',
    call: set,
  },
  {
    method: 'POST',
    path: '/v1/configs/{config}/rollout',
    id: 'steerRollout',
    tag: 'configs',
    summary: 'Pause or resume a rollout, or withdraw its version: every client returns to the last good one',
    role: 'operate',
    body: shapes.object({ version, action: { type: 'string', enum: ['pause', 'resume', 'withdraw'] } }, [
      ...['version', 'action'],
    ]),
    answer: shapes.answer({ version }),
    once: 'answer',
    async call(call) {
      const request = call.body as { version: number; action: 'pause' | 'resume' | 'withdraw' }
      await (await opened(call, idOf(call.params.config!)))[request.action](request.version)
      return { version: request.version }
    },
  },
  {
    method: 'GET',
    path: '/v1/configs/{config}/reached',
    id: 'awaitConfig',
    tag: 'configs',
    summary: 'Whether this share of the clients has accepted a version or a later one; `waitMs`: wait until it has',
    role: 'read',
    query: { version: { ...version, isRequired: true }, share, waitMs },
    answer: shapes.answer({ version, isReached: { type: 'boolean' }, ...tally }),
    call: awaitReached,
  },
  {
    method: 'POST',
    path: '/v1/configs/{config}/clients/{client}/poll',
    id: 'pollConfig',
    tag: 'configs',
    summary: 'The next offer for a client, or null after `waitMs`. Pass `stream` to the next poll',
    role: 'operate',
    body: shapes.object({ has, held, stream, waitMs }),
    answer: shapes.answer({ stream: shapes.text, offer: { type: 'object', nullable: true } }),
    once: 'answer',
    call: poll,
  },
  {
    method: 'GET',
    path: '/v1/configs/{config}/clients/{client}/stream',
    id: 'followConfig',
    tag: 'configs',
    summary:
      'The same as server-sent events: `stream` with its id, `offer` with version, nonce and value; Last-Event-ID resumes the stream, and repeats unanswered offers',
    role: 'operate',
    isStream: true,
    query: { has, held, stream },
    answer: { type: 'string' },
    answerType: 'text/event-stream',
    call: follow,
  },
  {
    method: 'POST',
    path: '/v1/configs/{config}/clients/{client}/answer',
    id: 'answerConfig',
    tag: 'configs',
    summary: 'ACK, or NACK with its reason. `isTaken` is false unless the nonce belongs to the pending offer',
    role: 'operate',
    body: shapes.object({ nonce: { ...shapes.text, minLength: 1 }, nack: shapes.reason }, ['nonce']),
    answer: shapes.answer({ isTaken: { type: 'boolean' }, why: { type: 'string', nullable: true } }),
    // The nonce identifies the offer: a repeated reply is applied once.
    once: 'engine',
    async call(call) {
      const { nonce, nack } = call.body as { nonce: string; nack?: string }
      const { push, client } = await clientOf(call)
      return nack === undefined ? await push.ack(client, nonce) : await push.nack(client, nonce, nack)
    },
  },
]

async function set(call: Call) {
  const push = await opened(call, idOf(call.params.config!))
  const { value, rollout: staged } = call.body as { value: unknown; rollout?: Record<string, unknown> }
  const key = call.key === undefined ? {} : { key: call.key }
  if (!staged) return { version: await push.set(value, key) }
  const { holdMs: hold, stageTimeoutMs: stageTimeout, ...plan } = staged as { holdMs?: number; stageTimeoutMs?: number }
  const times = { ...(hold !== undefined && { hold }), ...(stageTimeout !== undefined && { stageTimeout }) }
  return { version: await push.rollout(value, { ...plan, ...times, ...key }) }
}

async function awaitReached(call: Call) {
  const push = await opened(call, idOf(call.params.config!))
  const wanted = call.query.number('version')!
  const part = call.query.number('share') ?? 1
  try {
    const timeout = call.query.number('waitMs') ?? 0
    const reached = await push.reached(wanted, { share: part, timeout, signal: call.signal })
    return { version: wanted, isReached: true, ...reached }
  } catch (error) {
    if (!isReprise(error, 'TIMEOUT')) throw error
    const { acked, clients, nacked } = error.data as { acked: number; clients: number; nacked: number }
    const counts = { fleet: clients, clients, acked, nacked, share: clients === 0 ? 0 : acked / clients }
    return { version: wanted, isReached: false, ...counts }
  }
}

async function poll(call: Call) {
  const request = call.body as { has?: number; held?: string; stream?: string; waitMs?: number }
  const { push, client } = await clientOf(call)
  const opening = await join(push, client, request.held ?? request.has, request.stream)
  try {
    const offer = await opening.next({ wait: request.waitMs ?? 0, signal: call.signal })
    return { stream: opening.stream, offer }
  } finally {
    opening.detach()
  }
}

async function follow(call: Call): Promise<Reply> {
  const { push, client } = await clientOf(call)
  const going = call.request.header('last-event-id') ?? call.query.text('stream')
  const opening = await join(push, client, call.query.text('held') ?? call.query.number('has'), going)
  const headers = { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' }
  return new Reply(new OfferSource(opening, call.signal), headers)
}

/** The offers of one stream as events. The event id is the stream's: a client that reconnects with it resumes where it was. */
class OfferSource implements ByteSource {
  readonly #stream: ClientStream
  readonly #onAbort = () => this.close()
  readonly #signal: AbortSignal
  #hasBegun = false
  #isOver = false

  constructor(stream: ClientStream, signal: AbortSignal) {
    this.#stream = stream
    this.#signal = signal
    if (signal.aborted) this.close()
    else signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  async next(): Promise<Uint8Array | null> {
    const { stream: id } = this.#stream
    if (!this.#hasBegun) {
      this.#hasBegun = true
      return event('stream', { stream: id }, `retry: 1000\nid: ${id}\n`)
    }
    if (this.#isOver) return null
    try {
      const offer = await this.#stream.next({ wait: heartbeatMs })
      if (offer) return event('offer', offer, `id: ${id}\n`)
      return this.#isOver || this.#stream.isClosed ? null : Buffer.from(': still here\n\n')
    } catch (error) {
      // Reported in the stream, because the response has begun.
      this.close()
      return event('problem', { code: error instanceof RepriseError ? error.code : 'BUG' })
    }
  }

  close(): void {
    this.#isOver = true
    this.#signal.removeEventListener('abort', this.#onAbort)
    // The client may reconnect, here or to another server, so it is not treated as gone.
    this.#stream.detach()
  }
}

function event(name: string, data: unknown, before = ''): Uint8Array {
  return Buffer.from(`${before}event: ${name}\ndata: ${JSON.stringify(data, plain)}\n\n`)
}

async function join(
  push: ConfigHandle,
  client: string,
  known: number | string | undefined,
  id: string | null | undefined,
) {
  if (id !== undefined && id !== null) return await push.client(client, { stream: id })
  return await push.client(client, known === undefined ? {} : { has: known })
}

function idOf(config: string): string {
  return `config/${config}`
}

/** A token for one client reaches config/<name>/clients/<client>; a token for the configuration reaches all clients. */
async function clientOf(call: Call): Promise<{ readonly push: ConfigHandle; readonly client: string }> {
  const { config, client } = call.params as { config: string; client: string }
  return { push: await opened(call, `${idOf(config)}/clients/${client}`), client }
}

/** NOT_FOUND if the server has no such definition, or the principal does not reach it: the same message for both. */
async function opened({ engine, server, principal, params }: Call, id: string): Promise<ConfigHandle> {
  const name = params.config!
  const definition = server.definitions.find((each): each is ConfigDefinition => isConfig(each) && each.name === name)
  if (!definition || !mayReach(principal, id)) throw missing(idOf(name))
  return await engine.open(definition)
}
