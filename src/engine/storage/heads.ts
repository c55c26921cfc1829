// All heads of a store that match a query, in id order. A timeline that the store cannot read rejects the whole list; lists that
// skip and report it are in sound-page.ts.

import type { Head, TimelineQuery } from '../../core/store/ports.ts'
import { eachRow } from '../../lib/each-page.ts'

interface Listing {
  timelines(query: TimelineQuery): Promise<readonly Head[]> | readonly Head[]
}

/** @example for await (const fork of headsIn(kernel.store, { parent })) … */
export function headsIn(
  store: Listing,
  query: Omit<Partial<TimelineQuery>, 'limit' | 'after'> = {},
): AsyncGenerator<Head> {
  return eachRow<Head>((last, limit) => store.timelines({ ...query, limit, ...(last && { after: last.timeline }) }))
}

/** The forks of a timeline, and the archives of its forks. */
export async function forksOf({ store }: { readonly store: Listing }, parent: Head['timeline']): Promise<Head[]> {
  const forks: Head[] = []
  for await (const fork of headsIn(store, { parent })) forks.push(fork)
  return forks
}
