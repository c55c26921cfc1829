// A store that fails where it is told to: before doing the work, or after it, when the answer is lost. Every method of the
// port goes through here, the blobs' too, so that a test can break any call of any program and ask what became of it (G4).

import { RepriseError } from '../core/errors.ts'
import type { Blobs, Store } from '../core/ports.ts'

/** `fail-after`: the work is done, and the caller does not learn of it. */
export type Fate = 'ok' | 'fail-before' | 'fail-after'

/** `method` is the name in the port ('commit', 'blobs.put', …); `callNumber` counts all calls, from 1. */
export type Decide = (method: string, callNumber: number) => Fate

/** @example faultyStore(store, (method, n) => (method === 'commit' && n === 3 ? 'fail-after' : 'ok')) */
export function faultyStore(store: Store, decide: Decide): Store {
  let calls = 0
  const through = async <Result>(method: string, work: () => Result | Promise<Result>): Promise<Result> => {
    calls += 1
    const callNumber = calls
    const fate = decide(method, callNumber)
    if (fate === 'fail-before') throw lost(method, callNumber, 'it was not asked for')
    const result = await work()
    if (fate === 'fail-after') throw lost(method, callNumber, 'its answer was lost')
    return result
  }
  return {
    blobs: faultyBlobs(store.blobs, through),
    commit: (commits) => through('commit', () => store.commit(commits)),
    read: (timeline, after, bytesMax) => through('read', () => store.read(timeline, after, bytesMax)),
    head: (timelines) => through('head', () => store.head(timelines)),
    inbox: (timeline, limit) => through('inbox', () => store.inbox(timeline, limit)),
    claim: (request) => through('claim', () => store.claim(request)),
    feed: (after, filter, limit) => through('feed', () => store.feed(after, filter, limit)),
    timelines: (query) => through('timelines', () => store.timelines(query)),
    checkpoints: (timeline) => through('checkpoints', () => store.checkpoints(timeline)),
    cursors: () => through('cursors', () => store.cursors()),
    query: (query) => through('query', () => store.query(query)),
    workers: () => through('workers', () => store.workers()),
    beat: (worker) => through('beat', () => store.beat(worker)),
    retire: (workers) => through('retire', () => store.retire(workers)),
    listen: (wake) => store.listen(wake),
    sweepMark: (raiseTo) => through('sweepMark', () => store.sweepMark(raiseTo)),
    replace: (timeline, runs) => through('replace', () => store.replace(timeline, runs)),
    rewrite: (kind, change, after, limit) => through('rewrite', () => store.rewrite(kind, change, after, limit)),
    inspect: () => through('inspect', () => store.inspect()),
    facts: () => through('facts', () => store.facts()),
    tidy: (before, isThorough) => through('tidy', () => store.tidy(before, isThorough)),
    scrub: (isWhole) => through('scrub', () => store.scrub(isWhole)),
    close: () => through('close', () => store.close()),
  }
}

type Through = <Result>(method: string, work: () => Result | Promise<Result>) => Promise<Result>

function faultyBlobs(blobs: Blobs, through: Through): Blobs {
  return {
    put: (chunks, at) => through('blobs.put', () => blobs.put(chunks, at)),
    touch: (digests, at) => through('blobs.touch', () => blobs.touch(digests, at)),
    get: (digests) => through('blobs.get', () => blobs.get(digests)),
    ...(blobs.has && { has: (digests) => through('blobs.has', () => blobs.has!(digests)) }),
    list: (after, limit) => through('blobs.list', () => blobs.list(after, limit)),
    delete: (digests, touchedBefore) => through('blobs.delete', () => blobs.delete(digests, touchedBefore)),
    rewrite: (change, after, limit) => through('blobs.rewrite', () => blobs.rewrite(change, after, limit)),
  }
}

function lost(method: string, callNumber: number, what: string): RepriseError {
  return new RepriseError('STORE_IO', `${method} (call ${callNumber}) failed on purpose: ${what}`, {
    method,
    callNumber,
  })
}
