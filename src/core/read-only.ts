// A store that is only read: whatever would write says so, before anything is sent.

import type { Digest } from './coordinate.ts'
import { RepriseError } from './errors.ts'
import type { Store } from './ports.ts'

/** @example refuseWrites(openMemory({ namespace: 'shop', hash })) */
export function refuseWrites(store: Store): Store {
  const refuse = () =>
    Promise.reject(new RepriseError('STORE_READ_ONLY', 'the store was opened with readOnly: it does not write'))
  return {
    ...(store.lanes !== undefined && { lanes: store.lanes }),
    ...(store.countsCheckpoints !== undefined && { countsCheckpoints: store.countsCheckpoints }),
    blobs: {
      ...(store.blobs.has && { has: (digests: readonly Digest[]) => store.blobs.has!(digests) }),
      get: (digests) => store.blobs.get(digests),
      list: (after, limit) => store.blobs.list(after, limit),
      put: refuse,
      touch: refuse,
      delete: refuse,
      rewrite: refuse,
    },
    commit: refuse,
    claim: refuse,
    beat: refuse,
    retire: refuse,
    tidy: refuse,
    scrub: refuse,
    sweepMark: (raiseTo) => (raiseTo === undefined ? store.sweepMark() : refuse()),
    rewrite: refuse,
    replace: refuse,
    read: (timeline, after, bytesMax) => store.read(timeline, after, bytesMax),
    head: (timelines) => store.head(timelines),
    inbox: (timeline, limit) => store.inbox(timeline, limit),
    feed: (after, filter, limit) => store.feed(after, filter, limit),
    timelines: (query) => store.timelines(query),
    query: (query) => store.query(query),
    checkpoints: (timeline) => store.checkpoints(timeline),
    cursors: () => store.cursors(),
    workers: () => store.workers(),
    listen: (wake) => store.listen(wake),
    inspect: () => store.inspect(),
    facts: () => store.facts().then((facts) => ({ ...facts, isReadOnly: true })),
    close: () => store.close(),
  }
}
