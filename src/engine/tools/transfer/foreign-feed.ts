// Transfer of feed readers to another store. A reader (consumer, pipeline, projection, process manager) has a position in the
// feed of its own store. In the feed of another store that position would skip entries that the reader never read, so an
// export names the feed, and an import elsewhere is refused.

import { RepriseError } from '../../../core/errors.ts'
import { isWithin } from '../../../core/history/scope.ts'
import type { Head } from '../../../core/store/ports.ts'
import { readsAttribute } from '../../branch/consumers.ts'
import type { Kernel } from '../../storage/kernel.ts'

/** The id of the store and its incarnation. */
async function feedHere({ identity }: Kernel): Promise<string> {
  const { id, incarnation } = await identity.load(true)
  return `${id}/${incarnation}`
}

/** The feed in which this timeline has a position; null: none. */
export async function feedReadBy(kernel: Kernel, head: Pick<Head, 'timeline' | 'attributes'>): Promise<string | null> {
  const { timeline, attributes } = head
  const isReader = readsFeed(timeline, attributes) || (mayHaveCursor(timeline) && (await hasCursor(kernel, timeline)))
  return isReader ? await feedHere(kernel) : null
}

/** Only these are checked: a backup exports every timeline of a store. */
function mayHaveCursor(timeline: string): boolean {
  return ['job/', 'pipeline/', 'process/', 'informer/', 'controller/'].some((scope) => isWithin(scope, timeline))
}

async function hasCursor({ store }: Kernel, timeline: string): Promise<boolean> {
  return (await store.cursors()).some(({ owner }) => owner === timeline)
}

/** Throws POSITION_GONE if a file holds a reader of another feed. Files of earlier versions do not name the feed. */
export async function refuseForeignFeed(
  kernel: Kernel,
  { timeline, attributes, feed }: Pick<Head, 'attributes'> & { readonly timeline: string; readonly feed?: string },
): Promise<void> {
  if (feed === undefined && !readsFeed(timeline, attributes)) return
  if (feed === (await feedHere(kernel))) return
  const what = `${timeline} reads the feed of the store that it was exported from, and its position means nothing here: run its definition here, and it starts from the beginning`
  const hint = 'Export and import the timelines that it reads, and run its definition in the new store.'
  throw new RepriseError('POSITION_GONE', what, { timeline }, undefined, hint)
}

/** Partitions of a projection have neither a cursor nor the attribute. */
function readsFeed(timeline: string, attributes: Head['attributes']): boolean {
  return attributes[readsAttribute] !== undefined || isWithin('projection/', timeline)
}
