// A mover is killed after each of its calls. A read-only store cannot finish its move, and must see every timeline
// once and as it was: the copy that the signpost names, or else the original.

import { describe, expect, it } from 'vitest'
import { toHex } from '../../core/coordinate.ts'
import { archiveOf } from '../../core/history/scope.ts'
import type { Store } from '../../core/store/ports.ts'
import { arrivingStatus, shardOf } from '../../core/store/shards.ts'
import { asTimeline, asWorker, expectOk, hash, Kit, wholeFeed, worker } from '../../testing/conformance/kit.ts'
import { createWorld, type MemoryWorld, openMemory } from '../memory/index.ts'
import { openSharded, type ShardSource } from './index.ts'
import { membershipOf } from './membership.ts'

const ids = Array.from({ length: 100 }, (_, i) => `t/${i}`)
const moves = ids.find((id) => shardOf(id, 3) === 2)!
const stays = ids.find((id) => shardOf(id, 3) === 0)!

describe('a read-only store beside a killed mover', () => {
  it('sees every timeline once, wherever the mover was killed', async () => {
    let inactive = 0
    for (let calls = 0; ; calls++) {
      const world = new World()
      await world.fill()
      const before = await world.seen(2)
      const isKilled = await world.grow(calls)
      if (await world.isMember()) {
        expect(await world.seen(3), `killed after call ${calls}`).toEqual(before)
        inactive += await world.arriving()
      }
      if (!isKilled) break
    }
    expect(inactive, 'copies that were not activated').toBeGreaterThan(0)
  })
})

class World {
  readonly #worlds: readonly MemoryWorld[] = [0, 1, 2].map(() => createWorld())

  async fill(): Promise<void> {
    const store = await openSharded([0, 1].map((i) => this.#source(i)))
    const kit = new Kit(store, async () => store, {})
    for (const id of [moves, stays]) {
      const writer = await kit.create(id)
      const kept = await writer.append('first')
      await writer.publish(`checkpoint of ${id}`, { isPinned: true })
      await writer.append('second')
      const floor = { seq: 0, digest: (await kit.head(id)).floorDigest }
      const archive = asTimeline(archiveOf(id, 1))
      expectOk(await writer.commit({ branch: { archive, seq: 1, digest: kept.digest, floor } }))
      await writer.append('third')
      const base = { timeline: writer.id, seq: 1, digest: kept.digest }
      const fork = await kit.create(`fork of ${id}`, { create: { digest: kept.digest, base } })
      await fork.append('of the fork')
      expectOk(await fork.commit({ release: true }))
      const standing = { queue: 'q', wakeup: 1, status: 'due', attributes: { colour: 'red' } }
      expectOk(await writer.commit({ ...standing, release: true }))
    }
    await store.close()
  }

  /** Adds the third shard. Returns whether the mover was killed. */
  async grow(calls: number): Promise<boolean> {
    let left = calls
    const wrap = (store: Store) =>
      new Proxy(store, {
        get: (target, name) => {
          const value = Reflect.get(target, name, target) as unknown
          if (typeof value !== 'function') return value
          if (name === 'close' || name === 'listen') return value.bind(target)
          return async (...given: readonly unknown[]) => {
            left -= 1
            if (left < 0) throw new Error('killed')
            return await (value as (...given: readonly unknown[]) => unknown).apply(target, [...given])
          }
        },
      })
    try {
      const sources = [0, 1].map((i) => this.#source(i, wrap))
      const store = await openSharded(sources, { openAnother: () => this.#source(2, wrap) })
      await store.beat(worker('mover'))
      await store.shards!.grow({ url: '2', worker: asWorker('mover'), waitMs: 0 })
      return false
    } catch (error) {
      if (!/killed/.test(String(error))) throw error
      return true
    }
  }

  async isMember(): Promise<boolean> {
    return (await membershipOf(this.#memory(2))) !== null
  }

  async arriving(): Promise<number> {
    return (await this.#memory(2).timelines({ status: arrivingStatus, limit: 100 })).length
  }

  /** Everything that a read-only store shows of the timelines. */
  async seen(count: number): Promise<unknown> {
    const sources = Array.from({ length: count }, (_, i) => this.#source(i, (store) => store, true))
    const store = await openSharded(sources, { readOnly: true })
    const heads = await store.timelines({ limit: 100 })
    const due = await store.timelines({ status: 'due', queue: 'q', attributes: { colour: 'red' }, limit: 100 })
    const forks = await store.timelines({ parent: asTimeline(moves), limit: 100 })
    const each = await Promise.all(
      heads.map(async ({ timeline }) => {
        const [head] = await store.head([timeline])
        const { seq, digest, base, queue, status, wakeup, attributes, createdAt } = head!
        const runs = (await store.read(timeline, 0, 1e9)).map((run) => [run.first, toHex(run.digest)])
        const pins = (await store.checkpoints(timeline)).map(({ id, isPinned }) => [id, isPinned])
        const of = base && { ...base, digest: toHex(base.digest) }
        return { timeline, seq, digest: toHex(digest), of, queue, status, wakeup, attributes, createdAt, runs, pins }
      }),
    )
    const feed = (await wholeFeed(store, undefined, 3)).map(({ timeline, run }) => `${timeline} ${toHex(run.digest)}`)
    await store.close()
    const names = (some: typeof heads) => some.map(({ timeline }) => timeline)
    return { each, due: names(due), forks: names(forks), feed: feed.sort() }
  }

  #memory(i: number, readOnly = false): Store {
    return openMemory({ namespace: 'n', hash, world: this.#worlds[i]!, readOnly })
  }

  #source(i: number, wrap: (store: Store) => Store = (store) => store, readOnly = false): ShardSource {
    return { name: `memory ${i}`, open: async () => wrap(this.#memory(i, readOnly)) }
  }
}
