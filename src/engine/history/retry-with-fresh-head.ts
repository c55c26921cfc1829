// Retries a read with a fresh head. Tools read concurrently with writers, and their head becomes outdated: history may
// be trimmed meanwhile, or archived by a rollback. Damage is reported only if it is still found with a fresh head.

import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Head, Store } from '../../core/store/ports.ts'

const looksMax = 3

/** Retries when history seems damaged or unavailable; `call` must read the head itself each time. */
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
  if (isReprise(error, 'NOT_FOUND')) return error.data.wasDeleted === true
  return isReprise(error, 'HISTORY_DAMAGED', 'UNRECOVERABLE', 'NOT_ON_BRANCH', 'OUT_OF_RANGE')
}

/**
 * The error of a read that found less than `head` promises. It is damage only if the head is unchanged: a timeline
 * deleted meanwhile is NOT_FOUND, one that was rolled back or trimmed has its own codes. This applies to every store,
 * because even a store with one snapshot per read has no common snapshot for two reads.
 */
export async function reasonOf({ store }: { readonly store: Store }, head: Head, error: unknown): Promise<unknown> {
  if (!isReprise(error, 'HISTORY_DAMAGED', 'UNRECOVERABLE', 'STORE_DAMAGED')) return error
  const { timeline, life, seq, floor } = head
  const [now] = await store.head([timeline]).catch(() => [head])
  if (!now || now.life !== life) {
    const what = `${timeline} was deleted while it was read${now ? ', and made again' : ''}`
    return new RepriseError('NOT_FOUND', what, { timeline, life, wasDeleted: true }, error)
  }
  if (now.epoch !== head.epoch && now.seq < seq) {
    const what = `${timeline} was rolled back to ${now.seq} while it was read up to ${seq}`
    return new RepriseError('NOT_ON_BRANCH', what, { timeline, seq }, error)
  }
  if (now.floor > floor) {
    const what = `${timeline} was trimmed up to ${now.floor} while it was read`
    return new RepriseError('OUT_OF_RANGE', what, { timeline, floor: now.floor, head: now.seq }, error)
  }
  return error
}
