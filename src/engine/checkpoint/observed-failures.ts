// The failures of a timeline's owners, stored with it for `failureEvery: 'observed'`: the next owner counts them in the
// commit that takes the timeline. An owner that releases it records that in the releasing commit, so its end is not a
// failure.

import type { CheckpointPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import {
  beginObserving,
  decodeFailures,
  encodeFailures,
  failureEveryMs,
  observeReleasing,
  observeTaking,
} from '../../core/checkpoint/failures.ts'
import type { Attribute, Head } from '../../core/store/ports.ts'

const failuresAttribute = '$failures'

type Attributes = Readonly<Record<string, Attribute>>

/** The attributes to write with a take. `isClaimed`: the head was read after a claim, which had raised its epoch already. */
export function onTake(
  policy: CheckpointPolicy | undefined,
  head: Pick<Head, 'epoch' | 'isOwnerAlive' | 'attributes'> | null,
  now: number,
  isClaimed: boolean,
): Attributes | null {
  if (policy?.failureEvery !== 'observed') return null
  const known = head && decodeFailures(head.attributes[failuresAttribute])
  if (!known) return { [failuresAttribute]: encodeFailures(beginObserving(now)) }
  const before = isClaimed ? { epoch: head.epoch - 1, isOwnerAlive: false } : head
  const text = encodeFailures(observeTaking(known, before, now))
  return text === head.attributes[failuresAttribute] ? null : { [failuresAttribute]: text }
}

/** The attributes to write with a release. */
export function onRelease(
  policy: CheckpointPolicy | undefined,
  attributes: Attributes,
  epoch: number,
  now: number,
): Attributes | null {
  if (policy?.failureEvery !== 'observed') return null
  const known = decodeFailures(attributes[failuresAttribute]) ?? beginObserving(now)
  return { [failuresAttribute]: encodeFailures(observeReleasing(known, epoch)) }
}

/** The observed mean time between failures; null if the policy does not use it. */
export function observedMs(policy: CheckpointPolicy, attributes: Attributes, now: number): number | null {
  if (policy.failureEvery !== 'observed') return null
  return failureEveryMs(decodeFailures(attributes[failuresAttribute]) ?? beginObserving(now), now)
}
