// The worker under whose name the shards write what they keep about themselves. It never beats, so it owns nothing for long.

import type { Digest, WorkerId } from '../../core/coordinate.ts'

export const shardsWorker = '$shards' as WorkerId
/** Of a timeline without entries. */
export const noDigest = new Uint8Array(32) as Digest
