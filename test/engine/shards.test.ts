// The databases of a set: one that is alone, missing or passed in another order is refused.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { RepriseError } from '../../src/core/errors.ts'
import type { Commit } from '../../src/core/store/ports.ts'
import { shardOf } from '../../src/core/store/shards.ts'
import { forwardStore } from '../../src/core/store/store-wrapper.ts'
import { open } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { openStore, shardsUrl } from '../../src/engine/storage/open-store.ts'
import { timeline } from '../../src/index.ts'
import { createWorld, type MemoryWorld, openMemory } from '../../src/stores/memory/index.ts'
import { openSharded } from '../../src/stores/sharded/index.ts'
import { temporaryFolder } from '../support/fixture.ts'

const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state: { total: number }, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
})

let directory: string
const file = (name: string) => `sqlite:${join(directory, name)}`

beforeEach(() => {
  directory = temporaryFolder('set')
})

/** Opens and closes it. */
async function visit(url: string, options: { readonly readOnly?: boolean; readonly namespace?: string } = {}) {
  await (await openStore(url, options)).close()
}

describe('a set of shards', () => {
  it('refuses one of its shards that is opened alone, to write and to read', async () => {
    const set = shardsUrl([file('a.db'), file('b.db')])
    await visit(set)
    for (const readOnly of [false, true]) {
      for (const [i, name] of ['a.db', 'b.db'].entries()) {
        const message = expect.stringContaining(`is shard ${i} of a set of 2: open the complete set`)
        await expect(visit(file(name), { readOnly }), name).rejects.toMatchObject({ code: 'SHARDS_DIFFER', message })
      }
      await visit(set, { readOnly })
    }
    // A set is made in its namespace: the database may hold others.
    await visit(file('a.db'), { namespace: 'other' })
  })
  for (const lost of [0, 1, 2]) {
    it(`refuses an empty database in the place of shard ${lost}, and takes the right one again`, async () => {
      const names = ['a.db', 'b.db', 'c.db']
      await visit(shardsUrl(names.map(file)))
      const instead = names.map((name, i) => file(i === lost ? 'typo.db' : name))
      const missing = expect.stringMatching(
        `shard ${lost} of [-0-9a-f]+ is missing, and .*typo.db in its place is empty`,
      )
      for (const order of [instead, instead.toReversed()]) {
        for (const readOnly of [false, true]) {
          const differ = { code: 'SHARDS_DIFFER', message: missing }
          await expect(visit(shardsUrl(order), { readOnly })).rejects.toMatchObject(differ)
        }
      }
      expect(readdirSync(directory).filter((name) => name.startsWith('typo'))).toEqual([])
      await visit(shardsUrl(names.map(file)))
    })
  }

  it('reports a missing store to a read-only caller if none of its shards is one', async () => {
    const set = shardsUrl([file('a.db'), file('b.db')])
    await expect(visit(set, { readOnly: true })).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  it('refuses an empty database that comes back in the place of a shard', async () => {
    const stores = [0, 1, 2].map(() => openMemory({ namespace: 'n', hash: sha256, world: createWorld() }))
    let second = stores[1]!
    let isAway = false
    const unreachable = () => new RepriseError('STORE_UNREACHABLE', 'connection refused')
    const switched = new Proxy(stores[1]!, {
      get(_, name) {
        const member: unknown = Reflect.get(second, name, second)
        if (typeof member !== 'function') return member
        return (...args: unknown[]) => (isAway ? Promise.reject(unreachable()) : member.apply(second, args))
      },
    })
    const store = await openSharded(
      [stores[0]!, switched].map((each, i) => ({ name: `s${i}`, open: async () => each })),
    )
    await store.timelines({ limit: 1 })
    isAway = true
    await expect(store.timelines({ limit: 1 })).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
    second = stores[2]!
    isAway = false
    const message = expect.stringContaining('s1, which was unreachable, should be shard 1 of')
    const differs = expect.objectContaining({ code: 'SHARDS_DIFFER', message })
    const answer = async () => await store.timelines({ limit: 1 }).catch((error: unknown) => error)
    await expect.poll(answer, { timeout: 20_000 }).toEqual(differs)
    second = stores[1]!
    await expect.poll(answer, { timeout: 20_000 }).toEqual([])
    await store.close()
  })

  it('is finished by the next who opens it, wherever its making broke off', async () => {
    // Two commits number each shard, then one on each records that the set is complete.
    for (let survived = 0; survived < 9; survived++) {
      const worlds = [0, 1, 2].map(() => createWorld())
      const sources = (fail: () => void) =>
        worlds.map((world, i) => ({
          name: `memory ${i}`,
          open: async () => {
            const store = openMemory({ namespace: 'n', hash: sha256, world })
            const commit = (commits: readonly Commit[]) => {
              fail()
              return store.commit(commits)
            }
            return forwardStore(store, { commit })
          },
        }))
      let left = survived
      const die = () => {
        if (left-- === 0) throw new Error('killed')
      }
      await expect(openSharded(sources(die))).rejects.toThrow('killed')
      const whole = sources(() => undefined)
      await (await openSharded(whole)).close()
      const strange = { name: 'strange', open: async () => openMemory({ namespace: 'n', hash: sha256 }) }
      for (const at of [0, 1, 2]) {
        await expect(openSharded(whole.with(at, strange))).rejects.toMatchObject({ code: 'SHARDS_DIFFER' })
      }
    }
  })
  it('is the same with spaces between the addresses', async () => {
    await visit(shardsUrl([file('a.db'), file('b.db')]))
    await visit(`shards:${file('a.db')}, ${file('b.db')}`)
    await visit(`shards: ${file('b.db')} ,  ${file('a.db')} `)
    const made = readdirSync(directory).filter((name) => name.endsWith('.db'))
    expect(made.sort()).toEqual(['a.db', 'b.db'])
  })
  it('is made by several at once that have its shards in another order each', async () => {
    for (let round = 0; round < 5; round++) {
      const shards = ['a', 'b', 'c'].map((name) => file(`${name}${round}.db`))
      const orders = [shards, shards.toReversed(), [shards[1]!, shards[2]!, shards[0]!]]
      await Promise.all(orders.map((order) => visit(shardsUrl(order))))
      await visit(shardsUrl(shards))
    }
  })
  it('refuses another database where a shard was away when it was opened', async () => {
    const worlds = [0, 1].map(() => createWorld())
    let isAway = false
    const over = (second: MemoryWorld) =>
      [worlds[0]!, second].map((world, i) => ({
        name: `memory ${i}`,
        open: async () => {
          if (isAway && i === 1) throw new RepriseError('STORE_UNREACHABLE', 'it is down')
          return openMemory({ namespace: 'n', hash: sha256, world })
        },
      }))
    await (await openSharded(over(worlds[1]!))).close()
    const id = Array.from({ length: 20 }, (_, i) => `t/${i}`).find((each) => shardOf(each, 2) === 1)!
    for (const [second, isRight] of [[createWorld(), false] as const, [worlds[1]!, true] as const]) {
      isAway = true
      const store = await openSharded(over(second))
      isAway = false
      for (let again = 0; again < 2; again++) {
        const answer = Promise.resolve(store.head([timelineId(id)]))
        if (isRight) expect(await answer).toEqual([null])
        else await expect(answer).rejects.toMatchObject({ code: 'SHARDS_DIFFER' })
      }
      await store.close()
    }
  })
})

it('an interrupted addition of a shard shows how many timelines have moved, over all attempts', async () => {
  const rp = await open({ shards: [file('a.db'), file('b.db')], housekeeping: false })
  for (let n = 0; n < 24; n++) await (await rp.open(counter, `n${n}`)).append({ type: 'added', by: n })
  let reached = 0
  for (const _ of ['first', 'second']) {
    const controller = new AbortController()
    const onProgress = ({ moved }: { moved: number }) => {
      if (moved === 2) controller.abort()
    }
    await rp.addShard(file('c.db'), { wait: 0, signal: controller.signal, onProgress }).catch(() => undefined)
    const [change] = await rp.changes()
    expect(change).toMatchObject({ kind: 'shards', isRunning: false, done: reached + 2 })
    reached += 2
  }
  const { moved } = await rp.resumeChange('shards').then(async () => await rp.addShard(file('c.db'), { wait: 0 }))
  expect(moved).toBe(0)
  expect(await rp.changes()).toEqual([])
  await rp.close()
})
