// Reads timelines: lists, one of them, its state, history, checkpoints, effects and recovery card.

import { RepriseError } from '../../core/errors.ts'
import type { TimelineQuery } from '../../core/store/ports.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { type Entry, entriesOf, lineageOf, reachOf } from '../../engine/history/history.ts'
import { hostOf } from '../../engine/host/host.ts'
import { isOfStore } from '../../engine/model/id-prefixes.ts'
import { rowOf } from '../../engine/model/journal-row.ts'
import type { Model } from '../../engine/model/model.ts'
import { describeTimeline, shownCheckpoints } from '../../operations/describe.ts'
import { effectsOf } from '../../operations/effects.ts'
import { shownHead, storedStatuses } from '../../operations/heads.ts'
import { entriesAfter, historyAfter, positionAt, seqOfPosition, shownEntry } from '../../operations/history.ts'
import { diffStates, stateAt } from '../../operations/state-at.ts'
import { ownersAlive } from '../../operations/workers.ts'
import { mayReach } from '../access.ts'
import type { Call, Route } from '../route.ts'
import { hideUnreached, listPage, reached, scopesFor, withoutName, withoutUnreached } from '../scope-filter.ts'
import * as shapes from '../shapes.ts'
import { attributeOf } from './attribute.ts'

const pageMax = 1000
const summariesMax = 100

const filters = {
  queue: { ...shapes.text, description: 'only in this queue' },
  attribute: { ...shapes.text, isList: true, description: 'only with this attribute: KEY=VALUE' },
  after: { ...shapes.text, description: 'ids after this one' },
  limit: shapes.limit(pageMax),
} as const

export const timelineRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/v1/timelines',
    id: 'listTimelines',
    tag: 'timelines',
    summary: 'Timelines in the order of their ids, page by page',
    role: 'read',
    query: {
      prefix: { ...shapes.text, description: 'an id and the ids below it, by whole segments' },
      status: { ...shapes.text, description: 'only with this status' },
      owner: { ...shapes.text, description: 'only those owned by this worker' },
      parent: { ...shapes.text, description: 'only forks of this timeline' },
      ...filters,
    },
    answer: shapes.answer({ timelines: shapes.list(shapes.head), next: shapes.nextId }),
    call: listTimelines,
  },
  {
    method: 'GET',
    path: '/v1/runs',
    id: 'listRuns',
    tag: 'timelines',
    summary: 'Runs: timelines of the kinds that start and end (workflows, jobs, migrations), page by page',
    role: 'read',
    query: {
      kind: { ...shapes.text, description: 'only of this kind' },
      name: { ...shapes.text, description: 'only of this definition' },
      status: { ...shapes.text, isList: true, description: 'only with one of these statuses' },
      unfinished: { type: 'boolean', description: 'only those with work left' },
      summary: { type: 'boolean', description: `with the summary of each state; pages of at most ${summariesMax}` },
      ...filters,
    },
    answer: shapes.answer({ runs: shapes.list({ ...shapes.head }), next: shapes.nextId }),
    call: listRuns,
  },
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}',
    id: 'showTimeline',
    tag: 'timelines',
    summary: 'The status of one timeline',
    role: 'read',
    query: {
      brief: {
        type: 'boolean',
        description: 'without its state (summary, statusLine, verbs), which takes longer to compute for a long history',
      },
    },
    answer: {
      ...shapes.head,
      name: 'Timeline',
      properties: {
        ...{ ...shapes.head.properties, kind: { type: 'string', nullable: true }, summary: shapes.any },
        identity: {
          ...shapes.answer({
            ...{ store: shapes.text, incarnation: shapes.text, life: shapes.count, branch: shapes.count },
            timeline: shapes.text,
          }),
          description: 'the basis of keys, revisions and positions that leave the store',
        },
      },
    },
    async call(call) {
      const known = await call.head()
      // A process that died on this machine is detected at once, and the status line reflects it.
      const head = { ...known, isOwnerAlive: (await ownersAlive(call.engine, [known]))(known) }
      const { shown } = await describeTimeline(call.engine, head, { brief: call.query.flag('brief') })
      const isReached = (id: string) => mayReach(call.principal, id)
      const relatives = { lineage: shown.lineage.filter(isReached), forks: shown.forks.filter(isReached) }
      return hideUnreached(call.principal, { ...shown, ...relatives })
    },
  },
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}/card',
    id: 'recoveryCard',
    tag: 'timelines',
    summary: 'The recovery card: captured state and cost of recovery',
    role: 'read',
    answer: shapes.answer({ coordinate: shapes.coordinate, status: shapes.text, checkpoints: shapes.count }),
    async call(call) {
      const card = await call.engine.card((await call.head()).timeline)
      if (call.principal.scopes === null) return card
      // The consumer or fork that holds its history may be outside the caller's reach.
      const floor = { seq: card.floor.seq, because: 'held by others or by its policy', heldBy: [] }
      const owner = card.owner && { ...card.owner, worker: withoutName(card.owner.worker) }
      return { ...card, owner, floor, lineage: card.lineage.filter((id) => mayReach(call.principal, id)) }
    },
  },
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}/state',
    id: 'stateAt',
    tag: 'timelines',
    summary: 'State as of a sequence, or of the head',
    role: 'read',
    query: { seq: shapes.seq },
    answer: shapes.answer({ coordinate: shapes.coordinate, state: shapes.any }),
    async call(call) {
      const { timeline, seq } = await call.head()
      return await stateAt(call.engine, { timeline, seq: call.query.number('seq') ?? seq })
    },
  },
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}/diff',
    id: 'diffStates',
    tag: 'timelines',
    summary: 'What changed between two sequences, or to another timeline',
    role: 'read',
    query: {
      from: { type: 'integer', minimum: 0, isRequired: true, description: 'a sequence of this timeline' },
      to: { type: 'integer', minimum: 0, description: 'a sequence (default: the head)' },
      other: { ...shapes.text, description: 'the timeline of `to`, if it is a different one' },
    },
    answer: shapes.answer({
      before: shapes.coordinate,
      after: shapes.coordinate,
      changes: shapes.list(shapes.any),
      isComplete: { type: 'boolean', description: 'false: only the first thousand changes are listed' },
    }),
    async call(call) {
      const head = await call.head()
      const from = call.query.number('from')!
      const other = call.query.text('other')
      const there = other === undefined ? head : await reached(call.engine, call.principal, other)
      const to = { timeline: there.timeline, seq: call.query.number('to') ?? there.seq }
      return await diffStates(call.engine, { timeline: head.timeline, seq: from }, to)
    },
  },
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}/history',
    id: 'readHistory',
    tag: 'timelines',
    summary: 'Entries, checked against the digest chain as they are read, page by page',
    role: 'read',
    query: {
      after: { ...shapes.text, description: 'entries after this `next` or sequence, oldest first' },
      before: { ...shapes.text, description: 'entries before this `next` or sequence, newest first' },
      type: { ...shapes.text, description: 'only entries of this type' },
      journal: {
        type: 'boolean',
        description: 'the readable form of each entry (`told`) instead of its data',
      },
      limit: shapes.limit(pageMax),
    },
    answer: shapes.answer({
      entries: shapes.list(shapes.entry),
      next: {
        type: 'string',
        nullable: true,
        description:
          'pass it as `after` or `before` to continue (POSITION_GONE if that history no longer exists); null at the end',
      },
      coordinate: shapes.coordinate,
    }),
    call: readHistory,
  },
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}/checkpoints',
    id: 'listCheckpoints',
    tag: 'timelines',
    summary: 'Its catalog of checkpoints and savepoints, newest first',
    role: 'read',
    answer: shapes.answer({ checkpoints: shapes.list(shapes.answer({ id: shapes.text, seq: shapes.count })) }),
    async call(call) {
      const { timeline } = await call.head()
      return { checkpoints: await shownCheckpoints(call.engine, timeline) }
    },
  },
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}/effects',
    id: 'listEffects',
    tag: 'timelines',
    summary: 'Its outside effects, including those in doubt',
    role: 'read',
    query: { open: { type: 'boolean', description: 'only those without an outcome' } },
    answer: shapes.answer({ effects: shapes.list(shapes.answer({ id: shapes.text, name: shapes.text })) }),
    async call(call) {
      const effects = withoutUnreached(call.principal, await effectsOf(call.engine, await call.head()))
      return { effects: call.query.flag('open') ? effects.filter(({ outcome }) => outcome === null) : effects }
    },
  },
]

async function listTimelines({ engine, principal, query }: Call) {
  const prefix = query.text('prefix')
  const [status, owner, parent] = [query.text('status'), query.text('owner'), query.text('parent')]
  const conditions = {
    ...(owner !== undefined && { owner: owner as NonNullable<TimelineQuery['owner']> }),
    ...(parent !== undefined && { parent: parent as NonNullable<TimelineQuery['parent']> }),
    ...common(query),
  }
  // The forks of an unreachable timeline are hidden as well.
  if (parent !== undefined && !mayReach(principal, parent)) return { timelines: [], next: null }
  const scopes = scopesFor(principal, prefix ?? '')
  const statuses = status === undefined ? [{}] : storedStatuses(engine, status).map((stored) => ({ status: stored }))
  const queries = scopes.flatMap((scope) =>
    statuses.map((stored) => ({ ...conditions, ...stored, ...(scope !== '' && { prefix: scope }) })),
  )
  const { heads, next } = await listPage(engine, queries, query.text('after'), query.number('limit') ?? 100)
  // The store's own timelines are listed only if requested by prefix.
  const listed = prefix === undefined ? heads.filter(({ timeline }) => !isOfStore(timeline)) : heads
  const shown = listed
    .map((head) => hideUnreached(principal, shownHead(engine, head)))
    .filter((each) => status === undefined || each.status === status)
  return { timelines: shown, next }
}

async function listRuns({ engine, principal, query }: Call) {
  const kinds = hostOf(engine)
    .models.all()
    .filter((model) => model.name === null && model.unfinished !== undefined)
    .filter((model) => query.text('kind') === undefined || model.kind === query.text('kind'))
  const withSummary = query.flag('summary')
  const limit = Math.min(query.number('limit') ?? 100, withSummary ? summariesMax : pageMax)
  const queries = kinds.flatMap((kind) => {
    const name = query.text('name')
    const statuses = statusesOf(engine, kind, query)
    return scopesFor(principal, name === undefined ? kind.scope : kind.scope + name).flatMap((prefix) =>
      statuses.map((status) => ({ prefix, ...(status !== null && { status }), ...common(query) })),
    )
  })
  const { heads, next } = await listPage(engine, queries, query.text('after'), limit)
  const runs = await Promise.all(
    heads.map(async (head) => {
      const kind = hostOf(engine).models.find(head.timeline)
      const shown = shownHead(engine, head)
      const isUnfinished = kind?.unfinished?.includes(shown.status) ?? false
      const more = withSummary ? { summary: (await describeTimeline(engine, head)).shown.summary } : {}
      return hideUnreached(principal, { kind: kind?.kind ?? null, isUnfinished, ...shown, ...more })
    }),
  )
  const named = query.list('status')
  return { runs: runs.filter(({ status }) => named.length === 0 || named.includes(status)), next }
}

/** The statuses of heads; null: any. */
function statusesOf(engine: Reprise, kind: Model, query: Call['query']): readonly (string | null)[] {
  const named = [...new Set(query.list('status').flatMap((status) => storedStatuses(engine, status)))]
  if (!query.flag('unfinished')) return named.length > 0 ? named : [null]
  const unfinished = kind.unfinished ?? []
  return named.length > 0 ? unfinished.filter((status) => named.includes(status)) : unfinished
}

function common(query: Call['query']): Pick<TimelineQuery, 'queue' | 'attributes'> {
  const queue = query.text('queue')
  const attributes = query.list('attribute')
  return {
    ...(queue !== undefined && { queue }),
    ...(attributes.length > 0 && { attributes: Object.fromEntries(attributes.map(attributeOf)) }),
  }
}

async function readHistory(call: Call) {
  const { engine, query } = call
  const head = await call.head()
  const { timeline, seq, epoch, digest } = head
  const limit = query.number('limit') ?? 100
  const [after, before] = await Promise.all(
    ['after', 'before'].map(async (name) => {
      const position = query.text(name)
      return position === undefined ? undefined : await seqOfPosition(engine, head, position)
    }),
  )
  if (after !== undefined && before !== undefined) {
    throw new RepriseError('INVALID_ARGUMENT', 'after and before exclude each other', {})
  }
  const type = query.text('type')
  const coordinate = { timeline, seq, epoch, digest: Buffer.from(digest).toString('hex') }
  // The history of a fork includes the entries inherited from its parent.
  const model = hostOf(engine).models.find(timeline)
  const isJournal = query.flag('journal')
  const shown = (entry: Entry) => {
    if (!isJournal) return { ...shownEntry(entry), timeline }
    const { data: _, ...row } = shownEntry(entry)
    return { ...row, timeline, told: rowOf(entry, model?.entryRow) }
  }
  const entries: ReturnType<typeof shown>[] = []
  if (before !== undefined) {
    const { kernel } = hostOf(engine)
    const floor = (await reachOf(kernel, await lineageOf(kernel, head))).seq
    const top = Math.min(before, seq + 1)
    const from = Math.max(floor, top - 1 - limit)
    for await (const entry of from < seq ? entriesAfter(engine, head, from) : []) {
      if (entry.seq >= top) break
      if (type === undefined || entry.type === type) entries.push(shown(entry))
    }
    const next = from > floor ? await positionAt(engine, head, from + 1) : null
    return { entries: entries.reverse(), next, coordinate }
  }
  let last = after ?? 0
  for await (const run of await historyAfter(engine, head, last)) {
    for (const entry of entriesOf(hostOf(engine).kernel, run)) {
      if (entries.length === limit) return { entries, next: await positionAt(engine, head, last), coordinate }
      if (type === undefined || entry.type === type) entries.push(shown(entry))
      last = entry.seq
    }
  }
  return { entries, next: null, coordinate }
}
