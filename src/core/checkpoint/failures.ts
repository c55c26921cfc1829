// How often the owner of a timeline died, as observed: each takeover from an owner that did not release the timeline counts.
// The counts are stored with the timeline. Few events prove little, so one assumed failure per day is mixed in; old events
// have half the weight, so that last year's unreliable machine does not cause extra checkpoints today.

const dayMs = 86_400_000
/** One failure in this time is assumed before any was observed. */
const priorMs = dayMs
/** After this time all earlier observations have half the weight. */
const halvedAfterMs = 30 * dayMs

export interface ObservedFailures {
  readonly failures: number
  /** Start of the observation, in ms since 1970, by the store's clock. */
  readonly since: number
  /** The epoch whose owner released the timeline, so that its end was not a failure; null: none yet. */
  readonly releasedEpoch: number | null
}

export function beginObserving(now: number): ObservedFailures {
  return { failures: 0, since: now, releasedEpoch: null }
}

/** Observes a takeover from the owner of `before.epoch`. A live owner (overruled, or writing in turns) is not a failure. */
export function observeTaking(
  known: ObservedFailures,
  before: { readonly epoch: number; readonly isOwnerAlive: boolean },
  now: number,
): ObservedFailures {
  const { failures, since } = halved(known, now)
  const isFailure = before.epoch > 0 && before.epoch !== known.releasedEpoch && !before.isOwnerAlive
  return { failures: failures + (isFailure ? 1 : 0), since, releasedEpoch: known.releasedEpoch }
}

export function observeReleasing(known: ObservedFailures, epoch: number): ObservedFailures {
  return { ...known, releasedEpoch: epoch }
}

/** Mean time between failures, including the assumed one. */
export function failureEveryMs({ failures, since }: ObservedFailures, now: number): number {
  return (Math.max(0, now - since) + priorMs) / (failures + 1)
}

export function encodeFailures({ failures, since, releasedEpoch }: ObservedFailures): string {
  return JSON.stringify([Number(failures.toPrecision(4)), since, releasedEpoch])
}

export function decodeFailures(text: unknown): ObservedFailures | null {
  if (typeof text !== 'string') return null
  try {
    const value: unknown = JSON.parse(text)
    if (!Array.isArray(value)) return null
    const [failures, since, releasedEpoch = null] = value as unknown[]
    if (!isCount(failures) || !isCount(since) || !(releasedEpoch === null || isCount(releasedEpoch))) return null
    return { failures, since, releasedEpoch }
  } catch {
    return null
  }
}

function halved(known: ObservedFailures, now: number): ObservedFailures {
  const ms = now - known.since
  if (ms < halvedAfterMs) return known
  return { ...known, failures: known.failures / 2, since: now - ms / 2 }
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}
