// A second look. Tools read beside writers, and a head grows old while they do: what it promised may have been trimmed, or
// moved to an archive by a rollback. So damage counts only if it is still found with a head that is read anew.

import { isReprise } from '../../core/errors.ts'

const looksMax = 3

/** Calls again when history seems damaged or out of reach; `call` reads the head itself, each time. */
export async function retryWithFreshHead<T>(call: () => Promise<T>): Promise<T> {
  for (let look = 1; ; look++) {
    try {
      return await call()
    } catch (error) {
      if (look >= looksMax || !mayBeOld(error)) throw error
    }
  }
}

function mayBeOld(error: unknown): boolean {
  return isReprise(error, 'HISTORY_DAMAGED', 'UNRECOVERABLE', 'NOT_ON_BRANCH', 'OUT_OF_RANGE')
}
