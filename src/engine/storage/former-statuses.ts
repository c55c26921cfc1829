// Statuses have one vocabulary over all models (docs/decisions/statuses.md). Stores of earlier versions contain other names of
// some statuses. Heads get the current name where they leave the store, and a query by status finds the earlier names as well.

import type { TimelineId } from '../../core/coordinate.ts'
import type { ClaimRequest, Head, Store, TimelineQuery } from '../../core/store/ports.ts'
import { forwardShards } from '../../core/store/store-wrapper.ts'
import { compareText } from '../../core/store/text-order.ts'
import { firstSegment } from '../model/id-prefixes.ts'

/** By the first segment of ids: earlier names, each with the current one. */
const former: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  exec: { done: 'completed', interrupted: 'stopped' },
  group: { complete: 'completed' },
  job: { finished: 'completed' },
  migrate: { finished: 'completed' },
  pipeline: { done: 'completed', suspended: 'stopped' },
  upload: { ended: 'removed' },
  workflow: { 'compensation-stuck': 'stuck' },
}
const formerNames: ReadonlySet<string> = new Set(Object.values(former).flatMap((names) => Object.keys(names)))

/** The reads of a store, with current statuses. */
export function currentStatuses(store: Store): PropertyDescriptorMap {
  const claim = async (request: ClaimRequest) => (await store.claim(request)).map(current)
  const head = async (ids: readonly TimelineId[]) => (await store.head(ids)).map((each) => each && current(each))
  const timelines = async (query: TimelineQuery) => {
    const earlier = earlierQueries(query)
    if (earlier.length === 0) return (await store.timelines(query)).map(current)
    const pages = await Promise.all([query, ...earlier].map((each) => store.timelines(each)))
    const heads = pages.flat().map(current)
    return heads.sort((a, b) => compareText(a.timeline, b.timeline)).slice(0, query.limit)
  }
  const shards =
    store.shards &&
    forwardShards(store.shards, {
      moment: async (ids) => (await store.shards!.moment(ids))?.map((each) => each && current(each)) ?? null,
      headsInReach: async (ids) => (await store.shards!.headsInReach(ids)).map((each) => each && current(each)),
    })
  return {
    claim: { value: claim, enumerable: true, writable: true, configurable: true },
    shards: { value: shards, enumerable: true },
    head: { value: head, enumerable: true, writable: true, configurable: true },
    timelines: { value: timelines, enumerable: true, writable: true, configurable: true },
  }
}

function current(head: Head): Head {
  if (!formerNames.has(head.status)) return head
  const status = former[firstSegment(head.timeline)]?.[head.status]
  return status === undefined ? head : { ...head, status }
}

/** The same query for each earlier name of its status, within the kind that had this name. */
function earlierQueries(query: TimelineQuery): TimelineQuery[] {
  return Object.entries(former).flatMap(([kind, names]) => {
    const prefix = query.prefix || `${kind}/`
    if (firstSegment(prefix) !== kind) return []
    return Object.keys(names).flatMap((status) =>
      names[status] === query.status ? [{ ...query, prefix, status }] : [],
    )
  })
}
