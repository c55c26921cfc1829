// Calls every method of the port on every wrapper of a store: the call must reach the wrapped store unchanged, or be refused
// by a read-only store. The list of methods is compared with that of a real store.

import { expect, it } from 'vitest'
import { withRedundancy } from '../../engine/storage/redundancy/store.ts'
import { Sealer } from '../../engine/storage/seal/seal.ts'
import { sealedStore } from '../../engine/storage/seal/store.ts'
import { openMemory } from '../../stores/memory/index.ts'
import { faultyStore } from '../../testing/faulty-store.ts'
import { slowStore } from '../../testing/slow-store.ts'
import { defaultLimits } from '../limits.ts'
import type { Blobs, Store } from './ports.ts'
import { refuseWrites } from './read-only.ts'
import {
  blobMethods,
  changeEach,
  forwardBlobs,
  forwardStore,
  requestMethods,
  salvageMethods,
  shardMethods,
  storeMethods,
  upkeepMethods,
} from './store-wrapper.ts'

type Call = (...args: readonly unknown[]) => unknown

/** Notes the calls on itself, so that a wrapper that loses `this` is detected. */
class Noting {
  readonly asked: string[] = []

  static of(methods: Readonly<Record<string, unknown>>, facts: object = {}): Noting & Record<string, Call> {
    class Port extends Noting {}
    for (const name of Object.keys(methods)) {
      Object.defineProperty(Port.prototype, name, {
        writable: true,
        value(this: Noting, ...args: readonly unknown[]) {
          this.asked.push(`${name} ${args.length}`)
          return name === 'listen' ? () => undefined : Promise.resolve(name === 'feed' ? { items: [] } : [])
        },
      })
    }
    return Object.assign(new Port(), facts) as Noting & Record<string, Call>
  }
}

/** A store of which every port notes its calls. */
function noting() {
  const salvage = Noting.of(salvageMethods)
  const upkeep = Noting.of(upkeepMethods, { salvage })
  const shards = Noting.of(shardMethods)
  const requests = Noting.of(requestMethods)
  const blobs = Noting.of(blobMethods)
  const store = Noting.of(storeMethods, { blobs, upkeep, shards, requests, lanes: 3, countsCheckpoints: true })
  return { store, upkeep, salvage, shards, requests, blobs }
}

const methods = {
  store: storeMethods,
  upkeep: upkeepMethods,
  salvage: salvageMethods,
  shards: shardMethods,
  requests: requestMethods,
  blobs: blobMethods,
}
type PortName = keyof typeof methods
const portNames = Object.keys(methods) as PortName[]

function portsOf(store: Store): Readonly<Record<PortName, Record<string, Call>>> {
  const { upkeep, shards, requests, blobs } = store
  return { store, upkeep, salvage: upkeep.salvage, shards, requests, blobs } as never
}

async function callEach(port: Record<string, Call>, names: object): Promise<void> {
  for (const name of Object.keys(names)) await port[name]!(...args)
}

const sealer = new Sealer({ limits: defaultLimits })
const wrappers: readonly [string, (store: Store) => Store][] = [
  ['forwardStore', (store) => forwardStore(store, { blobs: forwardBlobs(store.blobs, {}) })],
  [
    'changeEach',
    (store) =>
      forwardStore(
        store,
        changeEach(store, () => undefined),
      ),
  ],
  ['sealedStore', (store) => sealedStore(store, sealer)],
  ['faultyStore', (store) => faultyStore(store, () => 'ok')],
  ['slowStore', (store) => slowStore(store, () => undefined)],
]
/** Enough arguments for every method, so that a wrapper that drops the last one is detected. */
const args = [[], [], [], []]

it.each(wrappers)('%s lets every method of the ports through, with all it was given', async (_, wrap) => {
  const noted = noting()
  const wrapped = wrap(noted.store as unknown as Store)
  for (const name of portNames) {
    await callEach(portsOf(wrapped)[name], methods[name])
    expect(noted[name].asked.map((each) => each.split(' ')[0])).toEqual(Object.keys(methods[name]))
  }
  expect(wrapped.countsCheckpoints).toBe(true)
})

it('withRedundancy lets every method of a store through that is not a plain object', async () => {
  const { store } = noting()
  const quiet = { chunk: () => undefined, line: () => undefined }
  const wrapped = withRedundancy(store as unknown as Store, () => new Uint8Array(32), quiet)
  await callEach(wrapped as unknown as Record<string, Call>, storeMethods)
  expect(store.asked.map((each) => each.split(' ')[0])).toEqual(Object.keys(storeMethods))
  expect([wrapped.lanes, wrapped.countsCheckpoints]).toEqual([3, true])
  expect([wrapped.upkeep, wrapped.shards]).toEqual([store.upkeep, store.shards])
})

it('a store that is only read refuses what writes, and lets the rest through', async () => {
  const noted = noting()
  const wrapped = portsOf(refuseWrites(noted.store as unknown as Store))
  for (const port of portNames) {
    for (const [name, access] of Object.entries(methods[port])) {
      const asked = Promise.resolve(wrapped[port][name]!(...args))
      if (access === 'writes') await expect(asked, name).rejects.toMatchObject({ code: 'STORE_READ_ONLY' })
      else await asked
    }
    const isWrite = (each: string) => (methods[port] as Record<string, string>)[each.split(' ')[0]!] === 'writes'
    expect(noted[port].asked.filter(isWrite)).toEqual([])
  }
})

it('an optional member of a port stays absent, and a method that is replaced later is the called one', async () => {
  const { has: _, mend: __, ...methods } = blobMethods
  const blobs = Noting.of(methods)
  const wrapped: Blobs = forwardBlobs(blobs as unknown as Blobs, {})
  expect('has' in wrapped || 'mend' in wrapped).toBe(false)
  const readOnly = refuseWrites(Object.assign(noting().store, { blobs }) as unknown as Store)
  expect('has' in readOnly.blobs || 'mend' in readOnly.blobs).toBe(false)
  blobs.get = () => Promise.resolve(['other'])
  expect(await wrapped.get([])).toEqual(['other'])
})

it('a real store has the methods of the lists', () => {
  const store = openMemory({ namespace: 'list', hash: () => new Uint8Array(32) })
  const ports = portsOf(store)
  for (const port of ['store', 'upkeep'] as const) {
    for (const name of Object.keys(methods[port])) expect(typeof ports[port][name], name).toBe('function')
  }
})
