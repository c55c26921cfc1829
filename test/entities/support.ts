// Shared parts of the tests of entities: a store with changeable answers, bytes that can be flipped, text that does not
// compress.

import { RepriseError } from '../../src/core/errors.ts'
import type { Store } from '../../src/core/store/ports.ts'
import type { EngineOptions } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { hostOf } from '../support/host.ts'
import type { World } from '../support/worlds.ts'

export interface Bend {
  commit?: Store['commit']
  read?: Store['read']
  checkpoints?: Store['checkpoints']
  feed?: Store['feed']
  blobsGet?: Store['blobs']['get']
  blobsPut?: Store['blobs']['put']
}

/** A store whose answers can be bent. */
export function bendable(store: Store, bend: Bend): Store {
  const blobs = new Proxy(store.blobs, {
    get: (held, name) => {
      if (name === 'get' && bend.blobsGet) return bend.blobsGet
      if (name === 'put' && bend.blobsPut) return bend.blobsPut
      return bound(held, name)
    },
  })
  // A separate target: a proxy of a frozen object, as the store of an engine is, may not return other values.
  return new Proxy({} as Store, {
    get: (_, name) => (name === 'blobs' ? blobs : (bend[name as 'commit'] ?? bound(store, name))),
  })
}

function bound(held: object, name: string | symbol): unknown {
  const member: unknown = Reflect.get(held, name, held)
  return typeof member === 'function' ? member.bind(held) : member
}

export async function bentEngine(
  world: World,
  bend: Bend,
  options: EngineOptions = {},
): Promise<{ rp: Reprise; store: Store }> {
  const store = await world.store()
  return { store, rp: await world.engine({ ports: { store: bendable(store, bend) }, ...options }) }
}

/**
 * An engine whose process can die: from then on its store answers nothing, and nothing it still tries has any effect. With
 * `fate` it dies at a commit (they are counted from 1): before the store has it, or before its answer comes.
 */
export async function mortal(
  world: World,
  fate: (commit: number) => 'live' | 'before' | 'after' = () => 'live',
): Promise<{ engine: Reprise; die(): Store }> {
  const store = await world.store()
  let isDead = false
  let commits = 0
  const dead = () => Promise.reject(new RepriseError('CLOSED', 'this process is dead'))
  const wrap = <T extends object>(target: T): T =>
    new Proxy(target, {
      get(held, name) {
        const member: unknown = Reflect.get(held, name, held)
        if (name === 'blobs') return wrap(member as object)
        if (typeof member !== 'function' || name === 'close' || name === 'listen') {
          return typeof member === 'function' ? member.bind(held) : member
        }
        return async (...args: unknown[]) => {
          if (isDead) return await dead()
          const end = name === 'commit' ? fate(++commits) : 'live'
          if (end === 'before') die()
          const answer = end === 'before' ? null : await member.apply(held, args)
          if (end === 'after') die()
          return end === 'live' ? answer : await dead()
        }
      },
    })
  const engine = await world.engine({ ports: { store: wrap(store) as Store } })
  const die = () => {
    isDead = true
    hostOf(engine).kernel.worker.abandon()
    return store
  }
  return { engine, die }
}

export function flipped(bytes: Uint8Array, place: number, bit = 0): Uint8Array {
  const copy = new Uint8Array(bytes)
  copy[place % copy.length]! ^= 1 << bit
  return copy
}

/** Text that does not compress, the same for the same seed. */
export function noise(seed: number, length: number): string {
  let word = seed + 1
  let text = ''
  for (let i = 0; i < length; i++) {
    word = (Math.imul(word, 1664525) + 1013904223) | 0
    text += String.fromCharCode(33 + ((word >>> 16) % 90))
  }
  return text
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

export const soon = (ms = 0) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** Waits until it holds, however slow the machine is; a test that never gets there runs into its time limit. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await soon(1)
}
