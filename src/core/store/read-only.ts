// A read-only store: every write is refused before anything is sent.

import { RepriseError } from '../errors.ts'
import type { Store } from './ports.ts'
import { changeEach, forwardStore } from './store-wrapper.ts'

/** @example refuseWrites(openMemory({ namespace: 'shop', hash })) */
export function refuseWrites(store: Store): Store {
  const refuse = () => Promise.reject(new RepriseError('STORE_READ_ONLY', 'the store was opened with readOnly'))
  return forwardStore(store, {
    ...changeEach(store, (name, access) => {
      if (name === 'facts') return () => store.upkeep.facts().then((facts) => ({ ...facts, isReadOnly: true }))
      return access === 'writes' ? refuse : undefined
    }),
    sweepMark: (raiseTo) => (raiseTo === undefined ? store.sweepMark() : refuse()),
    identity: (proposed) => (proposed === undefined ? store.identity() : refuse()),
  })
}
