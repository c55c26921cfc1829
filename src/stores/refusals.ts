// Refusals that all stores share, in the same words. The refusals of a commit are in core/commit; PostgreSQL's function in the
// server uses the same words, and the random histories of the conformance suite compare them.

import type { WorkerId } from '../core/coordinate.ts'
import { RepriseError } from '../core/errors.ts'
import type { FeedPosition } from '../core/store/ports.ts'

/** A position that this feed has not reached: it was read from a copy of the store that is no longer current. */
export function positionGone(position: FeedPosition, end: FeedPosition): RepriseError {
  const what = `position ${position} is beyond the end of the feed (${end}): the store was replaced by an older copy`
  return new RepriseError('POSITION_GONE', what, { position, end })
}

/** Text that is not a position of a feed of this store. */
export function notAPosition(position: FeedPosition): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', 'this is not a position in the feed of this store', { position })
}

/** A claim of a worker that was declared dead. */
export function workerRetired(worker: WorkerId): RepriseError {
  return new RepriseError('WORKER_RETIRED', `worker ${worker} was declared dead`, { worker })
}
