// Durable progress for a program in any language: append, lease, checkpoint. It reads with `history` and the feed.

import { checkpointIdOf } from '../checkpoint-id.ts'
import { Reply } from '../reply.ts'
import type { Call, QuerySchema, Route } from '../route.ts'
import type { Schema } from '../schema.ts'
import { reached, reachedId } from '../scope-filter.ts'
import * as shapes from '../shapes.ts'
import type { AppendRequest } from '../sidecar/append.ts'
import { getCheckpoint, putCheckpoint } from '../sidecar/checkpoint.ts'
import type { Put } from '../sidecar/fold.ts'

const entriesMax = 1000
const ttlMs: Schema = {
  type: 'integer',
  minimum: 1000,
  maximum: 600_000,
  default: 30_000,
  description: 'without a heartbeat for this long, other clients may take it',
}
const epoch: Schema = { type: 'integer', minimum: 1, description: 'of the lease: a fencing token that grows' }
const epochInQuery: QuerySchema = epoch
const lease = shapes.named(
  'Lease',
  shapes.answer({
    timeline: shapes.text,
    epoch,
    seq: shapes.count,
    digest: shapes.text,
    holder: shapes.text,
    until: shapes.millis,
  }),
)

export const sidecarRoutes: readonly Route[] = [
  {
    method: 'POST',
    path: '/v1/timelines/{timeline}/entries',
    id: 'append',
    tag: 'sidecar',
    summary:
      'Append entries: durable and visible together when the request is answered. The Idempotency-Key is their dedupe key',
    role: 'write',
    body: shapes.object(
      {
        entries: {
          type: 'array',
          minItems: 1,
          maxItems: entriesMax,
          items: shapes.object({ type: { type: 'string', minLength: 1, maxLength: 128 }, data: { type: 'object' } }, [
            'type',
          ]),
        },
        expect: { ...shapes.count, description: 'only if this is still the last sequence; otherwise CONFLICT' },
        epoch,
      },
      ['entries'],
    ),
    answer: shapes.answer({ first: shapes.count, seq: shapes.count, isDuplicate: { type: 'boolean' } }),
    once: 'engine',
    async call({ server, principal, params, body, key, signal }) {
      const { epoch: of, ...append } = body as unknown as AppendRequest & { readonly epoch?: number }
      const request = { ...append, signal, ...(key !== undefined && { key }) }
      return await server.sidecars.append(reachedId(principal, params.timeline!), request, of)
    },
  },
  {
    method: 'POST',
    path: '/v1/timelines/{timeline}/lease',
    id: 'takeLease',
    tag: 'sidecar',
    summary:
      'Own a timeline, created if it does not exist; every lease has a new epoch, and writes under an older one are refused',
    role: 'write',
    body: shapes.object(
      {
        holder: { type: 'string', minLength: 1, maxLength: 128, description: 'name of the holder, for people' },
        ttlMs,
        takeover: { type: 'boolean', default: false, description: 'also from a live holder' },
        waitMs: { type: 'integer', minimum: 0, maximum: 20_000, default: 0 },
      },
      ['holder'],
    ),
    answer: lease,
    once: 'answer',
    async call({ server, principal, params, body }) {
      const given = body as { holder: string; ttlMs?: number; takeover?: boolean; waitMs?: number }
      const request = { ttlMs: 30_000, takeover: false, waitMs: 0, ...given }
      const bounded = { ...request, ttlMs: Math.min(request.ttlMs, server.limits.leaseMs) }
      return await server.sidecars.lease(reachedId(principal, params.timeline!), bounded)
    },
  },
  {
    method: 'POST',
    path: '/v1/timelines/{timeline}/lease/renew',
    id: 'renewLease',
    tag: 'sidecar',
    summary: 'A heartbeat; an append under the lease also counts as one',
    role: 'write',
    body: shapes.object({ epoch, ttlMs }, ['epoch']),
    answer: lease,
    once: 'engine',
    async call({ server, principal, params, body }) {
      const renewal = body as { epoch: number; ttlMs?: number }
      return await server.sidecars.renew(reachedId(principal, params.timeline!), renewal.epoch, renewal.ttlMs)
    },
  },
  {
    method: 'DELETE',
    path: '/v1/timelines/{timeline}/lease',
    id: 'releaseLease',
    tag: 'sidecar',
    summary: 'Release a timeline, so that another process can take it at once',
    role: 'write',
    query: { epoch: { ...epochInQuery, isRequired: true } },
    answer: shapes.answer({ released: { type: 'boolean' } }),
    once: 'answer',
    async call({ server, principal, params, query }) {
      await server.sidecars.release(reachedId(principal, params.timeline!), query.number('epoch')!)
      return { released: true }
    },
  },
  {
    method: 'PUT',
    path: '/v1/timelines/{timeline}/checkpoint',
    id: 'putCheckpoint',
    tag: 'sidecar',
    summary: 'Store a captured state, with the sequence that it reflects: JSON, or bytes of any other type',
    role: 'write',
    takesBytes: 'checkpointBytes',
    query: {
      seq: { type: 'integer', minimum: 0, isRequired: true, description: 'the last sequence that the state reflects' },
      digest: {
        type: 'string',
        pattern: '^[0-9a-f]{64}$',
        description: 'of history up to that sequence, which identifies the branch',
      },
      epoch: epochInQuery,
      keep: { type: 'integer', minimum: 1, maximum: 100, default: 3, description: 'how many of them to keep' },
    },
    answer: shapes.answer({
      id: shapes.text,
      coordinate: shapes.coordinate,
      bytes: shapes.count,
      isDuplicate: { type: 'boolean' },
    }),
    once: 'engine',
    call: put,
  },
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}/checkpoint',
    id: 'getCheckpoint',
    tag: 'sidecar',
    summary: 'The newest complete checkpoint, as JSON, or as its bytes with the coordinate in headers',
    role: 'read',
    query: { seq: { type: 'integer', minimum: 0, description: 'the newest at or below this sequence' } },
    answer: shapes.answer({
      id: shapes.text,
      coordinate: shapes.coordinate,
      createdAt: shapes.millis,
      value: shapes.any,
    }),
    async call({ engine, principal, params, query }) {
      const { timeline } = await reached(engine, principal, params.timeline!)
      const { id, coordinate, createdAt, put: found } = await getCheckpoint(engine, timeline, query.number('seq'))
      if (found.kind === 'json') return { id, coordinate, createdAt, value: found.value }
      return new Reply(found.bytes, {
        // A browser never displays it, whatever type it was stored with.
        'content-type': 'application/octet-stream',
        'content-disposition': 'attachment',
        'reprise-type': found.type,
        'reprise-checkpoint': id,
        'reprise-seq': String(coordinate.seq),
        'reprise-epoch': String(coordinate.epoch),
        'reprise-digest': coordinate.digest,
      })
    },
  },
]

async function put(call: Call) {
  const { engine, server, query, body, bytes, request } = call
  const head = await reached(engine, call.principal, call.params.timeline!)
  const { timeline } = head
  const id = await checkpointIdOf(call, head)
  const [seq, digest, epochGiven] = [query.number('seq'), query.text('digest'), query.number('epoch')]
  const type = (request.header('content-type') ?? 'application/octet-stream').slice(0, 200)
  const what: Put = bytes ? { kind: 'bytes', bytes, type } : { kind: 'json', value: body }
  return await server.sidecars.write(timeline, epochGiven, (epoch) =>
    putCheckpoint(engine, timeline, what, {
      seq: seq!,
      keep: query.number('keep') ?? 3,
      ...(digest !== undefined && { digest }),
      ...(epoch !== undefined && { epoch }),
      ...(id !== undefined && { id }),
    }),
  )
}
