// The base of every wrapper around a store or its chunks: methods that a wrapper does not define are forwarded. The lists
// below are the only place that names the methods of the ports, and they fail to compile when a port has another method: a
// wrapper cannot forget one.

import type { Blobs, RequestBox, Salvage, ShardSet, Store, Upkeep } from './ports.ts'

/** The names of the methods of a port, including optional ones. */
type MethodOf<Port> = {
  [Name in keyof Port]-?: NonNullable<Port[Name]> extends (...args: never) => unknown ? Name : never
}[keyof Port]

/** The members of a port that are not methods: other ports, and facts about the store. */
export type FieldOf<Port> = Exclude<keyof Port, MethodOf<Port>>

/** The synchronous methods: a promise from a wrapper would be taken as the result. */
export type SynchronousOf<Port> = {
  [Name in MethodOf<Port>]: NonNullable<Port[Name]> extends (...args: never) => infer Answer
    ? Extract<Answer, PromiseLike<unknown>> extends never
      ? Name
      : never
    : never
}[MethodOf<Port>]

/** How a method accesses stored data. `sweepMark` writes if it is given a mark; a synchronous method does neither. */
export type Access = 'reads' | 'writes' | 'neither'

export const storeMethods: Readonly<Record<MethodOf<Store>, Access>> = {
  commit: 'writes',
  read: 'reads',
  head: 'reads',
  past: 'reads',
  identity: 'writes',
  inbox: 'reads',
  claim: 'writes',
  nextDue: 'reads',
  feed: 'reads',
  timelines: 'reads',
  checkpoints: 'reads',
  cursors: 'reads',
  query: 'reads',
  workers: 'reads',
  beat: 'writes',
  retire: 'writes',
  listen: 'neither',
  sweepMark: 'writes',
  freeze: 'reads',
  close: 'neither',
}

export const upkeepMethods: Readonly<Record<MethodOf<Upkeep>, Access>> = {
  facts: 'reads',
  namespaces: 'reads',
  inspect: 'reads',
  rewrite: 'writes',
  replace: 'writes',
  mendCatalog: 'writes',
  hasCheckpoints: 'reads',
  consumed: 'reads',
  pasts: 'reads',
  recall: 'writes',
  mendPasts: 'writes',
  tidy: 'writes',
  scrub: 'writes',
}

export const salvageMethods: Readonly<Record<MethodOf<Salvage>, Access>> = {
  names: 'reads',
  legible: 'reads',
  losses: 'writes',
  renew: 'writes',
}

export const shardMethods: Readonly<Record<MethodOf<ShardSet>, Access>> = {
  placeOf: 'neither',
  aheadMs: 'neither',
  hasLostClaims: 'neither',
  moment: 'reads',
  headsInReach: 'reads',
  list: 'reads',
  grow: 'writes',
}

export const requestMethods: Readonly<Record<MethodOf<RequestBox>, Access>> = {
  place: 'reads',
  enlist: 'neither',
  take: 'writes',
  release: 'writes',
  list: 'reads',
  fill: 'writes',
  mark: 'writes',
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

// Simulations create wrappers by the thousand: the names are listed once.
const storeMethodNames = Object.keys(storeMethods)
const upkeepMethodNames = Object.keys(upkeepMethods)
const blobMethodNames = Object.keys(blobMethods)

/** @example forwardStore(store, { commit: (commits) => store.commit(commits.map(seal)) }) */
export function forwardStore(store: Store, own: Partial<Store>): Store {
  const { blobs, upkeep, shards, requests } = store
  const wrapper = { blobs, upkeep, shards, requests }
  // Read at each use: a store that is not open yet, or a set of shards that grows, has different values later.
  for (const name of ['lanes', 'countsCheckpoints'] as const) {
    if (!(name in own)) Object.defineProperty(wrapper, name, { get: () => store[name], enumerable: true })
  }
  return through(store, storeMethodNames, wrapper, own)
}

/** @example forwardStore(store, { upkeep: forwardUpkeep(store.upkeep, { scrub: async () => [] }) }) */
export function forwardUpkeep(upkeep: Upkeep, own: Partial<Upkeep>): Upkeep {
  return through(upkeep, upkeepMethodNames, { salvage: upkeep.salvage }, own)
}

/** @example forwardUpkeep(upkeep, { salvage: forwardSalvage(upkeep.salvage, { names: async () => [] }) }) */
export function forwardSalvage(salvage: Salvage, own: Partial<Salvage>): Salvage {
  return through(salvage, Object.keys(salvageMethods), {}, own)
}

/** @example forwardStore(store, { shards: store.shards && forwardShards(store.shards, { list: async () => [] }) }) */
export function forwardShards(shards: ShardSet, own: Partial<ShardSet>): ShardSet {
  return through(shards, Object.keys(shardMethods), {}, own)
}

/** @example forwardStore(store, { requests: store.requests && forwardRequests(store.requests, { list: async () => [] }) }) */
export function forwardRequests(requests: RequestBox, own: Partial<RequestBox>): RequestBox {
  return through(requests, Object.keys(requestMethods), { dialect: requests.dialect }, own)
}

/** @example forwardBlobs(blobs, { put: refuse }) */
export function forwardBlobs(blobs: Blobs, own: Partial<Blobs>): Blobs {
  const { batchBytes, isDurable } = blobs
  const facts = { ...(batchBytes !== undefined && { batchBytes }), ...(isDurable !== undefined && { isDurable }) }
  return through(blobs, blobMethodNames, facts, own)
}

type Call = (...args: readonly unknown[]) => unknown

/**
 * Replacements for the methods of all ports of a store, for `forwardStore`: `change` returns one for each method, or undefined to
 * keep it. The name of a method of chunks starts with 'blobs.', that of a method of requests with 'requests.'.
 * @example changeEach(store, (name, access) => (access === 'writes' ? refuse : undefined))
 */
export function changeEach(
  store: Store,
  change: (name: string, access: Access, call: Call) => Call | undefined,
): Pick<Store, 'blobs' | 'upkeep' | 'shards' | 'requests'> & Partial<Store> {
  const each = (port: object, methods: Readonly<Record<string, Access>>, prefix = '') => {
    const target = port as Record<string, Call | undefined>
    const found = Object.entries(methods).flatMap(([name, access]) => {
      if (target[name] === undefined) return []
      const changed = change(`${prefix}${name}`, access, (...args) => target[name]!(...args))
      return changed ? [[name, changed] as const] : []
    })
    return Object.fromEntries(found)
  }
  const { blobs, upkeep, shards, requests } = store
  const { salvage } = upkeep
  return {
    ...each(store, storeMethods),
    blobs: forwardBlobs(blobs, each(blobs, blobMethods, 'blobs.')),
    upkeep: forwardUpkeep(upkeep, {
      ...each(upkeep, upkeepMethods),
      salvage: salvage && forwardSalvage(salvage, each(salvage, salvageMethods)),
    }),
    shards: shards && forwardShards(shards, each(shards, shardMethods)),
    requests: requests && forwardRequests(requests, each(requests, requestMethods, 'requests.')),
  }
}

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
