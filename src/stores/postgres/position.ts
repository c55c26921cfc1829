// Positions in the feed: pos-id, each with 16 digits, so that they compare as text (functions.ts writes the same in
// SQL).

import { type FeedPosition, feedStart } from '../../core/store/ports.ts'
import { notAPosition } from '../refusals.ts'

const pattern = /^(\d{16})-(\d{16})$/

export interface Place {
  readonly pos: number
  readonly id: number
}

/** @example toPosition({ pos: 812, id: 3 }) */
export function toPosition({ pos, id }: Place): FeedPosition {
  return [pos, id].map((part) => String(part).padStart(16, '0')).join('-')
}

export function fromPosition(position: FeedPosition): Place {
  if (position === feedStart) return { pos: -1, id: 0 }
  const parts = pattern.exec(position)
  if (!parts) throw notAPosition(position)
  return { pos: Number(parts[1]), id: Number(parts[2]) }
}
