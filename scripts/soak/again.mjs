// Repeats a request that was refused because the store was briefly unreachable, or because the process was declared dead.

import { setTimeout as pause } from 'node:timers/promises'

const passing = new Set([
  ...['OUTCOME_UNKNOWN', 'STORE_UNREACHABLE', 'STORE_BUSY', 'TIMEOUT', 'CONTENDED', 'OWNED', 'FENCED', 'INTERRUPTED'],
])

/** Without an end: a store that stays away shows in the soak's windows. */
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
