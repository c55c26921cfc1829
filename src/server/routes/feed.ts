// The feed: entries of many timelines in one order without gaps, as pages, or live as server-sent events. The id of an event is
// a position: whoever comes back with it in Last-Event-ID misses nothing and sees nothing twice.

import { RepriseError } from '../../core/errors.ts'
import { feedStart } from '../../core/ports.ts'
import { type FeedEntries, FeedReader, type FeedRun } from '../../engine/feed/reader.ts'
import { hostOf } from '../../engine/host.ts'
import { FeedStream } from '../../engine/subscription/feed-stream.ts'
import { feedEnd } from '../../operations/feed-end.ts'
import { shownEntry } from '../../operations/history.ts'
import { plain } from '../../operations/json.ts'
import { scopesFor } from '../reach.ts'
import type { Call, QuerySchema, Route } from '../route.ts'
import * as shapes from '../shapes.ts'

const heartbeatMs = 15_000
const pageRunsMax = 1000

const prefix: QuerySchema = { ...shapes.text, isList: true, description: 'only these ids and what lies below them' }
const after: QuerySchema = { ...shapes.text, description: 'a position; everything behind it is given' }

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
      const reader = new FeedReader(hostOf(call.engine).kernel, scopes, { mayBeTrimmed: true })
      const page = await reader.page(checkPosition(at), call.query.number('limit') ?? 100)
      const items = together(page).filter(({ entries }) => entries.length > 0)
      return {
        items: items.map(({ position, entries }) => ({ position, entries: entries.map(shownEntry) })),
        next: page.next,
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
      'The feed as server-sent events: `entries` with a list of them, `position` without; the id is a position, and Last-Event-ID goes on from there',
    role: 'read',
    isStream: true,
    query: {
      prefix,
      after,
      from: {
        type: 'string',
        enum: ['start', 'now'],
        default: 'now',
        description: 'where to begin without a position',
      },
      brief: {
        type: 'boolean',
        description: 'of each timeline only the last entry, without its data: enough to know what to read again',
      },
    },
    answer: { type: 'string' },
    answerType: 'text/event-stream',
    call: follow,
  },
]

async function follow(call: Call): Promise<Response> {
  const { engine, request, query, signal } = call
  const scopes = scopesOf(call)
  const given = request.headers.get('last-event-id') ?? query.text('after')
  const start = given ?? (query.text('from') === 'start' ? feedStart : await feedEnd(engine))
  const isNobody = scopes !== undefined && scopes.length === 0
  const stream = new FeedStream(hostOf(engine).kernel, {
    scopes,
    after: checkPosition(start),
    mayBeTrimmed: true,
    signal,
    pageRuns: 500,
    pollMs: 250,
  })
  const instead = isNobody ? ended(signal) : null
  return new Response(events(stream, start, { instead, isBrief: query.flag('brief') }), {
    headers: { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' },
  })
}

/** For whom there is nothing to wait for but the end. */
function ended(signal: AbortSignal): Promise<null> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(null)
    else signal.addEventListener('abort', () => resolve(null), { once: true })
  })
}

/** Pulled: a client that reads slowly is given slowly, and nothing piles up. */
function events(
  stream: FeedStream,
  start: string,
  { instead, isBrief }: { readonly instead: Promise<null> | null; readonly isBrief: boolean },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let pending: Promise<FeedEntries | null> | null = null
  let isFirst = true
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (isFirst) {
        isFirst = false
        // Where it begins: a client that loses the connection before the first event knows where to go on.
        return controller.enqueue(
          encoder.encode(`retry: 1000\n${start === '' ? ': start\n\n' : event('position', start, {})}`),
        )
      }
      pending ??= instead ?? stream.next()
      let timer: NodeJS.Timeout | undefined
      const silence = new Promise<'silence'>((resolve) => {
        timer = setTimeout(() => resolve('silence'), heartbeatMs)
      })
      try {
        const page = await Promise.race([pending, silence])
        if (page === 'silence') return controller.enqueue(encoder.encode(': still here\n\n'))
        pending = null
        if (page === null) return controller.close()
        controller.enqueue(encoder.encode(isBrief ? briefOf(page) : textOf(page)))
      } catch (error) {
        // Told in the stream: the answer has begun, and a client must not come back with a position that is gone.
        const code = error instanceof RepriseError ? error.code : 'BUG'
        controller.enqueue(encoder.encode(`event: problem\ndata: ${JSON.stringify({ code })}\n\n`))
        stream.close()
        controller.close()
      } finally {
        clearTimeout(timer)
      }
    },
    cancel() {
      stream.close()
    },
  })
}

function textOf(page: FeedEntries): string {
  const runs = together(page).filter(({ entries }) => entries.length > 0)
  const told = runs.map(({ position, entries }) => event('entries', position, entries.map(shownEntry)))
  if (runs.at(-1)?.position !== page.next) told.push(event('position', page.next, {}))
  return told.join('')
}

/** One event for the whole page. */
function briefOf(page: FeedEntries): string {
  const last = new Map(page.runs.flatMap(({ entries }) => entries.map((entry) => [entry.timeline, entry])))
  if (last.size === 0) return event('position', page.next, {})
  const told = [...last.values()].map(({ timeline, seq, type, time }) => ({ timeline, seq, type, time }))
  return event('entries', page.next, told)
}

/** Runs of one commit may share a position: they are one event, or a client that stops between them would miss the second. */
function together({ runs }: FeedEntries): FeedRun[] {
  const merged: FeedRun[] = []
  for (const run of runs) {
    const last = merged.at(-1)
    if (last?.position === run.position) {
      merged[merged.length - 1] = { position: run.position, entries: [...last.entries, ...run.entries] }
    } else merged.push(run)
  }
  return merged
}

function event(name: string, id: string, data: unknown): string {
  return `id: ${id}\nevent: ${name}\ndata: ${JSON.stringify(data, plain)}\n\n`
}

/** Undefined: every timeline. None: the principal reaches nothing of it. */
function scopesOf({ principal, query }: Call): readonly string[] | undefined {
  const wanted = query.list('prefix')
  if (wanted.length === 0 && principal.scopes === null) return undefined
  const scopes = (wanted.length > 0 ? wanted : ['']).flatMap((each) => scopesFor(principal, each))
  return [...new Set(scopes)]
}

function checkPosition(position: string): string {
  if (/^[\x20-\x7e]{0,200}$/.test(position)) return position
  throw new RepriseError('INVALID_ARGUMENT', 'a position is what the feed gave', {})
}
