// The id of a checkpoint requested with an Idempotency-Key: a repeated request finds it in the catalog.

import { createHash } from 'node:crypto'

/** Has the length of the engine's own checkpoint ids. */
export function checkpointId(principal: string, timeline: string, key: string): string {
  return createHash('sha256').update(`${principal}\n${timeline}\n${key}`).digest('hex').slice(0, 16)
}
