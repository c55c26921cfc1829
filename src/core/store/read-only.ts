// A read-only store: every write is refused before anything is sent.

import { RepriseError } from '../errors.ts'
import { type Access, blobMethods, forwardBlobs, forwardStore, storeMethods } from './forward.ts'
import type { Store } from './ports.ts'

/** @example refuseWrites(openMemory({ namespace: 'shop', hash })) */
export function refuseWrites(store: Store): Store {
  const refuse = () =>
    Promise.reject(new RepriseError('STORE_READ_ONLY', 'the store was opened with readOnly and does not write'))
  const refuseEach = (port: object, methods: Readonly<Record<string, Access>>) => {
    const writing = Object.entries(methods).filter(([name, access]) => access === 'writes' && name in port)
    return Object.fromEntries(writing.map(([name]) => [name, refuse]))
  }
  return forwardStore(store, {
    ...refuseEach(store, storeMethods),
    blobs: forwardBlobs(store.blobs, refuseEach(store.blobs, blobMethods)),
    sweepMark: (raiseTo) => (raiseTo === undefined ? store.sweepMark() : refuse()),
    facts: () => store.facts().then((facts) => ({ ...facts, isReadOnly: true })),
  })
}
