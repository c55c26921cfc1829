// The id of a checkpoint requested with an Idempotency-Key.

import { historyMark, keyedCheckpointId } from '../core/identity.ts'
import type { Head } from '../core/store/ports.ts'
import { hostOf } from '../engine/host/host.ts'
import type { Call } from './route.ts'

/** Undefined: the request has no key. */
export async function checkpointIdOf({ engine, principal, key }: Call, head: Head): Promise<string | undefined> {
  if (key === undefined) return undefined
  const { identity, hash } = hostOf(engine)
  const mark = historyMark(hash, await identity.current(), [identity.origin(head)])
  return keyedCheckpointId(hash, mark, principal.name, key)
}
