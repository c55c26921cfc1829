// Waiting for a lock that another process holds, without blocking the event loop, up to a limit.

import { realTime, sleep } from '../../../lib/waiting.ts'
import { isBusy } from './failure.ts'

const firstPauseMs = 2
const longestPauseMs = 50

/** Retries while busy; after `busyMs`, throws the last error. */
export async function retryBusy<Result>(busyMs: number, work: () => Result): Promise<Result> {
  const end = performance.now() + busyMs
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
    try {
      return work()
    } catch (error) {
      if (!isBusy(error) || performance.now() >= end) throw error
    }
    await sleep(realTime, pauseMs)
  }
}
