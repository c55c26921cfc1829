// The feed: entries of many timelines in one order without gaps, as pages, or live as server-sent events. The id of an event
// is a position: a client that reconnects with it in Last-Event-ID misses nothing and receives nothing twice.

import { feedStart } from '../../core/store/ports.ts'
import { OutsidePositions } from '../../engine/feed/outside-position.ts'
import { FeedReader } from '../../engine/feed/reader.ts'
import { hostOf } from '../../engine/host/host.ts'
import { feedEnd } from '../../operations/feed-end.ts'
import { shownEntry } from '../../operations/history.ts'
import { Reply } from '../reply.ts'
import type { Call, QuerySchema, Route } from '../route.ts'
import { scopesFor } from '../scope-filter.ts'
import * as shapes from '../shapes.ts'
import { lastSeen, together } from '../shared-feed.ts'

const pageRunsMax = 1000

const prefix: QuerySchema = { ...shapes.text, isList: true, description: 'only these ids and the ids below them' }
const after: QuerySchema = { ...shapes.text, description: 'a position; later entries are returned' }

export const feedRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/v1/feed',
    id: 'readFeed',
    tag: 'feed',
    summary: 'One page of the feed',
    role: 'read',
    query: { prefix, after, limit: shapes.limit(pageRunsMax) },
    answer: shapes.answer({
      items: shapes.list(shapes.answer({ position: shapes.text, entries: shapes.list(shapes.entry) })),
      next: shapes.text,
      isEnd: { type: 'boolean' },
    }),
    async call(call) {
      const scopes = scopesOf(call)
      const at = call.query.text('after') ?? feedStart
      if (scopes !== undefined && scopes.length === 0) return { items: [], next: at, isEnd: true }
      const { kernel } = hostOf(call.engine)
      const { positions, at: after, seen } = await positionsFor(call, at)
      const page = await new FeedReader(kernel, scopes, { mayBeTrimmed: true }).page(
        after,
        call.query.number('limit') ?? 100,
      )
      await positions.confirm(kernel.identity)
      const items = together(page).filter(({ entries }) => entries.length > 0)
      return {
        items: items.map(({ position, entries, seen: last }) => {
          return { position: positions.seal(position, last), entries: entries.map(shownEntry) }
        }),
        next: positions.seal(page.next, lastSeen(page) ?? seen),
        isEnd: page.isEnd,
      }
    },
  },
  {
    method: 'GET',
    path: '/v1/feed/stream',
    id: 'followFeed',
    tag: 'feed',
    summary:
      'The feed as server-sent events: `entries` with a list of entries, `position` without entries; the id is a position, and Last-Event-ID resumes from there',
    role: 'read',
    isStream: true,
    query: {
      prefix,
      after,
      from: {
        type: 'string',
        enum: ['start', 'now'],
        default: 'now',
        description: 'the start if no position is set',
      },
      brief: {
        type: 'boolean',
        description: 'only the last entry of each timeline, without its data',
      },
      heartbeat: { type: 'integer', minimum: 1, maximum: 60, default: 15, description: 'seconds between two comments' },
    },
    answer: { type: 'string' },
    answerType: 'text/event-stream',
    call: follow,
  },
]

async function follow(call: Call): Promise<Reply> {
  const { engine, server, request, query, signal } = call
  const given = request.header('last-event-id') ?? query.text('after')
  const { positions, at } = await positionsFor(call, given ?? feedStart)
  const start = query.text('from') === 'start' ? feedStart : await feedEnd(engine)
  const after = given === undefined ? start : at
  const isBrief = query.flag('brief')
  const heartbeatMs = (query.number('heartbeat') ?? 15) * 1000
  const source = server.feed.follow({ scopes: scopesOf(call), positions, after, isBrief, heartbeatMs, signal })
  return new Reply(source, { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' })
}

/** Undefined: every timeline. Empty: the principal reaches none of the requested timelines. */
function scopesOf({ principal, query }: Call): readonly string[] | undefined {
  const wanted = query.list('prefix')
  if (wanted.length === 0 && principal.scopes === null) return undefined
  const scopes = (wanted.length > 0 ? wanted : ['']).flatMap((each) => scopesFor(principal, each))
  return [...new Set(scopes)]
}

/** Positions are valid only for callers that reach the same timelines. */
async function positionsFor({ engine, principal }: Call, token: string) {
  return await OutsidePositions.opened(hostOf(engine).kernel, principal.scopes ?? undefined, token)
}
