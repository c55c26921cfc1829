// The meaning of a query for timelines, for stores that compare heads in memory.

import type { TimelineId } from '../coordinate.ts'
import { isWithin } from '../history/scope.ts'
import type { Head, TimelineQuery } from './ports.ts'
import { compareText } from './text-order.ts'

/** @example isWanted({ status: 'running', limit: 10 }, head.timeline, head) */
export function isWanted(
  query: TimelineQuery,
  id: TimelineId,
  { status, queue, owner, base, attributes }: Pick<Head, 'status' | 'queue' | 'owner' | 'base' | 'attributes'>,
): boolean {
  return (
    (query.prefix === undefined || isWithin(query.prefix, id)) &&
    (query.status === undefined || status === query.status) &&
    (query.queue === undefined || queue === query.queue) &&
    (query.owner === undefined || owner === query.owner) &&
    (query.parent === undefined || base?.timeline === query.parent) &&
    (query.after === undefined || compareText(id, query.after) > 0) &&
    Object.entries(query.attributes ?? {}).every(
      ([key, value]) => Object.hasOwn(attributes, key) && attributes[key] === value,
    )
  )
}
