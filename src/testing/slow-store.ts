// A store with injected delays: before a call reaches it, or before its answer returns. A program must not depend on the
// changes that others make meanwhile (docs/decisions/order-of-facts.md).

import type { Store } from '../core/store/ports.ts'
import { changeEach, forwardStore } from '../core/store/store-wrapper.ts'

/** `before`: delays the request; `after`: delays the answer. Undefined: no delay. */
export type Slowness = (method: string, when: 'before' | 'after') => Promise<unknown> | undefined

/** @example slowStore(store, (method) => (method === 'inbox' ? setTimeout(200) : undefined)) */
export function slowStore(store: Store, wait: Slowness): Store {
  return forwardStore(
    store,
    changeEach(store, (name, access, call) => {
      if (access === 'neither' || name.startsWith('blobs.')) return undefined
      return async (...args) => {
        await wait(name, 'before')
        const answer = await call(...args)
        await wait(name, 'after')
        return answer
      }
    }),
  )
}
