// The worker id under which the shards write their own timelines. It sends no heartbeats, so it owns nothing for long.

import type { Digest, WorkerId } from '../../core/coordinate.ts'

export const shardsWorker = '$shards' as WorkerId
/** The digest of a timeline without entries. */
export const noDigest = new Uint8Array(32) as Digest
