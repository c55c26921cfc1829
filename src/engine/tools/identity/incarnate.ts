// For a database that went back to an earlier state by other means than Reprise's own (a restored dump or snapshot, a failover
// to a lagging replica, an older copy of a file): every namespace in it begins a new incarnation, so that earlier positions and
// revisions are refused.

import type { Store } from '../../../core/store/ports.ts'
import { sha256, systemRandom } from '../../base/platform.ts'
import { acceptPutBack, openStore, type StoreOptions } from '../../storage/open-store.ts'
import { Identity } from '../../storage/store-identity.ts'

export interface Incarnated {
  readonly namespace: string
  /** The id of the store, which does not change. */
  readonly store: string
  readonly incarnation: string
  readonly era: number
}

/** @example await incarnate('postgres://localhost/app') */
export async function incarnate(url: string): Promise<Incarnated[]> {
  const begin = async (store: Store, namespace: string) => {
    const identity = new Identity({ store, namespace, hash: sha256, random: systemRandom })
    const { id, incarnation, era } = await identity.reincarnate()
    return { namespace, store: id, incarnation, era }
  }
  // The call is a person's word that the store may lack acknowledged entries. Other processes refuse it until the last namespace
  // has its incarnation.
  const done = await inEachNamespace(url, begin, { isPutBack: true })
  await acceptPutBack(url)
  return done
}

/** Calls `work` for one namespace after another. Also works on a single shard. */
export async function inEachNamespace<T>(
  url: string,
  work: (store: Store, namespace: string) => Promise<T>,
  options: Pick<StoreOptions, 'isPutBack'> = {},
): Promise<T[]> {
  const first = await openStore(url, { mayBeShard: true, ...options })
  const names = await first.upkeep.namespaces().finally(() => first.close())
  const done: T[] = []
  for (const namespace of names) {
    const store = await openStore(url, { namespace, mayBeShard: true, ...options })
    try {
      done.push(await work(store, namespace))
    } finally {
      await store.close()
    }
  }
  return done
}
