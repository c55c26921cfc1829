// The base of every wrapper around a store or its chunks: methods that a wrapper does not define are forwarded. The lists
// below are the only place that names the methods of the ports, and they fail to compile when a port has another method: a
// wrapper cannot forget one.

import type { Blobs, Store } from './ports.ts'

/** The names of the methods of a port, including optional ones. */
type MethodOf<Port> = {
  [Name in keyof Port]-?: NonNullable<Port[Name]> extends (...args: never) => unknown ? Name : never
}[keyof Port]

/** The synchronous methods: a promise from a wrapper would be mistaken for the result. */
export type SynchronousOf<Port> = {
  [Name in MethodOf<Port>]: NonNullable<Port[Name]> extends (...args: never) => infer Answer
    ? Extract<Answer, PromiseLike<unknown>> extends never
      ? Name
      : never
    : never
}[MethodOf<Port>]

/** How a method accesses stored data. `sweepMark` writes if it is given a mark; `listen` and `close` do neither. */
export type Access = 'reads' | 'writes' | 'neither'

export const storeMethods: Readonly<Record<MethodOf<Store>, Access>> = {
  commit: 'writes',
  read: 'reads',
  head: 'reads',
  moment: 'reads',
  headsInReach: 'reads',
  past: 'reads',
  pasts: 'reads',
  recall: 'writes',
  identity: 'writes',
  namespaces: 'reads',
  inbox: 'reads',
  consumed: 'reads',
  claim: 'writes',
  hasLostClaims: 'neither',
  placeOf: 'neither',
  aheadMs: 'neither',
  feed: 'reads',
  timelines: 'reads',
  checkpoints: 'reads',
  hasCheckpoints: 'reads',
  cursors: 'reads',
  query: 'reads',
  workers: 'reads',
  beat: 'writes',
  retire: 'writes',
  listen: 'neither',
  sweepMark: 'writes',
  rewrite: 'writes',
  replace: 'writes',
  mendCatalog: 'writes',
  inspect: 'reads',
  names: 'reads',
  legible: 'reads',
  renew: 'writes',
  losses: 'writes',
  shards: 'reads',
  grow: 'writes',
  facts: 'reads',
  tidy: 'writes',
  scrub: 'writes',
  close: 'neither',
}

export const blobMethods: Readonly<Record<MethodOf<Blobs>, Access>> = {
  put: 'writes',
  touch: 'writes',
  get: 'reads',
  has: 'reads',
  list: 'reads',
  delete: 'writes',
  rewrite: 'writes',
  compact: 'writes',
  mend: 'writes',
  of: 'neither',
}

/** The fields of a store beside its methods. */
const storeFacts: Readonly<Record<Exclude<keyof Store, MethodOf<Store> | 'blobs'>, true>> = {
  lanes: true,
  guardsMail: true,
  countsCheckpoints: true,
}

// Simulations create wrappers by the thousand: the names are listed once.
const storeMethodNames = Object.keys(storeMethods)
const blobMethodNames = Object.keys(blobMethods)
const storeFactNames = Object.keys(storeFacts) as (keyof typeof storeFacts)[]

/** @example forwardStore(store, { commit: (commits) => store.commit(commits.map(seal)) }) */
export function forwardStore(store: Store, own: Partial<Store>): Store {
  const wrapper: Record<string, unknown> = { blobs: store.blobs }
  for (const name of storeFactNames) if (store[name] !== undefined) wrapper[name] = store[name]
  return through(store, storeMethodNames, wrapper, own)
}

/** @example forwardBlobs(blobs, { put: refuse }) */
export function forwardBlobs(blobs: Blobs, own: Partial<Blobs>): Blobs {
  const { batchBytes, isDurable } = blobs
  const facts = { ...(batchBytes !== undefined && { batchBytes }), ...(isDurable !== undefined && { isDurable }) }
  return through(blobs, blobMethodNames, facts, own)
}

type Call = (...args: readonly unknown[]) => unknown

/** Looks up the method at each call: it may be replaced on the wrapped port. Optional methods that are absent stay absent. */
function through<Port extends object>(
  port: Port,
  names: readonly string[],
  wrapper: Record<string, unknown>,
  own: Partial<Port>,
): Port {
  const target = port as Record<string, Call | undefined>
  for (const name of names) {
    if (target[name] !== undefined && !(name in own)) wrapper[name] = (...args: unknown[]) => target[name]!(...args)
  }
  return Object.assign(wrapper, own) as Port
}
