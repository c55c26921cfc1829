// Searches timelines, most recently changed first, each with its status line.

import type { Head } from '../../core/store/ports.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { StatusLine } from '../../engine/model/journal-row.ts'
import { statusLineAt } from '../../operations/describe.ts'
import { shownHead } from '../../operations/heads.ts'
import { ownersAlive } from '../../operations/workers.ts'
import type { Call, Route } from '../route.ts'
import type { Schema } from '../schema.ts'
import { hideUnreached } from '../scope-filter.ts'
import * as shapes from '../shapes.ts'
import { indexed, type Wanted } from '../timeline-index.ts'
import { attributeOf } from './attribute.ts'

const rowsMax = 200
const searchesMax = 3
const standsKept = 2000
const flag: Schema = { type: 'boolean' }
const counts: Schema = { type: 'object', description: 'counts by name' }

const found: Schema = {
  ...shapes.head,
  name: 'FoundTimeline',
  properties: {
    ...shapes.head.properties,
    kind: { type: 'string', nullable: true },
    isRun: flag,
    isUnfinished: flag,
    needsPerson: flag,
    statusLine: { type: 'object', nullable: true, description: 'its current state: text, at, needsPerson' },
  },
}

export const searchRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/v1/search',
    id: 'search',
    tag: 'timelines',
    summary: 'Timelines found by text, kind, status, attributes and time, the most recently changed first, with counts',
    role: 'read',
    query: {
      text: {
        ...shapes.text,
        description:
          'every word is part of the id, the status, an attribute or the error; key=value is the whole value of an attribute',
      },
      kind: { ...shapes.text, isList: true, description: 'only of these kinds' },
      status: { ...shapes.text, isList: true, description: 'only with one of these statuses' },
      attribute: { ...shapes.text, isList: true, description: 'only with this attribute: KEY=VALUE' },
      runs: { ...flag, description: 'only of kinds that start and end' },
      attention: { ...flag, description: 'only those that need a person: held, failed, or with dead letters' },
      since: { type: 'integer', minimum: 0, description: 'changed at this time or later' },
      until: { type: 'integer', minimum: 0, description: 'changed before this time' },
      after: { ...shapes.text, description: 'the `next` of the previous page' },
      limit: { ...shapes.limit(rowsMax), default: 50 },
    },
    answer: shapes.answer({
      timelines: shapes.list(found),
      total: { ...shapes.count, description: 'how many match' },
      statuses: { ...counts, description: 'counts by status of the timelines that match the other conditions' },
      kinds: { ...counts, description: 'number of timelines by kind' },
      attention: { ...shapes.count, description: 'number of all timelines that need a person' },
      causes: {
        ...shapes.list({ type: 'object' }),
        description: 'with attention: equal errors of the matching timelines, with counts over time',
      },
      isPartial: { ...flag, description: 'the store has too many timelines to search' },
      now: shapes.millis,
      next: shapes.nextId,
    }),
    call: search,
  },
]

async function search(call: Call) {
  const { engine, server, principal } = call
  const { kernel, models } = hostOf(engine)
  const { heads, ...counted } = await findHeads(call)
  const timelines = await Promise.all(
    heads.map(async (head) => {
      const { kind, status, isRun, isUnfinished, needsPerson } = indexed(head, models.find(head.timeline))
      const statusLine = await statusLineOf(server, engine, head)
      return hideUnreached(principal, {
        ...shownHead(engine, head),
        kind,
        status,
        isRun,
        isUnfinished,
        needsPerson,
        statusLine,
      })
    }),
  )
  return { timelines, ...counted, now: kernel.worker.now() }
}

/**
 * The current heads. A row whose status has changed since it was indexed is noted and searched again, so that the answer shows
 * and counts it by its actual status.
 */
async function findHeads({ engine, server, principal, query }: Call) {
  const { kernel, models } = hostOf(engine)
  const [wanted, limit, after] = [wantedOf(query), query.number('limit') ?? 50, query.text('after')]
  for (let attempt = 1; ; attempt++) {
    const { rows, ...counted } = await server.index.find(principal, wanted, limit, after)
    const ids = rows.map(({ timeline }) => timeline)
    const read = await kernel.store.head(ids)
    const isAlive = await ownersAlive(
      engine,
      read.filter((head) => head !== null),
    )
    const heads = read.map((head) => head && { ...head, isOwnerAlive: isAlive(head) })
    server.index.note(heads, ids)
    const isSame = (head: Head | null, i: number) =>
      head !== null && indexed(head, models.find(head.timeline)).status === rows[i]!.status
    const same = heads.filter(isSame) as Head[]
    if (same.length === heads.length || attempt === searchesMax) return { heads: same, ...counted }
  }
}

const keptBy = new WeakMap<
  Call['server'],
  Map<string, { readonly key: string; readonly statusLine: StatusLine | null }>
>()

/** Cached while its history and owner are unchanged: dashboards request a page every second. */
async function statusLineOf(server: Call['server'], engine: Call['engine'], head: Head): Promise<StatusLine | null> {
  const kept = keptBy.get(server) ?? new Map()
  keptBy.set(server, kept)
  const { digest, owner, isOwnerAlive, status, mail } = head
  const key = `${Buffer.from(digest).toString('hex')}:${owner}:${isOwnerAlive}:${status}:${mail}`
  const before = kept.get(head.timeline)
  if (before?.key === key) return before.statusLine
  // An unreadable state is reported on the timeline's own page, not by an empty list.
  const statusLine = await statusLineAt(engine, head).catch(() => null)
  if (kept.size >= standsKept) kept.delete(kept.keys().next().value!)
  kept.set(head.timeline, { key, statusLine })
  return statusLine
}

function wantedOf(query: Call['query']): Wanted {
  const [text, since, until] = [query.text('text'), query.number('since'), query.number('until')]
  const [kinds, statuses, attributes] = [query.list('kind'), query.list('status'), query.list('attribute')]
  return {
    ...(text !== undefined && { text }),
    ...(kinds.length > 0 && { kinds }),
    ...(statuses.length > 0 && { statuses }),
    ...(attributes.length > 0 && { attributes: Object.fromEntries(attributes.map(attributeOf)) }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
    runs: query.flag('runs'),
    attention: query.flag('attention'),
  }
}
