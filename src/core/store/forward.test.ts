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
import { blobMethods, forwardBlobs, forwardStore, storeMethods } from './forward.ts'
import type { Blobs, Store } from './ports.ts'
import { refuseWrites } from './read-only.ts'

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

const sealer = new Sealer({ limits: defaultLimits })
const wrappers: readonly [string, (store: Store) => Store][] = [
  ['forwardStore', (store) => forwardStore(store, { blobs: forwardBlobs(store.blobs, {}) })],
  ['sealedStore', (store) => sealedStore(store, sealer)],
  ['faultyStore', (store) => faultyStore(store, () => 'ok')],
  ['slowStore', (store) => slowStore(store, () => undefined)],
]
/** Enough arguments for every method, so that a wrapper that drops the last one is detected. */
const args = [[], [], [], []]

it.each(wrappers)('%s lets every method of the port through, with all it was given', async (_, wrap) => {
  const blobs = Noting.of(blobMethods)
  const store = Noting.of(storeMethods, { blobs, lanes: 3, countsCheckpoints: true })
  const wrapped = wrap(store as unknown as Store)
  for (const name of Object.keys(storeMethods)) await (wrapped as unknown as Record<string, Call>)[name]!(...args)
  for (const name of Object.keys(blobMethods)) await (wrapped.blobs as unknown as Record<string, Call>)[name]!(...args)
  expect(store.asked.map((each) => each.split(' ')[0])).toEqual(Object.keys(storeMethods))
  expect(blobs.asked.map((each) => each.split(' ')[0])).toEqual(Object.keys(blobMethods))
  expect(wrapped.countsCheckpoints).toBe(true)
})

it('withRedundancy lets every method of a store through that is not a plain object', async () => {
  const store = Noting.of(storeMethods, { blobs: Noting.of(blobMethods), lanes: 3, countsCheckpoints: true })
  const quiet = { chunk: () => undefined, line: () => undefined }
  const wrapped = withRedundancy(store as unknown as Store, () => new Uint8Array(32), quiet)
  for (const name of Object.keys(storeMethods)) await (wrapped as unknown as Record<string, Call>)[name]!(...args)
  expect(store.asked.map((each) => each.split(' ')[0])).toEqual(Object.keys(storeMethods))
  expect([wrapped.lanes, wrapped.countsCheckpoints]).toEqual([3, true])
})

it('a store that is only read refuses what writes, and lets the rest through', async () => {
  const blobs = Noting.of(blobMethods)
  const store = Noting.of(storeMethods, { blobs })
  const wrapped = refuseWrites(store as unknown as Store)
  for (const [methods, port] of [
    [storeMethods, wrapped],
    [blobMethods, wrapped.blobs],
  ] as const) {
    for (const [name, access] of Object.entries(methods)) {
      const asked = Promise.resolve((port as unknown as Record<string, Call>)[name]!(...args))
      if (access === 'writes') await expect(asked, name).rejects.toMatchObject({ code: 'STORE_READ_ONLY' })
      else await asked
    }
  }
  const isWrite = (each: string) => ({ ...storeMethods, ...blobMethods })[each.split(' ')[0] as 'commit'] === 'writes'
  expect([...store.asked, ...blobs.asked].filter(isWrite)).toEqual([])
})

it('what a port may lack stays away, and a method that is replaced later is the one that is called', async () => {
  const { has: _, mend: __, ...methods } = blobMethods
  const blobs = Noting.of(methods)
  const wrapped: Blobs = forwardBlobs(blobs as unknown as Blobs, {})
  expect('has' in wrapped || 'mend' in wrapped).toBe(false)
  const readOnly = refuseWrites(Noting.of(storeMethods, { blobs }) as unknown as Store)
  expect('has' in readOnly.blobs || 'mend' in readOnly.blobs).toBe(false)
  blobs.get = () => Promise.resolve(['other'])
  expect(await wrapped.get([])).toEqual(['other'])
})

it('a real store has the methods of the list', () => {
  const store = openMemory({ namespace: 'list', hash: () => new Uint8Array(32) }) as unknown as Record<string, unknown>
  const mayLack = [
    'aheadMs',
    'names',
    'renew',
    'losses',
    'legible',
    'moment',
    'headsInReach',
    'hasLostClaims',
    'placeOf',
    'shards',
    'grow',
  ]
  for (const name of Object.keys(storeMethods)) {
    if (!mayLack.includes(name)) expect(typeof store[name], name).toBe('function')
  }
})
