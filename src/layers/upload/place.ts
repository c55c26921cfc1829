// What the head of an upload's timeline says: its status, when it is to be looked at, and in which queue.

import { RepriseError } from '../../core/errors.ts'
import type { UploadState } from './rules/state.ts'

/** The newest, and the one before it to fall back to. */
export const retention = { checkpoints: 2 } as const

export function queueOf(timeline: string): string {
  const [, name] = timeline.split('/')
  if (!name) throw new RepriseError('BUG', `${timeline} is no upload`)
  return `upload/${name}`
}

/** A wakeup of 0 is now. */
export function headOf({ status, offset, length, expiresAt }: UploadState) {
  const isDue = status === 'received' || status === 'starting'
  return { status, wakeup: isDue ? 0 : expiresAt, attributes: { offset, length } }
}
