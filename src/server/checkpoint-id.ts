// The id of a checkpoint that was asked for with an Idempotency-Key: asked again, it is found in the catalog.

import { createHash } from 'node:crypto'

/** As long as the ids that the engine makes. */
export function checkpointId(principal: string, timeline: string, key: string): string {
  return createHash('sha256').update(`${principal}\n${timeline}\n${key}`).digest('hex').slice(0, 16)
}
