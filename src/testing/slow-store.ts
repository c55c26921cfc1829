// A store with injected delays: before a call reaches it, or before its answer returns. A program must not depend on the
// changes that others make meanwhile (docs/decisions/order-of-facts.md).

import { storeMethods } from '../core/store/forward.ts'
import type { Store } from '../core/store/ports.ts'

/** `before`: delays the request; `after`: delays the answer. Undefined: no delay. */
export type Slowness = (method: string, when: 'before' | 'after') => Promise<unknown> | undefined

/** @example slowStore(store, (method) => (method === 'inbox' ? setTimeout(200) : undefined)) */
export function slowStore(store: Store, wait: Slowness): Store {
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      if (storeMethods[name as keyof typeof storeMethods] === 'neither') return member.bind(target)
      const method = String(name)
      return async (...args: unknown[]) => {
        await wait(method, 'before')
        const answer = await (member as (...args: unknown[]) => unknown).apply(target, args)
        await wait(method, 'after')
        return answer
      }
    },
  })
}
