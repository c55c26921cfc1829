// What is refused because the store is away for a moment, or because the process was taken for dead, is asked for again.

import { setTimeout as pause } from 'node:timers/promises'

const passing = new Set([
  ...['OUTCOME_UNKNOWN', 'STORE_UNREACHABLE', 'STORE_BUSY', 'TIMEOUT', 'CONTENDED', 'OWNED', 'FENCED', 'INTERRUPTED'],
])

/** Without an end: a store that does not come back shows in the soak's windows. */
export async function again(work, tell = () => undefined) {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!passing.has(error.code)) throw error
      tell(error)
      await pause(200)
    }
  }
}
