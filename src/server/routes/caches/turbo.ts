// Turborepo's remote cache. A team is a space of its own, named by its id or slug; the token's scope, not the client, decides
// which teams it reads. Clients create and check signatures: the tag is returned unchanged.

import { RepriseError } from '../../../core/errors.ts'
import type { ArtifactMeta } from '../../../layers/artifact/index.ts'
import type { Call, QuerySchema, Refusal, Route } from '../../route.ts'
import type { Schema } from '../../schema.ts'
import * as shapes from '../../shapes.ts'
import { foundAbout, receiveArtifact, type Spot, scopesOf, sendArtifact } from './artifact-requests.ts'

const name: QuerySchema = { type: 'string', maxLength: 80, description: 'the team, whose artifacts are separate' }
const query = { teamId: name, slug: name }
const hashesMax = 1000
const headerMax = 600
const events: Schema = { type: 'array', maxItems: 10_000, items: { type: 'object' } }

/** The client shows the message, and continues without the cache. */
const refusal: Refusal = {
  type: 'application/json',
  schema: shapes.answer({
    code: shapes.text,
    error: shapes.answer({ code: shapes.text, message: { type: 'string' } }),
  }),
  format: ({ code, detail }) => JSON.stringify({ code, error: { code: code.toLowerCase(), message: detail } }),
}

const common = { tag: 'caches', query, refusal } as const

export const turboRoutes: readonly Route[] = [
  {
    ...common,
    method: 'GET',
    path: '/v8/artifacts/status',
    id: 'turboStatus',
    summary: 'Turborepo: whether there is a cache for this token',
    role: 'read',
    answer: shapes.answer({ status: shapes.text }),
    call(call) {
      scopesOf(call)
      return { status: 'enabled' }
    },
  },
  {
    ...common,
    method: 'GET',
    path: '/v8/artifacts/{hash}',
    id: 'turboGet',
    summary: 'Turborepo: an artifact, with its duration and its signature; HEAD checks whether it exists',
    role: 'read',
    isLong: true,
    answer: { type: 'string' },
    answerType: 'application/octet-stream',
    call: async (call) => await sendArtifact(call, spotOf(call, call.params.hash!), headersOf),
  },
  {
    ...common,
    method: 'PUT',
    path: '/v8/artifacts/{hash}',
    id: 'turboPut',
    summary: 'Turborepo: put an artifact',
    role: 'write',
    isLong: true,
    status: 202,
    takesStream: 'artifactBytes',
    answer: shapes.answer({ urls: { type: 'array', items: shapes.text } }),
    async call(call) {
      const { request } = call
      const [duration, tag] = [request.header('x-artifact-duration'), request.header('x-artifact-tag')]
      if (tag !== null && tag.length > headerMax) {
        throw new RepriseError('INVALID_ARGUMENT', `x-artifact-tag must have at most ${headerMax} characters`, {})
      }
      const about = {
        ...(duration !== null && /^\d{1,15}$/.test(duration) && { tookMs: Number(duration) }),
        ...(tag !== null && { tag }),
      }
      await receiveArtifact(call, spotOf(call, call.params.hash!), { about })
      return { urls: [`${call.server.basePath}/v8/artifacts/${call.params.hash}`] }
    },
  },
  {
    ...common,
    method: 'POST',
    path: '/v8/artifacts/events',
    id: 'turboEvents',
    summary: 'Turborepo: hits and misses of a client, counted in the metrics',
    role: 'read',
    body: events,
    answer: shapes.any,
    call(call) {
      scopesOf(call)
      for (const each of call.body as unknown as readonly Readonly<Record<string, unknown>>[]) {
        const [source, event] = [each.source === 'LOCAL' ? 'local' : 'remote', each.event === 'HIT' ? 'hit' : 'miss']
        call.server.metrics.add('reprise_cache_events_total', 1, { source, event })
      }
      return {}
    },
  },
  {
    ...common,
    method: 'POST',
    path: '/v8/artifacts',
    id: 'turboQuery',
    summary: 'Turborepo: the metadata of several artifacts; null for missing ones',
    role: 'read',
    body: shapes.object({ hashes: { type: 'array', maxItems: hashesMax, items: shapes.text } }, ['hashes']),
    answer: { type: 'object' },
    async call(call) {
      const found: Record<string, unknown> = {}
      for (const hash of (call.body as { hashes: string[] }).hashes) {
        const meta = await foundAbout(call, spotOf(call, hash))
        found[hash] = meta && {
          size: meta.size,
          taskDurationMs: meta.tookMs ?? 0,
          ...(meta.tag !== undefined && { tag: meta.tag }),
        }
      }
      return found
    },
  },
]

function spotOf({ query: given }: Call, hash: string): Spot {
  const team = given.text('teamId') ?? given.text('slug') ?? ''
  return { space: team === '' ? '.turbo' : `.turbo-${team}`, key: hash }
}

function headersOf({ tookMs, tag }: ArtifactMeta): Record<string, string> {
  return { 'x-artifact-duration': String(tookMs ?? 0), ...(tag !== undefined && { 'x-artifact-tag': tag }) }
}
