// Positions of a feed that is numbered: 16 digits, so that they sort like their numbers.

import { type FeedPosition, feedStart } from '../core/store/ports.ts'
import { notAPosition } from './refusals.ts'

export function toPosition(number: number): FeedPosition {
  return String(number).padStart(16, '0')
}

export function fromPosition(position: FeedPosition): number {
  if (position === feedStart) return 0
  if (!/^\d{16}$/.test(position)) throw notAPosition(position)
  return Number(position)
}
