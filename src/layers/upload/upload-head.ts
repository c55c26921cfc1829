// The head of an upload's timeline: its status, its wakeup, and its queue.

import { RepriseError } from '../../core/errors.ts'
import type { UploadState } from './rules/state.ts'

/** The newest checkpoint, and the one before it as a fallback. */
export const retention = { checkpoints: 2 } as const

export function queueOf(timeline: string): string {
  const [, name] = timeline.split('/')
  if (!name) throw new RepriseError('BUG', `${timeline} is not an upload`)
  return `upload/${name}`
}

/** A wakeup of 0 means now. */
export function headOf({ status, offset, length, expiresAt }: UploadState) {
  const isDue = status === 'received' || status === 'starting'
  return { status, wakeup: isDue ? 0 : expiresAt, attributes: { offset, length } }
}
