// Positions in the feed: pos-tid-first, each 16 digits, so that they compare as text (functions.ts writes the same in SQL).

import { RepriseError } from '../../core/errors.ts'
import { type FeedPosition, feedStart } from '../../core/ports.ts'

const pattern = /^(\d{16})-(\d{16})-(\d{16})$/

export interface Place {
  readonly pos: number
  readonly tid: number
  readonly first: number
}

/** @example toPosition({ pos: 812, tid: 3, first: 1 }) */
export function toPosition({ pos, tid, first }: Place): FeedPosition {
  return [pos, tid, first].map((part) => String(part).padStart(16, '0')).join('-')
}

export function fromPosition(position: FeedPosition): Place {
  if (position === feedStart) return { pos: -1, tid: 0, first: 0 }
  const parts = pattern.exec(position)
  if (!parts)
    throw new RepriseError('INVALID_ARGUMENT', 'this is not a position in the feed of this store', { position })
  return { pos: Number(parts[1]), tid: Number(parts[2]), first: Number(parts[3]) }
}
