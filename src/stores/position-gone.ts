// A position that this feed has not reached: it was read from a copy of the store that is no longer the one that is up.

import { RepriseError } from '../core/errors.ts'
import type { FeedPosition } from '../core/ports.ts'

export function positionGone(position: FeedPosition, end: FeedPosition): RepriseError {
  const what = `position ${position} is beyond the end of the feed (${end}): the store went back to an older copy`
  return new RepriseError('POSITION_GONE', what, { position, end })
}
