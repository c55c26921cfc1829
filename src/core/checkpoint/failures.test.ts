import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  beginObserving,
  decodeFailures,
  encodeFailures,
  failureEveryMs,
  observeReleasing,
  observeTaking,
} from './failures.ts'

const day = 86_400_000

test('a release is no failure, a death is, a takeover of a live owner is not', () => {
  let seen = beginObserving(0)
  seen = observeTaking(observeReleasing(seen, 1), { epoch: 1, isOwnerAlive: false }, 1)
  expect(seen.failures).toBe(0)
  seen = observeTaking(seen, { epoch: 2, isOwnerAlive: false }, 2)
  expect(seen.failures).toBe(1)
  seen = observeTaking(seen, { epoch: 3, isOwnerAlive: true }, 3)
  expect(seen.failures).toBe(1)
  expect(observeTaking(beginObserving(0), { epoch: 0, isOwnerAlive: false }, 1).failures).toBe(0)
})

test('the mean converges to the observed value, starting from one failure per day', () => {
  expect(failureEveryMs(beginObserving(5), 5)).toBe(day)
  for (const everyMs of [60_000, 3_600_000, 2 * day]) {
    let seen = beginObserving(0)
    let now = 0
    for (let n = 1; n <= 400; n++) {
      now += everyMs
      seen = observeTaking(seen, { epoch: n, isOwnerAlive: false }, now)
    }
    // After few failures in a short time, the assumed failure per day still has weight.
    expect(failureEveryMs(seen, now)).toBeGreaterThan(everyMs * 0.8)
    expect(failureEveryMs(seen, now)).toBeLessThan(everyMs * 1.2 + day / 400)
  }
})

test('a machine that became better is believed within months', () => {
  let seen = { ...beginObserving(0), failures: 720 }
  let now = 30 * day
  expect(failureEveryMs(seen, now)).toBeCloseTo(3_600_000, -6)
  for (let month = 0; month < 6; month++) {
    now += 30 * day
    seen = observeTaking(observeReleasing(seen, 1), { epoch: 1, isOwnerAlive: false }, now)
  }
  expect(failureEveryMs(seen, now)).toBeGreaterThan(day)
})

test('stored as text it is restored, and other text is ignored', () => {
  fc.assert(
    fc.property(fc.nat(5000), fc.nat(), fc.option(fc.nat()), (failures, since, releasedEpoch) => {
      const seen = { failures, since, releasedEpoch }
      expect(decodeFailures(encodeFailures(seen))).toEqual(seen)
    }),
  )
  for (const text of [undefined, '', '[', '{}', '[1]', '[-1,2,null]', '["a",1,null]']) {
    expect(decodeFailures(text)).toBeNull()
  }
})
